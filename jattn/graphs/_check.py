"""What is wrong with a GraphsTuple, said precisely: fields, shapes, values, edges without their reverse, no padding."""

import contextlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Num
from jraph import GraphsTuple

from jattn.graphs._one_hot import OneHot
from jattn.graphs._proximity import Proximity

# Fields that training adds: the first layer's Chebyshev terms, [nodes, order * features], and what dropout goes by.
TERMS = "_jattn_terms"
GRAPH_ID = "_jattn_id"
_PASS = 1 << 20  # edges looked at together: few enough for a cache


def check(graphs: GraphsTuple) -> None:
    """Raises `ValueError` naming the first thing wrong with a numpy `GraphsTuple`; see the head of `jattn.graphs`."""
    _expect_shapes(graphs)
    by_rule = isinstance(graphs.edges, Proximity)
    features = graphs.nodes["features"]
    if isinstance(features, OneHot):
        _expect_codes(features)
        features = np.zeros((0, 1)) if features.others is None else features.others
    named = {"features": np.asarray(features)}
    named |= {} if by_rule else {"weights": np.asarray(graphs.edges)}
    named |= {"position": np.asarray(graphs.nodes["position"])} if by_rule else {}
    for name, array in named.items():
        _expect_finite(name, array)
    expect_target("attention", np.asarray(graphs.nodes["attention"]))
    _expect_labels(np.asarray(graphs.globals["label"]))
    if not by_rule:
        _expect_not_negative("weights", np.asarray(graphs.edges))
        _expect_within(graphs)
        _expect_symmetric(*_listed(graphs))


def expect_usable(graphs: GraphsTuple) -> None:
    """Raises `ValueError` where computations would go wrong without a word; quicker than `check`, which finds more.

    That is where a field is missing or has another shape, where target attention or a label is no number that it may
    be, or where `expect_undirected` raises.
    """
    _expect_shapes(graphs)
    expect_target("attention", np.asarray(graphs.nodes["attention"]))
    _expect_labels(np.asarray(graphs.globals["label"]))
    expect_undirected(graphs)


def expect_padded(graph: GraphsTuple) -> None:
    """Raises `ValueError` where what would count as padding is a graph, as far as that can be seen: not inside jit.

    Edges of padding all join its first node to itself, as `pad` leaves some. Where the last graph that has nodes lists
    no edges, it counts as padding if its features are 0.
    """
    with contextlib.suppress(jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        n_node, senders, receivers = map(np.asarray, jax.device_get((graph.n_node, graph.senders, graph.receivers)))
        if not n_node.any():
            return
        last = int(np.flatnonzero(n_node)[-1])
        start = int(n_node[:last].sum())
        ends = np.stack([senders, receivers])[:, senders >= start]
        wrong = (ends != start).any()
        if not ends.size:
            features = graph.nodes.get("features", graph.nodes) if isinstance(graph.nodes, Mapping) else graph.nodes
            rows = [array[start : start + n_node[last]] for array in jax.tree.leaves(jax.device_get(features))]
            wrong = any(np.any(np.asarray(row) != 0) for row in rows)
        if wrong:
            raise ValueError(
                f"graph: it is not padded: its last graph, of {n_node[last]} nodes, would count as padding; take "
                "`pad(graph)`, or a topology that is told which graphs are `real`"
            )


def expect_target(name: str, attention: Num[np.ndarray, "*seeds nodes"]) -> None:
    """Raises `ValueError` where target attention is not finite or less than 0."""
    _expect_finite(name, attention)
    _expect_not_negative(name, attention)


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
        if own := [name for name in has if str(name).startswith("_jattn")]:
            raise ValueError(f"graphs: {where} have {own[0]!r}, but names that begin with _jattn are jattn's own")
    n_node, n_edge = np.asarray(graphs.n_node), np.asarray(graphs.n_edge)
    if (n_node < 0).any() or (n_edge < 0).any():
        raise ValueError("n_node and n_edge: a size is negative")
    nodes, edges = int(n_node.sum(dtype=np.int64)), int(n_edge.sum(dtype=np.int64))
    if max(nodes, edges) > np.iinfo(np.int32).max:
        raise ValueError(f"graphs: {nodes} nodes and {edges} edges are more than numbers of 32 bits count; use parts")
    _expect_shape("features", graphs.nodes["features"], nodes, "node", ndim=2)
    if not np.shape(graphs.nodes["features"])[1]:
        raise ValueError("features: there are no columns; nodes that all look alike have one of ones")
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
    start = np.repeat(np.cumsum(n_node, dtype=np.int64) - n_node, n_edge)
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


def _expect_labels(label: np.ndarray) -> None:
    if label.dtype.kind not in "buif":
        raise ValueError(f"label: expected numbers, got {label.dtype}")
    _expect_finite("label", label)
    if label.dtype.kind in "ui" and label.size and not (label.min() >= -(2**31) and label.max() < 2**31):
        raise ValueError(f"label: {label.min()} to {label.max()} are not all integers of 32 bits")


def _expect_not_negative(name: str, array: np.ndarray) -> None:
    if (array < 0).any():
        where = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise ValueError(f"{name}{list(where)} is {array[where]}: expected at least 0")


def _expect_shape(name: str, array: Any, length: int, what: str, ndim: int = 1) -> None:
    shape = np.shape(array)
    if len(shape) != ndim or shape[0] != length:
        entry = "number" if ndim == 1 else "row"
        raise ValueError(f"{name}: expected one {entry} per {what} ({length}), got shape {shape}")


def _expect_finite(name: str, array: np.ndarray) -> None:
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise ValueError(f"{name}{list(where)} is {array[where]}: expected finite numbers")


def _expect_codes(features: OneHot) -> None:
    codes = np.asarray(features.codes)
    wrong = (codes < -1) | (codes >= features.columns)
    if wrong.any():
        node, label = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"features: code {codes[node, label]} of node {node}: expected -1 to {features.columns - 1}")
