"""Attention over nodes in graph neural networks: a functional API on jraph's GraphsTuples.

Graphs: `from_arrays`, `from_dense`, `from_networkx`, `Proximity`, `OneHot`, `check`, `select`, `pad`. Batches: `put`,
`pack`, `gather`, `plan`. Models: `Network` with `AttentionPooling` or `DiffPool`, over a topology from `edges` or
`blocks`; in a network of one's own, `Pool` and `ChebyGINConv`.
Training: `make_train` for one seed, `train_seeds` for many. Weak supervision: `leave_one_out`. Measures: `accuracy`,
`attention_auc`, `regression_errors`. Files: `save_network`, `load_network`. What is quick on a device: `CostModel`,
`use_cost_model`. Modules, imported where they are first used: `jattn.datasets`, `jattn.evaluation`, `jattn.figures`,
`jattn.superpixel_figures`, `jattn.published`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jattn._version import __version__
from jattn.attention import Scorer, normalize_target
from jattn.batching import Batch, Bucket, Split, drop_nodes, gather, pad, put, scatter
from jattn.checks import check
from jattn.cost_model import CostModel, cost_model, use_cost_model
from jattn.diffpool import DiffPool
from jattn.graphs import from_arrays, from_dense, from_networkx, select
from jattn.layers import ChebyGINConv
from jattn.leave_one_out import LeaveOneOut, leave_one_out
from jattn.left_out import leave_one_out_seeds
from jattn.losses import attention_loss, auxiliary_loss, task_loss
from jattn.metrics import RegressionErrors, accuracy, attention_auc, cosine_similarity, regression_errors
from jattn.model import Network, Output
from jattn.one_hot import OneHot
from jattn.packing import Packed, pack, plan, shuffled_batches, size_classes
from jattn.pooling import AttentionPooling, Pool, Pooled, Threshold, TopK
from jattn.proximity import Proximity, list_edges
from jattn.seeds import Epoch, predict_seeds, prepare_seeds, train_seeds
from jattn.topology import Blocks, Edges, Topology, blocks, edges
from jattn.training import Predictions, State, Train, TrainConfig, make_predict, make_train
from jattn.weights import load_network, save_network

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
    from jattn import evaluation as evaluation
    from jattn import figures as figures
    from jattn import published as published
    from jattn import superpixel_figures as superpixel_figures

_MODULES = ("datasets", "evaluation", "figures", "published", "superpixel_figures")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"jattn.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
