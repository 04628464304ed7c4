"""Accuracy, Matthews correlation, regression errors, AUC of attention, cosine of two vectors; on the host."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Num
from numpy.typing import ArrayLike

from jattn._options import as_numbers, expect_mask
from jattn.training import expect_of_task
from jattn.types import Task


def accuracy(prediction: ArrayLike, label: ArrayLike, task: Task) -> float:
    """Percentage of graphs predicted correctly.

    A regression is correct if the output rounds to the label (half to even), a classification if the largest logit is
    the label's. Outputs that are not finite are wrong.

    Args:
      prediction: outputs, [graphs, outputs].
      label: true classes or counts, [graphs].
      task: "regression" or "classification".

    Returns:
      The percentage, or NaN if there are no graphs.

    Raises:
      ValueError: a label is not an integer or not a class of the prediction, or a shape does not fit the task.

    >>> accuracy([[0.2, 1.3], [2.0, -1.0]], [1, 1], "classification")
    50.0
    """
    prediction, label = as_numbers("prediction", prediction), as_numbers("label", label)
    expect_of_task(prediction, label, task)
    if not are_counts(label):
        raise ValueError("label: accuracy is of integers; for real-valued labels use `regression_errors`")
    if len(label) == 0:
        return float("nan")
    if task == "classification" and (label.min() < 0 or label.max() >= prediction.shape[1]):
        classes = f"classes 0 to {prediction.shape[1] - 1}"
        raise ValueError(f"label: {label.min()} to {label.max()}, but the prediction has {classes}")
    return 100 * float(np.mean(is_correct(prediction, label, task)))


def is_correct(
    prediction: Num[np.ndarray, "graphs outputs"], label: Num[np.ndarray, " graphs"], task: Task
) -> Bool[np.ndarray, " graphs"]:
    """Whether each graph is predicted correctly, as `accuracy` counts it."""
    predicted = np.round(prediction[:, 0]) if task == "regression" else prediction.argmax(-1)
    return (predicted == label) & np.isfinite(prediction).all(-1)


def are_counts(label: Num[np.ndarray, " graphs"]) -> bool:
    """Whether all labels are integers, so that a regression is correct if its output rounds to the label."""
    return bool((label == np.round(label)).all())


def matthews_correlation(prediction: ArrayLike, label: ArrayLike) -> float:
    """Matthews correlation coefficient of predicted and true classes, in per cent.

    100 is perfect, 0 no better than a constant prediction, however rare a class is. Of several classes it is R_K of
    Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient", 2004. Outputs that are not
    finite are predictions of a class that no graph has.

    Args:
      prediction: logits, [graphs, classes].
      label: true classes, [graphs].

    Returns:
      The coefficient, from -100 to 100; 0 if all predictions or all labels are the same, NaN if there are no graphs.

    Raises:
      ValueError: a label is not a class of the prediction, or there is not one for each graph.

    >>> matthews_correlation([[1, 0], [1, 0], [0, 1], [0, 1]], [0, 0, 1, 0])
    57.735
    """
    if math.isnan(accuracy(prediction, label, "classification")):  # which also checks the arguments
        return math.nan
    prediction = as_numbers("prediction", prediction)
    predicted, label = predicted_classes(prediction), as_numbers("label", label)
    if len(np.unique(predicted)) == 1 or len(np.unique(label)) == 1:
        return 0.0
    from sklearn.metrics import matthews_corrcoef  # imported here, since it takes a second

    return 100 * float(matthews_corrcoef(label, predicted))


def predicted_classes(logits: Num[np.ndarray, "graphs classes"]) -> Int[np.ndarray, " graphs"]:
    """The class of the largest logit of each graph; -1 where a logit is not finite."""
    return np.where(np.isfinite(logits).all(-1), logits.argmax(-1), -1)


class RegressionErrors(NamedTuple):
    """Errors of real-valued predictions.

    Attributes:
      mae: mean absolute error.
      rmse: root mean squared error.
      r2: coefficient of determination, 1 - MSE / variance of the labels; NaN if all labels are equal.
    """

    mae: float
    rmse: float
    r2: float


def regression_errors(prediction: ArrayLike, label: ArrayLike) -> RegressionErrors:
    """Errors of a regression over all graphs, in units of the label; NaN if there are no graphs.

    Args:
      prediction: outputs, [graphs, 1].
      label: true values, [graphs].

    Raises:
      ValueError: there is more than one output per graph, or not one label for each.

    >>> regression_errors([[1.0], [3.0]], [1.0, 2.0])
    RegressionErrors(mae=0.5, rmse=0.7071, r2=-1.0)
    """
    prediction, label = as_numbers("prediction", prediction), as_numbers("label", label)
    expect_of_task(prediction, label, "regression")
    if len(label) == 0:
        return RegressionErrors(*3 * (float("nan"),))
    error = prediction[:, 0].astype(np.float64) - label
    variance = float(np.var(label, dtype=np.float64))
    mse = float(np.mean(error**2))
    r2 = 1 - mse / variance if variance else float("nan")
    return RegressionErrors(float(np.abs(error).mean()), mse**0.5, r2)


def attention_auc(attention: ArrayLike, target: ArrayLike, node_mask: ArrayLike | None = None) -> float:
    """Area under the ROC curve of attention as a score for target > 0, in per cent, over all nodes together.

    Args:
      attention: the scores, [nodes].
      target: target attention, [nodes].
      node_mask: nodes that entered the pooling, [nodes]. Default: all.

    Returns:
      The area, or NaN if there are no positive or no negative nodes, or an attention is not finite.

    Raises:
      ValueError: `node_mask` is not of booleans, the arrays differ in length, or a target is NaN.

    >>> attention_auc([0.7, 0.1, 0.2], target=[1.0, 0.0, 0.0])
    100.0
    """
    scores, truth = as_numbers("attention", attention), as_numbers("target", target)
    if scores.ndim != 1 or scores.shape != truth.shape:
        raise ValueError(f"attention: expected one number per target {truth.shape}, got shape {scores.shape}")
    if node_mask is not None:
        mask = np.asarray(node_mask)
        expect_mask("node_mask", mask, len(truth), "node")
        scores, truth = scores[mask], truth[mask]
    if (missing := np.isnan(truth)).any():
        raise ValueError(f"target[{int(missing.argmax())}] is nan: expected numbers, positive for a target")
    positive = truth > 0
    if positive.all() or not positive.any() or not np.isfinite(scores).all():
        return float("nan")
    # Imported here, since it takes a second. These two do the same as `roc_auc_score` in half its time.
    from sklearn.metrics import auc, roc_curve

    return 100 * float(auc(*roc_curve(positive, scores)[:2]))


def cosine_similarity(a: ArrayLike, b: ArrayLike) -> float:
    """Cosine of the angle between two vectors [features]; 0 if one of them is 0.

    Raises:
      ValueError: they are not vectors of the same length.

    >>> cosine_similarity([1.0, 0.0], [0.6, 0.8])
    0.6
    """
    a, b = as_numbers("a", a), as_numbers("b", b)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"a and b: expected two vectors of the same length, got shapes {a.shape} and {b.shape}")
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norm if norm else 0.0
