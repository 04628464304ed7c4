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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
