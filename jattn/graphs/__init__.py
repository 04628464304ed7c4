"""Graphs: building, checking and converting a `jraph.GraphsTuple`; edge weights by proximity.

In jattn a set of graphs is one `jraph.GraphsTuple` with these fields::

    nodes      {"features": [nodes, features], "attention": [nodes]}   attention: the target, >= 0, all 0 if unknown
    edges      [edges]      weight of each directed edge; an undirected edge is listed in both directions
    senders    [edges]      node ids, counted over all graphs, int32
    receivers  [edges]
    globals    {"label": [graphs]}   a class, or a value to regress; {} if unknown: training and scores need it
    n_node     [graphs]
    n_edge     [graphs]

Features may be a `OneHot`, which stores them as integers until a batch is gathered.

Complete graphs whose weights are a function of node positions list no edges: `edges` is a `Proximity`, senders and
receivers are empty, and nodes also have "position" [nodes, dimensions].

Other fields of nodes and globals belong to the user and are kept. Names that begin with `_jattn` are reserved.

Arrays are numpy's on the host, jax's on the device. `jraph.batch_np` joins several GraphsTuples into one.
"""

from jattn.graphs._build import from_arrays, from_dense, from_networkx, select_graphs
from jattn.graphs._check import (
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
from jattn.graphs._one_hot import OneHot
from jattn.graphs._proximity import Proximity, list_edges

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
