"""Checks of a GraphsTuple: fields, shapes, values, edges in both directions, padding."""

import contextlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import scipy
from jaxtyping import Num
from jraph import GraphsTuple

from jattn._options import as_numbers
from jattn.graphs._one_hot import OneHot
from jattn.graphs._proximity import Proximity

# Fields that training adds: Chebyshev terms of the first layer, [nodes, order * features], and ids that seed dropout.
TERMS = "_jattn_terms"
GRAPH_ID = "_jattn_id"


def check(graphs: GraphsTuple) -> None:
    """Raises `ValueError` naming the first fault of a numpy `GraphsTuple`; `jattn.graphs` lists the fields.

    >>> from jattn import from_arrays
    >>> graph = from_arrays([[1.0], [2.0]], senders=[0, 1], receivers=[1, 0])
    >>> check(graph._replace(edges=np.array([1.0, 3.0])))
    Traceback (most recent call last):
        ...
    ValueError: edge 0 (0 -> 1) has weight 1.0, its reverse 3.0
    """
    expect_one_tuple(graphs)
    _expect_sizes(graphs)
    _expect_fields(graphs)
    expect_values(graphs)
    expect_undirected(graphs)


def expect_one_tuple(graphs: Any) -> None:
    """Raises `ValueError` for a list of graphs, and for anything else that is not a `GraphsTuple`."""
    if isinstance(graphs, GraphsTuple):
        return
    if isinstance(graphs, list | tuple) and graphs and all(isinstance(graph, GraphsTuple) for graph in graphs):
        raise ValueError(
            f"graphs: expected one GraphsTuple, got a {type(graphs).__name__} of {len(graphs)}; "
            "jraph.batch_np(graphs) makes one of them"
        )
    raise ValueError(f"graphs: expected a jraph.GraphsTuple, got {type(graphs).__name__}")


def labels(graphs: GraphsTuple) -> Any:
    """The labels of graphs, [graphs]; raises `ValueError` if they have none."""
    if "label" not in graphs.globals:
        raise ValueError("label: the graphs have none; give them one, as in from_networkx(graph, label=1)")
    return graphs.globals["label"]


def expect_values(graphs: GraphsTuple) -> None:
    """Raises `ValueError` if features, positions, target attention or labels that are present have bad values."""
    nodes = graphs.nodes if isinstance(graphs.nodes, Mapping) else {}
    features = nodes.get("features")
    if isinstance(features, OneHot):
        _expect_codes(features)
        features = features.others
    for name, array in (("features", features), ("position", nodes.get("position"))):
        if array is not None:
            _expect_finite(name, np.asarray(array))
    if "attention" in nodes:
        expect_target("attention", np.asarray(nodes["attention"]))
    if isinstance(graphs.globals, Mapping) and "label" in graphs.globals:
        _expect_labels(np.asarray(graphs.globals["label"]))


def expect_target(name: str, attention: Num[np.ndarray, "*seeds nodes"]) -> None:
    """Raises `ValueError` if target attention is negative or not finite."""
    _expect_finite(name, attention)
    _expect_not_negative(name, attention)


def expect_undirected(graphs: GraphsTuple) -> None:
    """Raises `ValueError` unless the edges are those of undirected graphs, in both directions and with equal weights.

    Matrix products assume that A is symmetric: their gradients would be wrong otherwise. Edges that leave their graph,
    edges that are listed twice, and weights that are negative or not finite are refused too.

    Args:
      graphs: host-side. Nothing is checked unless `edges` is an array of one weight each.
    """
    if np.ndim(graphs.edges) != 1 or isinstance(graphs.edges, Proximity):
        return
    _expect_edge_shapes(graphs)
    _expect_finite("weights", np.asarray(graphs.edges))
    _expect_not_negative("weights", np.asarray(graphs.edges))
    _expect_within(graphs)
    _expect_symmetric(graphs)


