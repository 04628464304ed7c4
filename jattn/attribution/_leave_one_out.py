"""Weak supervision: how far a prediction moves when a node is left out, for any predict function."""

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
from jattn.training import Task

Predict = Callable[[GraphsTuple, Bool[Array, " nodes"]], Float[Array, "graphs outputs"]]
MIN_CHANGE = 1e-5  # sum of movements, relative to max(1, |y|), at or under which no removal from a graph matters


class LeaveOneOut(NamedTuple):
    """What leaving each node out does.

    Attributes:
      attention: |y_i - y| / (sum_j |y_j - y| + 1e-7) over each graph, 0 for padding, [nodes].
      target: the same as a training target, [nodes]: all 0 in graphs where no removal matters, that is where
        sum_j |y_j - y| <= 1e-5 max(1, |y|), since there attention is made of rounding.
      moved: sum_j |y_j - y|, [graphs].
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
    chunk: int | None = None,
    real: Bool[Array, " graphs"] | None = None,
) -> LeaveOneOut:
    r"""Attention of every node by how far its removal moves its graph's prediction.

    .. math:: \alpha_i = |y_i - y| / (\textstyle\sum_j |y_j - y| + 10^{-7})

    y_i is the prediction without node i (its edges gone, degrees counted anew): the output for regression, for
    classification the logit of the class predicted for the whole graph. Knyazev et al. 2019, section 3.2. The k-th
    node of every graph is left out at once, so it takes `max_nodes` predictions of the batch. Labels are differences of
    predictions, so matrix products that name no precision of their own are computed at the highest.

    Args:
      predict: maps a padded `GraphsTuple` and a mask of the nodes to keep, [nodes], to [graphs, outputs]. For a
        `Network` that is `network.apply(variables, graph, sparse_topology(graph).subgraph(kept)).prediction`, for a
        function f of a `GraphsTuple` alone `f(drop_nodes(graph, kept))`.
      graph: a padded `GraphsTuple`, as from `pad`.
      max_nodes: nodes of its largest real graph or more; needed inside jit, where sizes can't be read. There a number
        that is too small makes all results NaN.
      task: what `predict` predicts.
      chunk: how many predictions to run together; all where not given. Memory grows with it.
      real: which graphs are not padding; those that jraph's padding leaves where not given.

    Raises:
      ValueError: `chunk` is less than 1, `max_nodes` is missing inside jit, a graph has more nodes than it says, or
        `predict` returns another shape.
    """
    expect_one_of("task", task, Task)
    expect_at_least(1, chunk=chunk)
    graph = jax.device_put(graph)
    if real is None:
        expect_padded(graph)
        real = jraph.get_graph_padding_mask(graph)
    expect_mask("graph_mask", real, len(graph.n_node), "graph")
    rows = jax.tree.leaves(graph.nodes)[0].shape[0]
    n_node = jnp.where(real, graph.n_node, 0)
    graph_of = jnp.repeat(jnp.arange(len(real)), graph.n_node, total_repeat_length=rows)
    place = jnp.arange(rows) - (jnp.cumsum(graph.n_node) - graph.n_node)[graph_of]
    max_nodes = _expect_max_nodes(n_node, max_nodes)
    chunk = min(chunk or max_nodes + 1, max_nodes + 1)
    copies = jax.vmap(lambda k: predict(graph, place != k))

    def leave_out(step: Array, predictions: Array) -> Array:
        first = step * chunk
        return jax.lax.dynamic_update_slice_in_dim(predictions, copies(first - 1 + jnp.arange(chunk)), first, axis=0)

    # Row k + 1 is the prediction without each graph's k-th node, row 0 that with all. As many steps as the graphs at
    # hand need, which may be fewer than `max_nodes` does.
    shape = jax.eval_shape(copies, jnp.arange(chunk))
    if len(shape.shape) != 3 or shape.shape[1] != len(real):
        raise ValueError(f"predict: expected to return [{len(real)} graphs, outputs], got shape {shape.shape[1:]}")
    predictions = jnp.zeros((-(-(max_nodes + 1) // chunk) * chunk, *shape.shape[1:]), shape.dtype)
    steps = -(-(n_node.max(initial=0) + 1) // chunk)
    predictions = jax.lax.fori_loop(0, steps, leave_out, predictions)
    predictions = jnp.where(n_node.max(initial=0) > max_nodes, jnp.nan, predictions)
    without = predictions[1:].at[place, graph_of].get(mode="fill", fill_value=0)
    return normalize_attribution(predictions[0], without, graph_of, real[graph_of], task)


def _expect_max_nodes(n_node: Int[Array, " graphs"], max_nodes: int | None) -> int:
    """`max_nodes`, or else the nodes of the largest graph; raises where one has more, as far as sizes can be read."""
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
    graph_of: Int[Array, " nodes"],
    real: Bool[Array, " nodes"],
    task: Task,
) -> LeaveOneOut:
    """The attention that follows from predictions; the equation is that of `leave_one_out`.

    Args:
      whole: the predictions of whole graphs.
      without: the prediction of its graph without each node.
      graph_of: the graph of each node, ascending.
      real: which nodes are not padding.
      task: what is predicted.
    """
    column = whole.argmax(-1) if task == "classification" else jnp.zeros(len(whole), int)
    y = jnp.take_along_axis(whole, column[:, None], axis=1)[:, 0]
    y_without = jnp.take_along_axis(without, column[graph_of][:, None], axis=1)[:, 0]
    change = jnp.where(real, jnp.abs(y_without - y[graph_of]), 0)
    moved = jraph.segment_sum(change, graph_of, len(whole), indices_are_sorted=True)
    matters = moved > MIN_CHANGE * jnp.maximum(1, jnp.abs(y))
    attention = change / (moved + SUM_OFFSET)[graph_of]
    return LeaveOneOut(attention, jnp.where(matters[graph_of], attention, 0), moved)
