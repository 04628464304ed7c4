"""Networks: the topology, Chebyshev convolutions, attention pooling, DiffPool, the configured network."""

from jattn.nn._attention_pooling import AttentionPooling, AttentionPoolingConfig, PoolingResult, Select, Threshold, TopK
from jattn.nn._chebyshev import Aggregation, chebyshev_terms
from jattn.nn._convolution import ChebyGINConv
from jattn.nn._diffpool import DiffPoolConfig
from jattn.nn._network import PRECISIONS, Network, Output, Precision, cluster_assignment
from jattn.nn._scorers import ScorerConfig, normalize_target
from jattn.nn._topology import (
    HIGHEST,
    SUM_OFFSET,
    BlockTopology,
    Readout,
    Softmax,
    SparseTopology,
    Topology,
    block_topology,
    sparse_topology,
)

__all__ = [
    "HIGHEST",
    "PRECISIONS",
    "SUM_OFFSET",
    "Aggregation",
    "AttentionPooling",
    "AttentionPoolingConfig",
    "BlockTopology",
    "ChebyGINConv",
    "DiffPoolConfig",
    "Network",
    "Output",
    "PoolingResult",
    "Precision",
    "Readout",
    "ScorerConfig",
    "Select",
    "Softmax",
    "SparseTopology",
    "Threshold",
    "TopK",
    "Topology",
    "block_topology",
    "chebyshev_terms",
    "cluster_assignment",
    "normalize_target",
    "sparse_topology",
]
