"""Building GraphsTuples from arrays, networkx and dense adjacency; choosing some of a set."""

from collections.abc import Hashable

import jax
import networkx as nx
import numpy as np
import scipy.sparse
from jraph import GraphsTuple
from numpy.typing import ArrayLike

from jattn._options import as_float, expect_mask
from jattn.graphs._check import check
from jattn.graphs._proximity import Proximity


def from_arrays(
    features: ArrayLike,
    senders: ArrayLike,
    receivers: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    attention: ArrayLike | None = None,
    label: float = 0,
) -> GraphsTuple:
    """One graph from arrays.

    Args:
      features: input features, [nodes, features].
      senders: first node of each directed edge, [edges], counted from 0.
      receivers: second node of each directed edge, [edges]. Each edge has to be there in both directions.
      weights: edge weights, [edges]; 1 where not given. Both directions carry the same.
      attention: target attention, [nodes], at least 0; it is normalised where it is used. Zero where not given.
      label: the graph's class (an integer of 32 bits) or the value to regress.

    Returns:
      A numpy `GraphsTuple` of one graph, its fields as listed at the head of `jattn.graphs`.

    Raises:
      ValueError: an array has the wrong shape, a value is not finite, a node is out of range, an edge has no reverse.
    """
    x = np.asarray(features) if getattr(features, "dtype", None) == np.uint8 else _numbers("features", features)
    if x.ndim != 2:
        raise ValueError(f"features: expected shape [nodes, features], got {x.shape}")
    count = len(x)
    senders, receivers = _indices("senders", senders), _indices("receivers", receivers)
    weights = np.ones(len(senders), np.float32) if weights is None else _numbers("weights", weights)
    attention = np.zeros(count, np.float32) if attention is None else _numbers("attention", attention)
    graph = GraphsTuple(
        nodes={"features": x, "attention": attention},
        edges=weights,
        senders=senders,
        receivers=receivers,
        globals={"label": _label(label)},
        n_node=np.asarray([count], np.int32),
        n_edge=np.asarray([len(senders)], np.int32),
    )
    check(graph)
    return graph


def from_dense(
    features: ArrayLike,
    adjacency: ArrayLike | scipy.sparse.sparray | scipy.sparse.spmatrix,
    *,
    attention: ArrayLike | None = None,
    label: float = 0,
) -> GraphsTuple:
    """One graph from a symmetric weighted adjacency, [nodes, nodes], numpy's or scipy's; else as `from_arrays`."""
    is_sparse = scipy.sparse.issparse(adjacency)
    matrix = scipy.sparse.csr_array(adjacency) if is_sparse else _numbers("adjacency", adjacency)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"adjacency: expected shape [nodes, nodes], got {matrix.shape}")
    count = len(_numbers("features", features))
    if matrix.shape[0] != count:
        raise ValueError(f"adjacency: {matrix.shape[0]} nodes, but features has {count}")
    senders, receivers = matrix.nonzero()  # entries that are listed twice are added up before
    weights = np.asarray(matrix[senders, receivers]).reshape(-1)
    return from_arrays(features, senders, receivers, weights=weights, attention=attention, label=label)


def from_networkx(
    graph: nx.Graph,
    *,
    features: str = "features",
    weight: str = "weight",
    attention: str = "attention",
    label: float = 0,
) -> GraphsTuple:
    """One graph from an undirected networkx graph, nodes in its own order.

    Args:
      graph: an undirected graph without parallel edges.
      features: the node attribute that holds a node's features, a number or a sequence of equal length for all nodes.
      weight: the edge attribute that holds a weight; 1 where an edge lacks it.
      attention: the node attribute that holds the target attention; 0 where a node lacks it.
      label: as in `from_arrays`.

    Raises:
      ValueError: the graph is directed or a multigraph, or a node lacks its features.
    """
    if graph.is_directed() or graph.is_multigraph():
        raise ValueError(
            "graph: expected an undirected networkx.Graph; use graph.to_undirected() or networkx.Graph(graph)"
        )
    index: dict[Hashable, int] = {node: i for i, node in enumerate(graph)}
    for node, data in graph.nodes(data=True):
        if features not in data:
            raise ValueError(f"node {node!r} has no attribute {features!r}; it has {sorted(data)}")
    rows = [np.atleast_1d(_numbers(features, graph.nodes[node][features])) for node in graph]
    for node, row in zip(graph, rows, strict=True):
        if row.shape != rows[0].shape or row.ndim != 1:
            raise ValueError(f"{features}: node {node!r} has shape {row.shape}, the first node {rows[0].shape}")
    pairs = [(index[u], index[v], data.get(weight, 1.0)) for u, v, data in graph.edges(data=True)]
    pairs += [(v, u, w) for u, v, w in pairs if u != v]
    return from_arrays(
        np.stack(rows) if rows else np.zeros((0, 1), np.float32),
        [u for u, _, _ in pairs],
        [v for _, v, _ in pairs],
        weights=[w for _, _, w in pairs],
        attention=[graph.nodes[node].get(attention, 0.0) for node in graph],
        label=label,
    )


