"""Networks: the topology, Chebyshev convolutions, attention pooling, DiffPool, the configured network."""

from jattn.nn._attention_pooling import AttentionPooling, Pool, Pooled, Rule, Threshold, TopK
from jattn.nn._chebyshev import Aggregation, chebyshev_terms
from jattn.nn._convolution import ChebyGINConv, Linear
from jattn.nn._diffpool import DiffPool
from jattn.nn._network import PRECISIONS, Network, Output, Precision
from jattn.nn._scorers import Scorer, normalize_target
from jattn.nn._topology import HIGHEST, SUM_OFFSET, Blocks, Edges, Readout, Softmax, Topology, blocks, edges

__all__ = [
    "HIGHEST",
    "PRECISIONS",
    "SUM_OFFSET",
    "Aggregation",
    "AttentionPooling",
    "Blocks",
    "ChebyGINConv",
    "DiffPool",
    "Edges",
    "Linear",
    "Network",
    "Output",
    "Pool",
    "Pooled",
    "Precision",
    "Readout",
    "Rule",
    "Scorer",
    "Softmax",
    "Threshold",
    "TopK",
    "Topology",
    "blocks",
    "chebyshev_terms",
    "edges",
    "normalize_target",
]
