from ._build import from_arrays, from_dense, from_networkx, select_graphs
from ._check import (
    GRAPH_ID,
    TERMS,
    check,
    expect_one_tuple,
    expect_padded,
    expect_target,
    expect_undirected,
    expect_values,
    labels,
)
from ._one_hot import OneHot
from ._proximity import Proximity, list_edges

__all__ = [
    "GRAPH_ID",
    "TERMS",
    "OneHot",
    "Proximity",
    "check",
    "expect_one_tuple",
    "expect_padded",
    "expect_target",
    "expect_undirected",
    "expect_values",
    "from_arrays",
    "from_dense",
    "from_networkx",
    "labels",
    "list_edges",
    "select_graphs",
]
