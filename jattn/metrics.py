"""Accuracy, the AUC of attention, and how well initial attention points at the optimum; on the host."""

import numpy as np
from jaxtyping import Bool, Float, Num

from jattn.losses import Task, expect_of_task


def accuracy(prediction: Float[np.ndarray, "graphs outputs"], label: Num[np.ndarray, " graphs"], task: Task) -> float:
    """Share of graphs predicted rightly, in per cent: the rounded output (half to even) or the largest logit.

    Outputs that are not finite are wrong. NaN where there are no graphs.
    """
    expect_of_task(prediction, label, task)
    if len(label) == 0:
        return float("nan")
    predicted = np.round(prediction[:, 0]) if task == "regression" else prediction.argmax(-1)
    return 100 * float(np.mean((predicted == label) & np.isfinite(prediction).all(-1)))


def attention_auc(
    attention: Float[np.ndarray, " nodes"],
    target: Float[np.ndarray, " nodes"],
    present: Bool[np.ndarray, " nodes"] | None = None,
) -> float:
    """Area under the ROC curve of attention against target > 0, all nodes pooled together, in per cent.

    Args:
      attention: the scores.
      target: target attention.
      present: nodes that entered the pooling; all where not given.

    Returns:
      The area, or NaN where there are no positive or no negative nodes, or an attention is NaN.
    """
    if present is not None:
        attention, target = attention[present], target[present]
    positive = target > 0
    if positive.all() or not positive.any() or np.isnan(attention).any():
        return float("nan")
    # Imported here, as it takes a second; these two do what `roc_auc_score` does, in half its time.
    from sklearn.metrics import auc, roc_curve

    return 100 * float(auc(*roc_curve(positive, attention)[:2]))


def cosine_similarity(a: Float[np.ndarray, " features"], b: Float[np.ndarray, " features"]) -> float:
    """Cosine of the angle between two vectors; 0 where one of them is 0."""
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norm if norm else 0.0
