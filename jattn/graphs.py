"""Building GraphsTuples from arrays, networkx and dense adjacency, and checking them.

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

On the host the arrays are numpy's, on the device jax's. `jraph.batch_np` joins several into one.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import jax
import networkx as nx
import numpy as np
from jaxtyping import Int
from jraph import GraphsTuple
from numpy.typing import ArrayLike

from jattn.one_hot import OneHot
from jattn.proximity import Proximity

_PASS = 1 << 20  # edges looked at together: few enough for a cache


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
      label: the graph's class (an integer) or the value to regress.

    Returns:
      A numpy `GraphsTuple` of one graph, its fields as listed at the head of this module.

    Raises:
      ValueError: an array has the wrong shape, a value is not finite, a node is out of range, an edge has no reverse.
    """
    x = np.asarray(features)
    if x.ndim != 2:
        raise ValueError(f"features: expected shape [nodes, features], got {x.shape}")
    count = len(x)
    senders, receivers = _indices("senders", senders), _indices("receivers", receivers)
    weights = np.ones(len(senders), np.float32) if weights is None else np.asarray(weights, np.float32)
    attention = np.zeros(count, np.float32) if attention is None else np.asarray(attention, np.float32)
    graph = GraphsTuple(
        nodes={"features": x if x.dtype == np.uint8 else x.astype(np.float32), "attention": attention},
        edges=weights,
        senders=senders,
        receivers=receivers,
        globals={"label": np.asarray([label], np.int32 if isinstance(label, int | np.integer) else np.float32)},
        n_node=np.asarray([count], np.int32),
        n_edge=np.asarray([len(senders)], np.int32),
    )
    check(graph)
    return graph


def from_dense(
    features: ArrayLike, adjacency: ArrayLike, *, attention: ArrayLike | None = None, label: float = 0
) -> GraphsTuple:
    """One graph from a symmetric weighted adjacency, [nodes, nodes]; the rest as in `from_arrays`."""
    adjacency = np.asarray(adjacency, np.float32)
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ValueError(f"adjacency: expected shape [nodes, nodes], got {adjacency.shape}")
    if len(adjacency) != len(np.asarray(features)):
        raise ValueError(f"adjacency: {len(adjacency)} nodes, but features has {len(np.asarray(features))}")
    senders, receivers = np.nonzero(adjacency)
    weights = adjacency[senders, receivers]
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
    rows = [np.atleast_1d(graph.nodes[node][features]) for node in graph]
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


def select(graphs: GraphsTuple, ids: Int[np.ndarray, " chosen"]) -> GraphsTuple:
    """Some of a numpy `GraphsTuple`'s graphs, in the order of `ids`, which count from 0 and may repeat.

    Raises:
      ValueError: an id is out of range.
    """
    count = len(graphs.n_node)
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


def check(graphs: GraphsTuple) -> None:
    """Raises `ValueError` naming the first thing wrong with a numpy `GraphsTuple`; see the head of this module."""
    _expect_shapes(graphs)
    by_rule = isinstance(graphs.edges, Proximity)
    features = graphs.nodes["features"]
    if isinstance(features, OneHot):
        _expect_codes(features)
        features = np.zeros((0, 1)) if features.others is None else features.others
    named = {"features": np.asarray(features), "attention": np.asarray(graphs.nodes["attention"])}
    named |= {} if by_rule else {"weights": np.asarray(graphs.edges)}
    named |= {"position": np.asarray(graphs.nodes["position"])} if by_rule else {}
    named["label"] = np.asarray(graphs.globals["label"])
    for name, array in named.items():
        _expect_finite(name, array)
        if name in ("attention", "weights") and (array < 0).any():
            first = int(np.argmax(array < 0))
            raise ValueError(f"{name}[{first}] is {array[first]}: expected at least 0")
    if not by_rule:
        _expect_within(graphs)
        _expect_symmetric(*_listed(graphs))


def expect_usable(graphs: GraphsTuple) -> None:
    """Raises `ValueError` where computations would go wrong without a word; quicker than `check`, which finds more.

    That is where a field is missing or has another shape, or where `expect_undirected` raises.
    """
    _expect_shapes(graphs)
    expect_undirected(graphs)


def expect_undirected(graphs: GraphsTuple) -> None:
    """Raises `ValueError` where an edge leaves its graph or lacks its reverse: some passes over edges, no sort.

    Products with A take it to be symmetric, and would else have wrong gradients.

    Args:
      graphs: host-side; not looked at where `edges` is no array of one weight each.
    """
    if np.ndim(graphs.edges) != 1 or isinstance(graphs.edges, Proximity):
        return
    _expect_listed(graphs)
    _expect_within(graphs)
    if not _cancels(*_listed(graphs), int(np.sum(graphs.n_node))):
        _expect_symmetric(*_listed(graphs))


