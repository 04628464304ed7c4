"""Graphs: building, checking and converting jraph's `GraphsTuple`s; weights by proximity.

Everywhere in jattn a set of graphs is one `jraph.GraphsTuple` whose fields are

    nodes      {"features": [nodes, features], "attention": [nodes]}   attention: target, >= 0, all zero where unknown
    edges      [edges]      weight of each directed edge; an undirected edge stands there in both directions
    senders    [edges]      node ids over all graphs, int32
    receivers  [edges]
    globals    {"label": [graphs]}   class, or value to regress
    n_node     [graphs]
    n_edge     [graphs]

Features may be a `OneHot`, which keeps them as integers until a batch is made.

Complete graphs whose weights follow from the places of their nodes list no edges: `edges` is a `Proximity`, senders and
receivers are empty, and nodes have "position" [nodes, dimensions] besides.

Other fields of nodes and globals are the user's and stay as they are; jattn's own begin with `_jattn`.

On the host the arrays are numpy's, on the device jax's. `jraph.batch_np` joins several into one.
"""

from jattn.graphs._build import from_arrays, from_dense, from_networkx, select
from jattn.graphs._check import GRAPH_ID, TERMS, check, expect_padded, expect_target, expect_undirected, expect_usable
from jattn.graphs._one_hot import OneHot
from jattn.graphs._proximity import Proximity, list_edges

__all__ = [
    "GRAPH_ID",
    "TERMS",
    "OneHot",
    "Proximity",
    "check",
    "expect_padded",
    "expect_target",
    "expect_undirected",
    "expect_usable",
    "from_arrays",
    "from_dense",
    "from_networkx",
    "list_edges",
    "select",
]
