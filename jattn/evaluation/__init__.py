"""Evaluation: metrics, and the scores of many seeds on test subsets."""

from jattn.evaluation._metrics import RegressionErrors, accuracy, attention_auc, cosine_similarity, regression_errors
from jattn.evaluation._scores import join, present, score, spread

__all__ = [
    "RegressionErrors",
    "accuracy",
    "attention_auc",
    "cosine_similarity",
    "join",
    "present",
    "regression_errors",
    "score",
    "spread",
]
