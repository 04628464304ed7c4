"""Accuracy, errors, the AUC of attention, and how well initial attention points at the optimum; on the host."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Num

from jattn._options import expect_mask
from jattn.training import Task, expect_of_task


def accuracy(prediction: Float[np.ndarray, "graphs outputs"], label: Num[np.ndarray, " graphs"], task: Task) -> float:
    """Share of graphs predicted rightly, in per cent: the rounded output (half to even) or the largest logit.

    Outputs that are not finite are wrong. NaN where there are no graphs.

    Raises:
      ValueError: labels are no whole numbers, or shapes do not fit the task.
    """
    expect_of_task(prediction, label, task)
    if not are_counts(label):
        raise ValueError("label: accuracy is of whole numbers; for real-valued ones take `regression_errors`")
    if len(label) == 0:
        return float("nan")
    predicted = np.round(prediction[:, 0]) if task == "regression" else prediction.argmax(-1)
    return 100 * float(np.mean((predicted == label) & np.isfinite(prediction).all(-1)))


def are_counts(label: Num[np.ndarray, " graphs"]) -> bool:
    """Whether all labels are whole numbers, so that a regression's outputs are right where they round to them."""
    return bool((label == np.round(label)).all())


class RegressionErrors(NamedTuple):
    """How far real-valued predictions are off.

    Attributes:
      mae: mean absolute error.
      rmse: root of the mean squared error.
      r2: coefficient of determination: 1 less the squared errors' sum as a share of that of always predicting the mean.
        NaN where all labels are equal.
    """

    mae: float
    rmse: float
    r2: float


def regression_errors(prediction: Float[np.ndarray, "graphs 1"], label: Num[np.ndarray, " graphs"]) -> RegressionErrors:
    """Errors of a regression over all graphs, in units of the label; NaN where there are no graphs.

    Raises:
      ValueError: there is more than one output a graph, or not one label for each.
    """
    expect_of_task(prediction, label, "regression")
    if len(label) == 0:
        return RegressionErrors(*3 * (float("nan"),))
    error = prediction[:, 0].astype(np.float64) - label
    variance = float(np.var(label, dtype=np.float64))
    squares = float(np.mean(error**2))
    r2 = 1 - squares / variance if variance else float("nan")
    return RegressionErrors(float(np.abs(error).mean()), squares**0.5, r2)


def attention_auc(
    attention: Float[np.ndarray, " nodes"],
    target: Float[np.ndarray, " nodes"],
    node_mask: Bool[np.ndarray, " nodes"] | None = None,
) -> float:
    """Area under the ROC curve of attention against target > 0, all nodes pooled together, in per cent.

    Args:
      attention: the scores.
      target: target attention.
      node_mask: nodes that entered the pooling; all where not given.

    Returns:
      The area, or NaN where there are no positive or no negative nodes, or an attention is not finite.

    Raises:
      ValueError: `present` is not of booleans, one of the three is not as long as the others, or a target is NaN.
    """
    attention, target = np.asarray(attention), np.asarray(target)
    if attention.ndim != 1 or attention.shape != target.shape:
        raise ValueError(f"attention: expected one number per target {target.shape}, got shape {attention.shape}")
    if node_mask is not None:
        node_mask = np.asarray(node_mask)
        expect_mask("node_mask", node_mask, len(target), "node")
        attention, target = attention[node_mask], target[node_mask]
    if np.isnan(target).any():
        raise ValueError(
            f"target[{int(np.isnan(target).argmax())}] is nan: expected numbers, positive where attended to"
        )
    positive = target > 0
    if positive.all() or not positive.any() or not np.isfinite(attention).all():
        return float("nan")
    # Imported here, as it takes a second; these two do what `roc_auc_score` does, in half its time.
    from sklearn.metrics import auc, roc_curve

    return 100 * float(auc(*roc_curve(positive, attention)[:2]))


def cosine_similarity(a: Float[np.ndarray, " features"], b: Float[np.ndarray, " features"]) -> float:
    """Cosine of the angle between two vectors; 0 if one of them is 0.

    >>> cosine_similarity(np.array([1.0, 0.0]), np.array([0.6, 0.8]))
    0.6
    """
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norm if norm else 0.0
