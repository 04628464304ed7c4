"""The task loss, the KL divergence of attention from its target, and the auxiliary loss of DiffPool."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Num

from jattn._options import expect_one_of
from jattn.nn import SUM_OFFSET, PoolingResult, Topology, normalize_target
from jattn.types import Task

LOG_OFFSET = 1e-14  # beside an attention inside the logarithm


def task_loss(
    prediction: Float[Array, "graphs outputs"],
    label: Num[Array, " graphs"],
    graph_mask: Bool[Array, " graphs"],
    task: Task,
    count: Num[Array, ""] | None = None,
) -> Float[Array, ""]:
    """Squared error (regression) or cross entropy (classification), mean over real graphs; 0 if there are none.

    Args:
      prediction: outputs; logits for classification.
      label: the number to predict, or the class, counted from 0.
      graph_mask: which graphs are not padding.
      task: "regression" or "classification".
      count: number that divides the sum; the number of real graphs by default. Give the number of all graphs if these
        are only a part of a batch.

    Raises:
      ValueError: the task is not known, or prediction or label has the wrong shape.

    >>> predictions, labels = jnp.array([[1.0], [2.5], [9.0]]), jnp.array([1, 2, 0])
    >>> float(task_loss(predictions, labels, jnp.array([True, True, False]), "regression"))
    0.125
    """
    expect_of_task(prediction, label, task)
    prediction, label = jnp.where(graph_mask[:, None], prediction, 0), jnp.where(graph_mask, label, 0)
    if task == "regression":
        per_graph = (prediction[:, 0] - label.astype(prediction.dtype)) ** 2
    else:
        per_graph = optax.softmax_cross_entropy_with_integer_labels(prediction, label.astype(jnp.int32))
    return _mean(per_graph, graph_mask, count)


def expect_of_task(prediction: Any, label: Any, task: Task) -> None:
    """Raises `ValueError` unless predictions are [graphs, outputs] with a task's outputs, and each has a label."""
    expect_one_of("task", task, Task)
    if np.ndim(prediction) != 2 or (task == "regression" and prediction.shape[1] != 1):
        outputs = "1" if task == "regression" else "classes"
        raise ValueError(f"prediction: expected shape [graphs, {outputs}], got {np.shape(prediction)}")
    if np.shape(label) != (len(prediction),):
        raise ValueError(f"label: expected one number per graph ({len(prediction)}), got shape {np.shape(label)}")


def attention_loss(
    pooled: PoolingResult, target: Float[Array, " nodes"], topology: Topology, count: Num[Array, ""] | None = None
) -> Float[Array, ""]:
    r"""KL divergence of the attention of one pooling from its target, mean over real graphs.

    .. math:: \frac{1}{G} \sum_g \frac{1}{N_g + 10^{-7}} \sum_{i \in g} a_i (\log a_i - \log(\alpha_i + 10^{-14}))

    over the N_g nodes that entered the pooling. a is the target, normalized over them; terms with a_i = 0 are 0.
    Knyazev et al. 2019, eq. 4, without the weight beta.

    Args:
      pooled: result of the pooling.
      target: target attention of each node, not necessarily normalized, [nodes].
      topology: the graphs as the network received them.
      count: as for `task_loss`.
    """
    before = topology.subgraph(pooled.node_mask_in)
    target = normalize_target(target, before)
    positive = target > 0
    log_target = jnp.log(jnp.where(positive, target, 1.0))
    log_alpha = jnp.log(jnp.where(positive, pooled.attention, 1.0) + LOG_OFFSET)
    divergence = before.sum(jnp.where(positive, target * (log_target - log_alpha), 0.0))
    return _mean(divergence / (before.num_nodes + SUM_OFFSET), topology.graph_mask, count)


def auxiliary_loss(
    per_graph: Float[Array, " graphs"], graph_mask: Bool[Array, " graphs"], count: Num[Array, ""] | None = None
) -> Float[Array, ""]:
    """The auxiliary loss of one DiffPool, mean over real graphs; `dense_diff_pool` has the equation.

    Args:
      per_graph: auxiliary loss of each graph.
      graph_mask: which graphs are not padding.
      count: as for `task_loss`.
    """
    return _mean(per_graph, graph_mask, count)


def _mean(
    per_graph: Float[Array, " graphs"], real: Bool[Array, " graphs"], count: Num[Array, ""] | None
) -> Float[Array, ""]:
    count = jnp.maximum(real.sum() if count is None else count, 1)
    return jnp.sum(per_graph, where=real) / count.astype(per_graph.dtype)
