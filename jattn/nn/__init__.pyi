from ._attention_pooling import AttentionPooling, AttentionPoolingConfig, PoolingResult, Select, Threshold, TopK
from ._chebyshev import chebyshev_terms
from ._convolution import ChebyGINConv
from ._diffpool import DiffPoolConfig
from ._network import PRECISIONS, Network, Output, cluster_assignment
from ._scorers import ScorerConfig, normalize_target
from ._topology import (
    HIGHEST,
    SUM_OFFSET,
    BlockTopology,
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
    "AttentionPooling",
    "AttentionPoolingConfig",
    "BlockTopology",
    "ChebyGINConv",
    "DiffPoolConfig",
    "Network",
    "Output",
    "PoolingResult",
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
