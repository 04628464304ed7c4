"""Building GraphsTuples from arrays, adjacency matrices and networkx; selecting some graphs of a set."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import scipy
from jraph import GraphsTuple
from numpy.typing import ArrayLike

from jattn._options import as_float, as_numbers, expect_mask
from jattn.graphs._check import check, expect_one_tuple
from jattn.graphs._proximity import Proximity

if TYPE_CHECKING:
    import networkx


def from_arrays(
    features: ArrayLike,
    senders: ArrayLike,
    receivers: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    attention: ArrayLike | None = None,
    label: float | None = None,
) -> GraphsTuple:
    """One graph from arrays.

    Args:
      features: input features, [nodes, features].
      senders: first node of each directed edge, [edges], counted from 0.
      receivers: second node of each directed edge, [edges]. List every undirected edge in both directions.
      weights: edge weights, [edges], equal in both directions. Default: 1.
      attention: target attention, [nodes], at least 0; it is normalized when it is used. Default: 0.
      label: the graph's class (an integer of 32 bits) or the value to regress (a float). Training and scores need
        it, predictions don't.

    Returns:
      A numpy `GraphsTuple` of one graph, with the fields that `jattn.graphs` lists.

    Raises:
      ValueError: an array has the wrong shape, a value is not finite, a node is out of range, an edge is listed twice
        or has no reverse.

    >>> graph = from_arrays([[1.0], [2.0], [3.0]], senders=[0, 1, 1, 2], receivers=[1, 0, 2, 1], label=1)
    >>> graph.n_node.tolist(), graph.n_edge.tolist()
    ([3], [4])
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
        globals={} if label is None else {"label": _label(label)},
        n_node=np.asarray([count], np.int32),
        n_edge=np.asarray([len(senders)], np.int32),
    )
    check(graph)
    return graph


def from_dense(
    features: ArrayLike,
    adjacency: "ArrayLike | scipy.sparse.sparray | scipy.sparse.spmatrix",
    *,
    attention: ArrayLike | None = None,
    label: float | None = None,
) -> GraphsTuple:
    """One graph from a symmetric matrix of edge weights, dense or of scipy.sparse.

    Args:
      features: input features, [nodes, features].
      adjacency: A, [nodes, nodes]; 0 means no edge.
      attention: as in `from_arrays`.
      label: as in `from_arrays`.

    Raises:
      ValueError: the matrix is not symmetric or has the wrong shape, or as in `from_arrays`.

    >>> from_dense([[1.0], [2.0]], [[0, 0.5], [0.5, 0]]).edges.tolist()
    [0.5, 0.5]
    """
    is_sparse = scipy.sparse.issparse(adjacency)
    matrix = scipy.sparse.csr_array(adjacency) if is_sparse else _numbers("adjacency", adjacency)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"adjacency: expected shape [nodes, nodes], got {matrix.shape}")
    count = len(_numbers("features", features))
    if matrix.shape[0] != count:
        raise ValueError(f"adjacency: {matrix.shape[0]} nodes, but features has {count}")
    senders, receivers = matrix.nonzero()  # scipy has added up entries that are listed twice
    weights = np.asarray(matrix[senders, receivers]).reshape(-1)
    return from_arrays(features, senders, receivers, weights=weights, attention=attention, label=label)


def from_networkx(
    graph: "networkx.Graph",
    *,
    features: str = "features",
    weight: str = "weight",
    attention: str = "attention",
    label: float | None = None,
) -> GraphsTuple:
    """One graph from an undirected networkx graph, with its nodes in the same order.

    Args:
      graph: an undirected graph without parallel edges.
      features: name of the node attribute with the input features: a number, or a sequence of the same length for each
        node.
      weight: name of the edge attribute with the weight; an edge without it has weight 1.
      attention: name of the node attribute with the target attention; a node without it has 0.
      label: as in `from_arrays`.

    Raises:
      ValueError: the graph is directed or a multigraph, there are no nodes, a node has no features, or as in
        `from_arrays`.

    >>> import networkx as nx
    >>> triangle = nx.complete_graph(3)
    >>> nx.set_node_attributes(triangle, {node: [float(node)] for node in triangle}, "features")
    >>> from_networkx(triangle).n_edge.tolist()
    [6]
    """
    _expect_networkx(graph)
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
        np.stack(rows),
        [u for u, _, _ in pairs],
        [v for _, v, _ in pairs],
        weights=[w for _, _, w in pairs],
        attention=[graph.nodes[node].get(attention, 0.0) for node in graph],
        label=label,
    )


