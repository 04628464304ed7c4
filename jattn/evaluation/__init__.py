"""Evaluation: metrics, and the scores of many seeds on test subsets."""

from jattn.evaluation._metrics import (
    RegressionErrors,
    accuracy,
    attention_auc,
    cosine_similarity,
    matthews_correlation,
    regression_errors,
)
from jattn.evaluation._scores import entered_masks, evaluate, join, mean_std

__all__ = [
    "RegressionErrors",
    "accuracy",
    "attention_auc",
    "cosine_similarity",
    "entered_masks",
    "evaluate",
    "join",
    "matthews_correlation",
    "mean_std",
    "regression_errors",
]
