r"""Leave-one-out of large sparse graphs: when a node goes, only a ball around it changes.

A layer of order K reads K - 1 hops (at least 1) around a node, and without node i the normalised adjacency differs in
the rows up to 2 hops away from i, since its neighbours lose a degree. So with h = max(K - 1, 1) the features after l
layers differ within

.. math:: c_l = 1 + l h

hops of i alone. The network runs on the ball of c_L + h hops around i, with the degrees that nodes have in the whole
graph; after each layer the nodes beyond c_l get back the features that they have in the whole graph, and the readout of
the ball is completed from the rest of the graph. That is the same as running it on the whole graph without i.
"""

import itertools
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Array, Bool, Float, Int
from jraph import GraphsTuple

from jattn.layers import Linear
from jattn.model import Network
from jattn.products import Sparse
from jattn.topology import Edges

Params = Any
AnyArray = Array | np.ndarray

ROWS = 8192  # of a chunk of balls; it bounds memory
BALLS = 128  # of a chunk


class Chunks(NamedTuple):
    """Balls around the nodes of one graph, as many to a chunk as its rows hold. Nodes count from 0 in their graph.

    Attributes:
      removed: the node of each ball, -1 where there is none, [chunks, balls].
      ball: the ball of each row, ascending, [chunks, rows].
      node: the node of each row, -1 where there is none, [chunks, rows].
      changes: after how many of the layers the row's node has changed, counted from the last: L for nodes within c_1
        hops, 1 within c_L, 0 beyond, [chunks, rows].
    """

    removed: Int[AnyArray, "*chunks balls"]
    ball: Int[AnyArray, "*chunks rows"]
    node: Int[AnyArray, "*chunks rows"]
    changes: Int[AnyArray, "*chunks rows"]


class Whole(NamedTuple):
    """What the whole graph says.

    Attributes:
      topology: of the graph and its padding.
      features: what enters each layer and what leaves the last, [nodes, features] each.
      order: for each feature of the last the nodes from largest to smallest, [nodes, features].
    """

    topology: Edges
    features: tuple[Float[Array, "nodes features"], ...]
    order: Int[Array, "nodes features"]


def radii(network: Network) -> list[int]:
    """How far the features after each layer change, in hops, c_1 to c_L; then how far the ball reaches."""
    hops = max(network.order - 1, 1)
    return [1 + layer * hops for layer in range(1, len(network.filters) + 2)]


def chunks_of(graph: GraphsTuple, network: Network, most: float = 1.0) -> Chunks | None:
    """The balls around all nodes of a graph.

    Args:
      graph: one graph, host-side.
      network: says how large they are.
      most: None is returned where balls have on average more than this share of the graph, or where one does not fit
        into a chunk.
    """
    within = _within(graph, radii(network), most)
    if within is None or np.diff(within.indptr).max(initial=0) > ROWS:
        return None
    nodes, start, bounds = within.shape[0], within.indptr, [0]
    while bounds[-1] < nodes:
        last = bounds[-1]
        fitting = int(np.searchsorted(start, start[last] + ROWS, side="right")) - 1
        bounds.append(min(fitting, last + BALLS, nodes))
    size = len(bounds) - 1
    removed = np.full((size, BALLS), -1, np.int32)
    ball, node = np.full((size, ROWS), BALLS - 1, np.int32), np.full((size, ROWS), -1, np.int32)
    changes = np.zeros((size, ROWS), np.int32)
    for i, (first, end) in enumerate(itertools.pairwise(bounds)):
        of_chunk, rows = slice(start[first], start[end]), start[end] - start[first]
        removed[i, : end - first] = np.arange(first, end)
        ball[i, :rows] = np.repeat(np.arange(end - first), np.diff(start[first : end + 1]))
        node[i, :rows] = within.indices[of_chunk]
        changes[i, :rows] = within.data[of_chunk] - 1
    return Chunks(removed, ball, node, changes)


def _within(graph: GraphsTuple, distances: list[int], most: float) -> scipy.sparse.csr_array | None:
    """For every node and those near it, how many of the distances they are within; None as for `chunks_of`."""
    nodes = len(graph.nodes["attention"])
    itself, ones = scipy.sparse.identity(nodes, bool, "csr"), np.ones(len(graph.senders), bool)
    hop = scipy.sparse.csr_array((ones, (graph.receivers, graph.senders)), (nodes, nodes)) + itself
    reached, within = itself, scipy.sparse.csr_array((nodes, nodes), dtype=np.int8)
    for distance in range(1, distances[-1] + 1):
        reached = reached @ hop
        if reached.nnz > most * nodes**2:
            return None
        if distance in distances:
            within = within + reached.astype(np.int8)
    within.sort_indices()
    return within