def select_graphs(graphs: GraphsTuple, ids: ArrayLike | slice) -> GraphsTuple:
    """Some graphs of a numpy `GraphsTuple`.

    Args:
      graphs: host-side.
      ids: indices of graphs, counted from 0, in any order and maybe repeated; or a slice; or a mask of all graphs.

    Raises:
      ValueError: an index is out of range or not an integer, or a mask is not one boolean per graph.

    >>> import jraph
    >>> graphs = jraph.batch_np([from_arrays(np.ones((nodes, 1)), [], []) for nodes in (2, 3, 4)])
    >>> select_graphs(graphs, [2, 0]).n_node.tolist()
    [4, 2]
    """
    expect_one_tuple(graphs)
    count = len(graphs.n_node)
    ids = np.arange(count)[ids] if isinstance(ids, slice) else np.asarray(ids)
    if ids.dtype == bool:
        expect_mask("ids", ids, count, "graph")
        ids = np.flatnonzero(ids)
    if ids.ndim != 1 or (ids.size and not np.issubdtype(ids.dtype, np.integer)):
        raise ValueError(f"ids: expected whole numbers, [chosen], got {ids.dtype} of shape {ids.shape}")
    ids = ids.astype(np.int64)
    if (outside := (ids < 0) | (ids >= count)).any():
        raise ValueError(f"ids: {ids[outside.argmax()]} is out of range: there are {count} graphs")
    nodes, edges = (np.insert(np.cumsum(sizes), 0, 0) for sizes in (graphs.n_node, graphs.n_edge))

    def rows(array: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        # With slices no index of every row is needed, which for millions of edges is larger than the rows.
        pieces = zip(bounds[ids].tolist(), bounds[ids + 1].tolist(), strict=True)
        return np.concatenate([array[:0], *(array[start:stop] for start, stop in pieces)])

    n_node, n_edge = graphs.n_node[ids], graphs.n_edge[ids]
    offset = np.repeat((np.cumsum(n_node) - n_node - nodes[ids]).astype(np.int32), n_edge)
    return GraphsTuple(
        nodes=jax.tree.map(lambda array: rows(array, nodes), graphs.nodes),
        edges=graphs.edges if isinstance(graphs.edges, Proximity) else rows(graphs.edges, edges),
        senders=rows(graphs.senders, edges) + offset,
        receivers=rows(graphs.receivers, edges) + offset,
        globals={name: array[ids] for name, array in graphs.globals.items()},
        n_node=n_node,
        n_edge=n_edge,
    )


def _expect_networkx(graph: Any) -> None:
    """Raises `ValueError` unless it is one undirected graph of networkx with nodes and without parallel edges."""
    import networkx  # here, since few use it and it takes 0.1 s

    if isinstance(graph, list | tuple):
        raise ValueError(
            f"graph: expected one networkx.Graph, got a {type(graph).__name__} of {len(graph)}; "
            "jraph.batch_np([from_networkx(graph) for graph in graphs]) makes one GraphsTuple of them"
        )
    if not isinstance(graph, networkx.Graph):
        raise ValueError(f"graph: expected a networkx.Graph, got {type(graph).__name__}")
    if graph.is_directed() or graph.is_multigraph():
        raise ValueError(
            "graph: expected an undirected networkx.Graph; use graph.to_undirected() or networkx.Graph(graph)"
        )
    if not len(graph):
        raise ValueError(
            "graph: it has no nodes, so nothing tells how many features a node has; leave the graph out, or use "
            "from_arrays(np.zeros((0, columns)), [], [])"
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
    return as_numbers(name, values).astype(np.float32)


def _label(label: float) -> np.ndarray:
    if not isinstance(label, int | np.integer):
        return np.asarray([as_float("label", label)], np.float32)
    if not -(2**31) <= label < 2**31:
        raise ValueError(f"label: {label} is no integer of 32 bits; give a value to regress as a float")
    return np.asarray([label], np.int32)
