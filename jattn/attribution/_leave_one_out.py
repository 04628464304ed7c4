"""Leave-one-out attribution: the change of a graph's prediction without a node, for any predict function.

`_large_graphs.py` computes the same for networks on large sparse graphs.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jraph
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from jraph import GraphsTuple

from jattn._options import expect_at_least, expect_mask, expect_one_of
from jattn.graphs import expect_padded
from jattn.nn import SUM_OFFSET
from jattn.types import Change, Task

Predict = Callable[[GraphsTuple, Bool[Array, " nodes"]], Float[Array, "graphs outputs"]]
MIN_CHANGE = 1e-5  # total change relative to max(1, |y|) at or under which attention is only rounding


class LeaveOneOut(NamedTuple):
    """Leave-one-out attribution of every node.

    Attributes:
      attention: c_i / (sum_j c_j + 1e-7) over each graph, where c_i is the change of its prediction y without node i,
        |y_i - y| or max(0, y - y_i); 0 for padding, [nodes].
      target: the same as a training target, [nodes]. All 0 in graphs where no removal matters, that is where
        sum_j c_j <= 1e-5 max(1, |y|), because attention is only rounding there.
      total_change: sum_j c_j, [graphs].
    """

    attention: Float[Array | np.ndarray, "*seeds nodes"]
    target: Float[Array | np.ndarray, "*seeds nodes"]
    total_change: Float[Array | np.ndarray, "*seeds graphs"]


@jax.default_matmul_precision("highest")
def leave_one_out(
    predict: Predict,
    graph: GraphsTuple,
    max_nodes: int | None = None,
    *,
    task: Task = "regression",
    change: Change = "absolute",
    chunk: int | None = None,
    graph_mask: Bool[Array, " graphs"] | None = None,
) -> LeaveOneOut:
    r"""Attribution of every node: the change of its graph's prediction when the node is removed.

    .. math:: \alpha_i = |y_i - y| / (\textstyle\sum_j |y_j - y| + 10^{-7})

    y_i is the prediction without node i, without its edges and with degrees counted again: the output for regression,
    the logit of the class predicted for the whole graph for classification. Knyazev et al. 2019, section 3.2. The k-th
    node of every graph is left out at once, so it takes `max_nodes` predictions of the batch. Labels are differences of
    predictions, so matrix products without a precision of their own are computed at the highest.

    Args:
      predict: maps a padded `GraphsTuple` and a mask of the nodes to keep, [nodes], to [graphs, outputs]. For a
        `Network` that is `network.apply(variables, graph, sparse_topology(graph).subgraph(kept)).prediction`, for a
        function f of a `GraphsTuple` alone `f(drop_nodes(graph, kept))`.
      graph: a padded `GraphsTuple`, as from `pad`.
      max_nodes: nodes of the largest real graph, or more. Required inside jit, where sizes can't be read; a number that
        is too small makes all results NaN there.
      task: "regression" or "classification".
      change: what counts as a change. "absolute" is the equation above. "decrease" has max(0, y - y_i) in place of
        |y_i - y|: where nodes can only add to the prediction, as to a count, an increase is an error of the model.
      chunk: number of predictions to run together; all by default. Memory grows with it.
      graph_mask: which graphs are not padding; by default all but the last that has nodes, as jraph pads.

    Raises:
      ValueError: `task` or `change` is not known, `chunk` is less than 1, `max_nodes` is missing inside jit or less
        than the nodes of a graph, or `predict` returns another shape.

    >>> import jattn
    >>> graph = jattn.pad(jattn.from_arrays([[1.0], [3.0], [0.0]], senders=[0, 1], receivers=[1, 0]))
    >>> topology = jattn.sparse_topology(graph)
    >>> def predict(graph, node_mask):  # the sum of features
    ...     return topology.subgraph(node_mask).sum(graph.nodes["features"])
    >>> leave_one_out(predict, graph).attention[:3].round(3).tolist()
    [0.25, 0.75, 0.0]
    """
    expect_one_of("task", task, Task)
    expect_one_of("change", change, Change)
    expect_at_least(1, chunk=chunk)
    graph = jax.device_put(graph)
    if graph_mask is None:
        expect_padded(graph)
        graph_mask = jraph.get_graph_padding_mask(graph)
    expect_mask("graph_mask", graph_mask, len(graph.n_node), "graph")
    rows = jax.tree.leaves(graph.nodes)[0].shape[0]
    n_node = jnp.where(graph_mask, graph.n_node, 0)
    node_graph = jnp.repeat(jnp.arange(len(graph_mask)), graph.n_node, total_repeat_length=rows)
    index = jnp.arange(rows) - (jnp.cumsum(graph.n_node) - graph.n_node)[node_graph]  # of each node in its graph
    max_nodes = _expect_max_nodes(n_node, max_nodes)
    copies = jax.vmap(lambda k: predict(graph, index != k))
    predictions = _predict_copies(copies, n_node.max(initial=0), max_nodes, chunk or max_nodes + 1, len(graph_mask))
    without = predictions[1:].at[index, node_graph].get(mode="fill", fill_value=0)
    return normalize_attribution(predictions[0], without, node_graph, graph_mask[node_graph], task, change)


def _predict_copies(
    copies: Callable[[Array], Array], largest: Int[Array, ""], max_nodes: int, chunk: int, graphs: int
) -> Float[Array, "copies graphs outputs"]:
    """Row 0 has the predictions of whole graphs, row k + 1 those without the k-th node of each graph.

    Args:
      copies: numbers k, [chunk] -> predictions without the k-th node of each graph, [chunk, graphs, outputs].
      largest: nodes of the largest graph. It sets the number of steps; all results are NaN if `max_nodes` is less.
      max_nodes: rows but one.
      chunk: number of predictions to run together.
      graphs: graphs of the batch.
    """
    chunk = min(chunk, max_nodes + 1)
    shape = jax.eval_shape(copies, jnp.arange(chunk))
    if len(shape.shape) != 3 or shape.shape[1] != graphs:
        raise ValueError(f"predict: expected to return [{graphs} graphs, outputs], got shape {shape.shape[1:]}")

    def predict_chunk(step: Array, predictions: Array) -> Array:
        first = step * chunk
        return jax.lax.dynamic_update_slice_in_dim(predictions, copies(first - 1 + jnp.arange(chunk)), first, axis=0)

    predictions = jnp.zeros((-(-(max_nodes + 1) // chunk) * chunk, *shape.shape[1:]), shape.dtype)
    predictions = jax.lax.fori_loop(0, -(-(largest + 1) // chunk), predict_chunk, predictions)
    return jnp.where(largest > max_nodes, jnp.nan, predictions)


def _expect_max_nodes(n_node: Int[Array, " graphs"], max_nodes: int | None) -> int:
    """`max_nodes`, or the nodes of the largest graph; raises `ValueError` if one is seen to have more."""
    try:
        found = int(n_node.max(initial=0))
    except jax.errors.ConcretizationTypeError:  # inside jit
        if max_nodes is None:
            raise ValueError("max_nodes: inside jit, where sizes can't be read, it has to be given") from None
        return max_nodes
    if max_nodes is not None and found > max_nodes:
        raise ValueError(f"max_nodes: {max_nodes}, but a graph has {found} nodes")
    return max(1, found) if max_nodes is None else max_nodes


def normalize_attribution(
    whole: Float[Array, "graphs outputs"],
    without: Float[Array, "nodes outputs"],
    node_graph: Int[Array, " nodes"],
    real: Bool[Array, " nodes"],
    task: Task,
    change: Change,
) -> LeaveOneOut:
    """The attribution from predictions, by the equation of `leave_one_out`.

    Args:
      whole: predictions of whole graphs.
      without: prediction of its graph without each node.
      node_graph: the graph of each node, ascending.
      real: which nodes are not padding.
      task: "regression" or "classification".
      change: "absolute" or "decrease".
    """
    column = whole.argmax(-1) if task == "classification" else jnp.zeros(len(whole), int)
    y = jnp.take_along_axis(whole, column[:, None], axis=1)[:, 0]
    y_without = jnp.take_along_axis(without, column[node_graph][:, None], axis=1)[:, 0]
    decrease = y[node_graph] - y_without
    changes = jnp.where(real, jnp.abs(decrease) if change == "absolute" else jax.nn.relu(decrease), 0)
    total_change = jraph.segment_sum(changes, node_graph, len(whole), indices_are_sorted=True)
    matters = total_change > MIN_CHANGE * jnp.maximum(1, jnp.abs(y))
    attention = changes / (total_change + SUM_OFFSET)[node_graph]
    return LeaveOneOut(attention, jnp.where(matters[node_graph], attention, 0), total_change)
