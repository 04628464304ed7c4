"""Attention over nodes in graph neural networks: a functional API on jraph's GraphsTuples.

Graphs: `from_arrays`, `from_dense`, `from_networkx`, `Proximity`, `OneHot`, `check`, `select`, `pad`. Batches: `put`,
`pack`, `gather`, `plan`. Models: `Network` with `AttentionPooling` or `DiffPool`, over a topology from `edges` or
`blocks`; in a network of one's own, `Pool` and `ChebyGINConv`.
Training: `make_train` for one seed, `train_seeds` for many. Weak supervision: `leave_one_out`. Measures: `accuracy`,
`attention_auc`, `regression_errors`. Files: `save_network`, `load_network`. What is quick on a device: `CostModel`,
`use_cost_model`. Rooms that are imported where they are first used: `jattn.datasets`, `jattn.plots`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jattn._cost_model import CostModel, cost_model, use_cost_model
from jattn._version import __version__
from jattn.attribution import LeaveOneOut, leave_one_out, leave_one_out_seeds
from jattn.batching import (
    Batch,
    Bucket,
    Packed,
    Split,
    drop_nodes,
    gather,
    pack,
    pad,
    plan,
    put,
    scatter,
    shuffled_batches,
    size_classes,
)
from jattn.evaluation import RegressionErrors, accuracy, attention_auc, cosine_similarity, regression_errors
from jattn.graphs import OneHot, Proximity, check, from_arrays, from_dense, from_networkx, list_edges, select
from jattn.io import load_network, save_network
from jattn.nn import (
    AttentionPooling,
    Blocks,
    ChebyGINConv,
    DiffPool,
    Edges,
    Network,
    Output,
    Pool,
    Pooled,
    Scorer,
    Threshold,
    TopK,
    Topology,
    blocks,
    edges,
    normalize_target,
)
from jattn.training import (
    Epoch,
    Predictions,
    State,
    Train,
    TrainConfig,
    attention_loss,
    auxiliary_loss,
    make_predict,
    make_train,
    predict_seeds,
    prepare_seeds,
    task_loss,
    train_seeds,
)

__all__ = [
    "AttentionPooling",
    "Batch",
    "Blocks",
    "Bucket",
    "ChebyGINConv",
    "CostModel",
    "DiffPool",
    "Edges",
    "Epoch",
    "LeaveOneOut",
    "Network",
    "OneHot",
    "Output",
    "Packed",
    "Pool",
    "Pooled",
    "Predictions",
    "Proximity",
    "RegressionErrors",
    "Scorer",
    "Split",
    "State",
    "Threshold",
    "TopK",
    "Topology",
    "Train",
    "TrainConfig",
    "__version__",
    "accuracy",
    "attention_auc",
    "attention_loss",
    "auxiliary_loss",
    "blocks",
    "check",
    "cosine_similarity",
    "cost_model",
    "drop_nodes",
    "edges",
    "from_arrays",
    "from_dense",
    "from_networkx",
    "gather",
    "leave_one_out",
    "leave_one_out_seeds",
    "list_edges",
    "load_network",
    "make_predict",
    "make_train",
    "normalize_target",
    "pack",
    "pad",
    "plan",
    "predict_seeds",
    "prepare_seeds",
    "put",
    "regression_errors",
    "save_network",
    "scatter",
    "select",
    "shuffled_batches",
    "size_classes",
    "task_loss",
    "train_seeds",
    "use_cost_model",
]

if TYPE_CHECKING:
    from jattn import datasets as datasets
    from jattn import plots as plots

_MODULES = ("datasets", "plots")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"jattn.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