def select(graphs: GraphsTuple, ids: ArrayLike | slice) -> GraphsTuple:
    """Some of a numpy `GraphsTuple`'s graphs.

    Args:
      graphs: host-side.
      ids: their numbers in the order wanted, which count from 0 and may repeat; or a slice, or a mask of all graphs.

    Raises:
      ValueError: an id is out of range or no whole number, or a mask is not as long as there are graphs.
    """
    count = len(graphs.n_node)
    ids = np.arange(count)[ids] if isinstance(ids, slice) else np.asarray(ids)
    if ids.dtype == bool:
        expect_mask("ids", ids, count, "graph")
        ids = np.flatnonzero(ids)
    if ids.ndim != 1 or (ids.size and not np.issubdtype(ids.dtype, np.integer)):
        raise ValueError(f"ids: expected whole numbers, [chosen], got {ids.dtype} of shape {ids.shape}")
    ids = ids.astype(np.int64)
    if (wrong := (ids < 0) | (ids >= count)).any():
        raise ValueError(f"ids: {ids[wrong.argmax()]} is out of range: there are {count} graphs")
    nodes, edges = (np.insert(np.cumsum(sizes), 0, 0) for sizes in (graphs.n_node, graphs.n_edge))

    def rows(array: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        # Slices need no index of every row, which for millions of edges is larger than what it picks.
        pieces = zip(bounds[ids].tolist(), bounds[ids + 1].tolist(), strict=True)
        return np.concatenate([array[:0], *(array[start:stop] for start, stop in pieces)])

    n_node, n_edge = graphs.n_node[ids], graphs.n_edge[ids]
    moved = np.repeat((np.cumsum(n_node) - n_node - nodes[ids]).astype(np.int32), n_edge)
    by_rule = isinstance(graphs.edges, Proximity)
    return GraphsTuple(
        nodes=jax.tree.map(lambda array: rows(array, nodes), graphs.nodes),
        edges=graphs.edges if by_rule else rows(graphs.edges, edges),
        senders=rows(graphs.senders, edges) + moved,
        receivers=rows(graphs.receivers, edges) + moved,
        globals={name: array[ids] for name, array in graphs.globals.items()},
        n_node=n_node,
        n_edge=n_edge,
    )


def _indices(name: str, values: ArrayLike) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name}: expected shape [edges], got {array.shape}")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name}: expected integers, got {array.dtype}")
    limit = np.iinfo(np.int32).max
    if array.size and (array.min() < -limit or array.max() > limit):
        edge = int(np.argmax((array < -limit) | (array > limit)))
        raise ValueError(f"{name}[{edge}] is {array[edge]}: node ids count from 0")
    return array.astype(np.int32)


def _numbers(name: str, values: ArrayLike) -> np.ndarray:
    """As float32; raises where rows differ in length, or an entry is no number."""
    try:
        return np.asarray(values, np.float32)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: expected an array of numbers, its rows of equal length ({error})") from error


def _label(label: float) -> np.ndarray:
    if not isinstance(label, int | np.integer):
        return np.asarray([as_float("label", label)], np.float32)
    if not -(2**31) <= label < 2**31:
        raise ValueError(f"label: {label} is no integer of 32 bits; a value to regress is a float")
    return np.asarray([label], np.int32)