def _expect_shapes(graphs: GraphsTuple) -> None:
    """Raises where a field is missing, or is not as long as it has to be."""
    for where, has, needed in (
        ("nodes", graphs.nodes, ("features", "attention")),
        ("globals", graphs.globals, ("label",)),
    ):
        for name in needed:
            if not isinstance(has, Mapping) or name not in has:
                there = sorted(has) if isinstance(has, Mapping) else type(has).__name__
                raise ValueError(f"graphs: {where} need {name!r}, they have {there}; see the head of jattn.graphs")
    n_node, n_edge = np.asarray(graphs.n_node), np.asarray(graphs.n_edge)
    if (n_node < 0).any() or (n_edge < 0).any():
        raise ValueError("n_node and n_edge: a size is negative")
    nodes, edges = int(n_node.sum()), int(n_edge.sum())
    _expect_shape("features", graphs.nodes["features"], nodes, "node", ndim=2)
    _expect_shape("attention", graphs.nodes["attention"], nodes, "node")
    _expect_shape("label", graphs.globals["label"], len(n_node), "graph")
    if not isinstance(graphs.edges, Proximity):
        _expect_listed(graphs)
        return
    if edges or np.size(graphs.senders) or np.size(graphs.receivers):
        raise ValueError(f"n_edge: {edges} edges are listed, but `edges` is a rule for their weights")
    if "position" not in graphs.nodes:
        raise ValueError('nodes: weights by proximity need "position", [nodes, dimensions]')
    _expect_shape("position", graphs.nodes["position"], nodes, "node", ndim=2)


def _expect_listed(graphs: GraphsTuple) -> None:
    """Raises where what is listed of edges is not as long as it has to be."""
    for name, array in (("senders", graphs.senders), ("receivers", graphs.receivers), ("weights", graphs.edges)):
        _expect_shape(name, array, int(np.sum(graphs.n_edge)), "directed edge")


def _listed(graphs: GraphsTuple) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.asarray(graphs.senders), np.asarray(graphs.receivers), np.asarray(graphs.edges)


def _expect_within(graphs: GraphsTuple) -> None:
    """Raises where an edge ends outside of its graph."""
    n_node, n_edge = np.asarray(graphs.n_node), np.asarray(graphs.n_edge)
    start = np.repeat(np.cumsum(n_node, dtype=np.int32) - n_node, n_edge)
    size = np.repeat(n_node, n_edge)
    for ends in _listed(graphs)[:2]:
        if not np.issubdtype(ends.dtype, np.integer):
            raise ValueError(f"senders and receivers: expected integers, got {ends.dtype}")
        local = ends - start
        wrong = (local < 0) | (local >= size)
        if wrong.any():
            edge = int(np.argmax(wrong))
            nodes = f"{size[edge]} nodes (0-{size[edge] - 1})" if size[edge] else "no nodes"
            raise ValueError(f"node {local[edge]} of edge {edge} is out of range: the graph has {nodes}")


def _cancels(senders: np.ndarray, receivers: np.ndarray, weights: np.ndarray, nodes: int) -> bool:
    """Whether an antisymmetric random function sums up to 0 over the edges, as it does where each has its reverse."""
    a, b = np.random.default_rng(0).integers(0, 2**64, (2, nodes), np.uint64)
    total = 0
    for start in range(0, len(senders), _PASS):
        s, r = (ends[start : start + _PASS] for ends in (senders, receivers))
        of_weight = np.asarray(weights[start : start + _PASS], np.float32).view(np.uint32)
        total += int(((a[s] * b[r] - a[r] * b[s]) * of_weight).sum(dtype=np.uint64))
    return total % 2**64 == 0


def _expect_symmetric(senders: np.ndarray, receivers: np.ndarray, weights: np.ndarray) -> None:
    forward, backward = np.lexsort((receivers, senders)), np.lexsort((senders, receivers))
    twice = (np.diff(senders[forward]) == 0) & (np.diff(receivers[forward]) == 0)
    if twice.any():
        edge = int(forward[1:][np.argmax(twice)])
        raise ValueError(f"edge {edge} ({senders[edge]} -> {receivers[edge]}) is listed twice; add the weights up")
    same = (senders[forward] == receivers[backward]) & (receivers[forward] == senders[backward])
    if not same.all():
        edge = _first_without_reverse(senders, receivers)
        pair = f"({senders[edge]} -> {receivers[edge]})"
        raise ValueError(f"edge {edge} {pair} has no reverse: an undirected edge is listed in both directions")
    unequal = weights[forward] != weights[backward]
    if unequal.any():
        at = int(np.argmax(unequal))
        edge, other = forward[at], backward[at]
        pair = f"({senders[edge]} -> {receivers[edge]})"
        raise ValueError(f"edge {edge} {pair} has weight {weights[edge]}, its reverse {weights[other]}")


def _first_without_reverse(senders: np.ndarray, receivers: np.ndarray) -> int:
    pairs = list(zip(senders.tolist(), receivers.tolist(), strict=True))
    listed = set(pairs)
    return next(i for i, (sender, receiver) in enumerate(pairs) if (receiver, sender) not in listed)


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


def _expect_shape(name: str, array: Any, length: int, what: str, ndim: int = 1) -> None:
    shape = np.shape(array)
    if len(shape) != ndim or shape[0] != length:
        entry = "number" if ndim == 1 else "row"
        raise ValueError(f"{name}: expected one {entry} per {what} ({length}), got shape {shape}")


def _expect_codes(features: OneHot) -> None:
    codes = np.asarray(features.codes)
    wrong = (codes < -1) | (codes >= features.columns)
    if wrong.any():
        node, label = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"features: code {codes[node, label]} of node {node}: expected -1 to {features.columns - 1}")


def _expect_finite(name: str, array: np.ndarray) -> None:
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise ValueError(f"{name}{list(where)} is {array[where]}: expected finite numbers")
