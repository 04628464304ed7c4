"""Attention over nodes in graph neural networks: a functional API on jraph's GraphsTuples.

Graphs: `from_arrays`, `from_dense`, `from_networkx`, `Proximity`, `OneHot`, `check`, `select_graphs`, `pad`.
Batches: `device_put`, `pack`, `gather`, `evaluation_batches`.
Models: `Network` with `AttentionPoolingConfig` or `DiffPoolConfig`; for other networks `AttentionPooling` and
`ChebyGINConv` over a topology by `sparse_topology` or `block_topology`.
Training: `make_train` for one seed, `train_seeds` for many. Weak supervision: `leave_one_out`.
Metrics: `accuracy`, `matthews_correlation`, `attention_auc`, `regression_errors`.
Files: `save_network`, `load_network`. Ready-made models: `load_pretrained`, `pretrained_cards`.
Costs of a device: `CostModel`, `use_cost_model`. Imported at first use: `jattn.datasets`, `jattn.plots`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jattn._cost_model import CostModel, cost_model, use_cost_model
from jattn._version import __version__
from jattn.attribution import LeaveOneOut, leave_one_out, leave_one_out_seeds
from jattn.batching import (
    Batch,
    Bucket,
    DenseStorage,
    DeviceDataset,
    Packed,
    SparseStorage,
    device_put,
    drop_nodes,
    evaluation_batches,
    gather,
    pack,
    pad,
    scatter,
    shuffled_batches,
    size_classes,
)
from jattn.evaluation import (
    RegressionErrors,
    accuracy,
    attention_auc,
    cosine_similarity,
    matthews_correlation,
    regression_errors,
)
from jattn.graphs import OneHot, Proximity, check, from_arrays, from_dense, from_networkx, list_edges, select_graphs
from jattn.io import PretrainedCard, PretrainedScores, load_network, load_pretrained, pretrained_cards, save_network
from jattn.nn import (
    AttentionPooling,
    AttentionPoolingConfig,
    BlockTopology,
    ChebyGINConv,
    DiffPoolConfig,
    Network,
    Output,
    PoolingResult,
    ScorerConfig,
    SparseTopology,
    Threshold,
    TopK,
    Topology,
    block_topology,
    cluster_assignment,
    normalize_target,
    sparse_topology,
)
from jattn.training import (
    Epoch,
    Predictions,
    TrainConfig,
    TrainFunctions,
    TrainState,
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
    "AttentionPoolingConfig",
    "Batch",
    "BlockTopology",
    "Bucket",
    "ChebyGINConv",
    "CostModel",
    "DenseStorage",
    "DeviceDataset",
    "DiffPoolConfig",
    "Epoch",
    "LeaveOneOut",
    "Network",
    "OneHot",
    "Output",
    "Packed",
    "PoolingResult",
    "Predictions",
    "PretrainedCard",
    "PretrainedScores",
    "Proximity",
    "RegressionErrors",
    "ScorerConfig",
    "SparseStorage",
    "SparseTopology",
    "Threshold",
    "TopK",
    "Topology",
    "TrainConfig",
    "TrainFunctions",
    "TrainState",
    "__version__",
    "accuracy",
    "attention_auc",
    "attention_loss",
    "auxiliary_loss",
    "block_topology",
    "check",
    "cluster_assignment",
    "cosine_similarity",
    "cost_model",
    "device_put",
    "drop_nodes",
    "evaluation_batches",
    "from_arrays",
    "from_dense",
    "from_networkx",
    "gather",
    "leave_one_out",
    "leave_one_out_seeds",
    "list_edges",
    "load_network",
    "load_pretrained",
    "make_predict",
    "make_train",
    "matthews_correlation",
    "normalize_target",
    "pack",
    "pad",
    "predict_seeds",
    "prepare_seeds",
    "pretrained_cards",
    "regression_errors",
    "save_network",
    "scatter",
    "select_graphs",
    "shuffled_batches",
    "size_classes",
    "sparse_topology",
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
