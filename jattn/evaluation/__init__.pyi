from ._metrics import (
    RegressionErrors,
    accuracy,
    attention_auc,
    cosine_similarity,
    matthews_correlation,
    regression_errors,
)
from ._scores import entered_masks, evaluate, join, mean_std

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