def whole_graph(
    network: Network, params: Params, graph: GraphsTuple, topology: Edges
) -> tuple[Float[Array, "graphs outputs"], Whole]:
    """The predictions of a padded batch of one graph, and what balls of it need to know."""
    x = topology.zero_dropped(graph.nodes["features"].astype(jnp.float32))
    features = [x]
    for i in range(len(network.filters)):
        features.append(_layer(network, params, i, features[-1], topology))
    z = getattr(topology, network.readout)(features[-1])
    order = jnp.argsort(-features[-1], axis=0) if network.readout == "max" else jnp.zeros((0, 0), int)
    return _outputs(network, params, z), Whole(topology, tuple(features), order)


def without_each(network: Network, params: Params, whole: Whole, chunk: Chunks) -> Float[Array, "balls outputs"]:
    """The graph's prediction without the node in the middle of each ball of a chunk (arrays without their first axis).

    The whole graph's edges have to be side by side, all of them.
    """
    topology = _topology_of_balls(whole.topology, chunk)
    layers = len(network.filters)
    row = jnp.where(chunk.node < 0, 0, chunk.node)
    x = topology.zero_dropped(whole.features[0][row])
    for i in range(layers):
        y = _layer(network, params, i, x, topology)
        changed = (chunk.changes >= layers - i)[:, None]
        x = jnp.where(changed, y, topology.zero_dropped(whole.features[i + 1][row]))
    inside = (chunk.changes > 0)[:, None]
    now = jnp.where(inside, x, 0)
    if network.readout == "max":
        in_ball = jnp.zeros((BALLS, len(whole.topology.kept)), bool)
        in_ball = in_ball.at[chunk.ball, row].max(inside[:, 0] & (chunk.node >= 0))
        z = jnp.maximum(topology.max(now), _largest_outside(whole, in_ball))
    else:
        before = jnp.where(inside & (chunk.node >= 0)[:, None], whole.features[-1][row], 0)
        z = whole.features[-1].sum(0) + topology.sum(now - before)
        if network.readout == "mean":
            z = z / jnp.maximum(whole.topology.kept.sum() - 1, 1)
    return _outputs(network, params, z)


def _topology_of_balls(whole: Edges, chunk: Chunks) -> Edges:
    """The balls as graphs, each without the node in its middle; degrees are those in the whole graph without it."""
    rows, nodes = len(chunk.node), len(whole.kept)
    real = jnp.asarray(chunk.node >= 0)
    row = jnp.where(real, chunk.node, 0)
    removed = chunk.removed[chunk.ball]
    kept = real & (chunk.node != removed)
    neighbours = whole.adjacency.columns[row]
    values = jnp.where(kept[:, None] & (neighbours != removed[:, None]), whole.adjacency.values[row], 0)
    own = jnp.arange(rows)
    place = jnp.full((BALLS, nodes), rows).at[chunk.ball, jnp.where(real, row, nodes)].set(own, mode="drop")
    columns = place[chunk.ball[:, None], neighbours]
    there = columns < rows
    nothing = jnp.zeros(0, int)
    return Edges(
        n_node=jnp.bincount(chunk.ball, length=BALLS),
        graph_of=jnp.asarray(chunk.ball),
        real=jnp.ones(BALLS, bool),
        kept=kept,
        degrees=values.sum(1),
        largest=rows,
        adjacency=Sparse(
            columns=jnp.where(there, columns, own[:, None]),
            values=jnp.where(there, values, 0),
            list_rows=nothing,
            list_columns=nothing,
            list_values=nothing.astype(values.dtype),
        ),
    )


def _largest_outside(whole: Whole, in_ball: Bool[Array, "balls nodes"]) -> Float[Array, "balls features"]:
    """The maximum of each feature over nodes outside each ball, at least 0: the first of its order that is outside."""
    nodes, features = whole.order.shape
    of_ball, of_feature = jnp.arange(len(in_ball))[:, None], jnp.arange(features)

    def node_at(rank: Array) -> Array:
        return whole.order[rank, of_feature]

    def is_inside(rank: Array) -> Array:
        return in_ball[of_ball, node_at(rank)] & (rank < nodes - 1)

    rank = jnp.zeros((len(in_ball), features), int)
    rank = jax.lax.while_loop(lambda rank: is_inside(rank).any(), lambda rank: rank + is_inside(rank), rank)
    return jnp.where(in_ball[of_ball, node_at(rank)], 0, whole.features[-1][node_at(rank), of_feature])


def _layer(network: Network, params: Params, i: int, x: Array, topology: Edges) -> Float[Array, "nodes features"]:
    y = network.convolution(i).apply({"params": params[f"conv_{i}"]}, x, topology)
    return jax.nn.relu(cast(Array, y))


def _outputs(network: Network, params: Params, z: Array) -> Float[Array, "graphs outputs"]:
    return cast(Array, Linear(network.outputs).apply({"params": params["output"]}, z))