def expect_padded(graph: GraphsTuple) -> None:
    """Raises `ValueError` if a graph would count as padding: one that is not padded. Inside jit this can't be seen.

    All edges of padding are self-loops of its first node, as `pad` makes them. If the last graph that has nodes has no
    edges, it counts as padding if its features are 0.
    """
    with contextlib.suppress(jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        n_node, senders, receivers = map(np.asarray, jax.device_get((graph.n_node, graph.senders, graph.receivers)))
        if not n_node.any():
            return
        last = int(np.flatnonzero(n_node)[-1])
        start = int(n_node[:last].sum())
        edges = np.stack([senders, receivers])[:, senders >= start]
        if edges.size:
            unpadded = (edges != start).any()
        else:
            features = graph.nodes.get("features", graph.nodes) if isinstance(graph.nodes, Mapping) else graph.nodes
            rows = [array[start : start + n_node[last]] for array in jax.tree.leaves(jax.device_get(features))]
            unpadded = any(np.any(np.asarray(row) != 0) for row in rows)
        if unpadded:
            raise ValueError(
                f"graph: it is not padded: its last graph, of {n_node[last]} nodes, would count as padding; use "
                "`pad(graph)`, or give the topology a `graph_mask`"
            )


def _expect_sizes(graphs: GraphsTuple) -> None:
    n_node, n_edge = np.asarray(graphs.n_node), np.asarray(graphs.n_edge)
    if (n_node < 0).any() or (n_edge < 0).any():
        raise ValueError("n_node and n_edge: a size is negative")
    nodes, edges = int(n_node.sum(dtype=np.int64)), int(n_edge.sum(dtype=np.int64))
    if max(nodes, edges) > np.iinfo(np.int32).max:
        raise ValueError(
            f"graphs: {nodes} nodes and {edges} edges are more than integers of 32 bits can count; split the graphs"
        )


def _expect_fields(graphs: GraphsTuple) -> None:
    """Raises `ValueError` if a field is missing or has the wrong shape."""
    for place, fields, names in (
        ("nodes", graphs.nodes, ("features", "attention")),
        ("globals", graphs.globals, ()),
    ):
        if not isinstance(fields, Mapping):
            found = type(fields).__name__
            raise ValueError(f"graphs: {place} need to be a dict of arrays, they are {found}; see `help(jattn.graphs)`")
        for name in names:
            if name not in fields:
                raise ValueError(f"graphs: {place} need {name!r}, they have {sorted(fields)}; see `help(jattn.graphs)`")
        if reserved := [name for name in fields if str(name).startswith("_jattn")]:
            raise ValueError(f"graphs: {place} have {reserved[0]!r}, but names that begin with _jattn are reserved")
    nodes = int(np.sum(graphs.n_node))
    _expect_shape("features", graphs.nodes["features"], nodes, "node", ndim=2)
    if not np.shape(graphs.nodes["features"])[1]:
        raise ValueError("features: there are no columns; give nodes without features one column of ones")
    _expect_shape("attention", graphs.nodes["attention"], nodes, "node")
    if "label" in graphs.globals:
        _expect_shape("label", graphs.globals["label"], len(graphs.n_node), "graph")
    if not isinstance(graphs.edges, Proximity):
        _expect_edge_shapes(graphs)
        return
    edges = int(np.sum(graphs.n_edge))
    if edges or np.size(graphs.senders) or np.size(graphs.receivers):
        raise ValueError(f"n_edge: {edges} edges are listed, but `edges` is a rule for their weights")
    if "position" not in graphs.nodes:
        raise ValueError('nodes: weights by proximity need "position", [nodes, dimensions]')
    _expect_shape("position", graphs.nodes["position"], nodes, "node", ndim=2)


def _expect_edge_shapes(graphs: GraphsTuple) -> None:
    edges = int(np.sum(graphs.n_edge))
    for name, array in (("senders", graphs.senders), ("receivers", graphs.receivers), ("weights", graphs.edges)):
        _expect_shape(name, array, edges, "directed edge")


def _expect_within(graphs: GraphsTuple) -> None:
    """Raises `ValueError` if an edge leaves its graph."""
    n_node, n_edge = np.asarray(graphs.n_node), np.asarray(graphs.n_edge)
    start = np.repeat(np.cumsum(n_node, dtype=np.int64) - n_node, n_edge)
    size = np.repeat(n_node, n_edge)
    for ends in (np.asarray(graphs.senders), np.asarray(graphs.receivers)):
        if not np.issubdtype(ends.dtype, np.integer):
            raise ValueError(f"senders and receivers: expected integers, got {ends.dtype}")
        local = ends - start
        outside = (local < 0) | (local >= size)
        if outside.any():
            edge = int(np.argmax(outside))
            nodes = f"{size[edge]} nodes (0-{size[edge] - 1})" if size[edge] else "no nodes"
            raise ValueError(f"node {local[edge]} of edge {edge} is out of range: the graph has {nodes}")


def _expect_symmetric(graphs: GraphsTuple) -> None:
    """Raises `ValueError` if an edge is listed twice, has no reverse, or has another weight than its reverse."""
    senders, receivers, weights = (np.asarray(array) for array in (graphs.senders, graphs.receivers, graphs.edges))
    edges, nodes = np.arange(len(senders)), int(np.sum(graphs.n_node))
    if (padding := (senders == receivers) & (weights == 0)).any():  # self-loops without weight, as `pad` adds them
        edges = edges[~padding]
        senders, receivers, weights = senders[edges], receivers[edges], weights[edges]
    # Compressed rows of A and of its transpose are made by counting, 5 times as fast as sorting the pairs. Entries that
    # are listed twice are added up.
    matrix = scipy.sparse.coo_array((weights.astype(np.float64), (senders, receivers)), shape=(nodes, nodes)).tocsr()
    transposed = matrix.T.tocsr()
    arrays = [(getattr(matrix, name), getattr(transposed, name)) for name in ("indptr", "indices", "data")]
    if matrix.nnz == len(edges) and all(np.array_equal(*pair) for pair in arrays):
        return

    def name(edge: int) -> str:
        return f"edge {edges[edge]} ({senders[edge]} -> {receivers[edge]})"

    pairs, reverses = senders * np.int64(nodes) + receivers, receivers * np.int64(nodes) + senders
    first = np.unique(pairs, return_index=True)[1]
    if len(first) < len(pairs):
        edge = int(np.setdiff1d(np.arange(len(pairs)), first)[0])
        raise ValueError(f"{name(edge)} is listed twice; add the weights up")
    if (single := ~np.isin(pairs, reverses)).any():
        raise ValueError(f"{name(int(single.argmax()))} has no reverse: list every undirected edge in both directions")
    order = np.argsort(pairs)
    reverse = order[np.searchsorted(pairs[order], reverses)]
    edge = int((weights != weights[reverse]).argmax())
    raise ValueError(f"{name(edge)} has weight {weights[edge]}, its reverse {weights[reverse[edge]]}")


def _expect_labels(label: np.ndarray) -> None:
    _expect_finite("label", label)
    if label.dtype.kind in "ui" and label.size and not (label.min() >= -(2**31) and label.max() < 2**31):
        raise ValueError(f"label: {label.min()} to {label.max()} are not all integers of 32 bits")


def _expect_not_negative(name: str, array: np.ndarray) -> None:
    if (array < 0).any():
        index = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise ValueError(f"{name}{list(index)} is {array[index]}: expected at least 0")


def _expect_shape(name: str, array: Any, length: int, unit: str, ndim: int = 1) -> None:
    shape = np.shape(array)
    if len(shape) != ndim or shape[0] != length:
        entry = "number" if ndim == 1 else "row"
        raise ValueError(f"{name}: expected one {entry} per {unit} ({length}), got shape {shape}")


def _expect_finite(name: str, array: np.ndarray) -> None:
    finite = np.isfinite(as_numbers(name, array))
    if not finite.all():
        index = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise ValueError(f"{name}{list(index)} is {array[index]}: expected finite numbers")


def _expect_codes(features: OneHot) -> None:
    codes = np.asarray(features.codes)
    unknown = (codes < -1) | (codes >= features.columns)
    if unknown.any():
        node, label = (int(i) for i in np.argwhere(unknown)[0])
        raise ValueError(f"features: code {codes[node, label]} of node {node}: expected -1 to {features.columns - 1}")
