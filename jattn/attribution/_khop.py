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
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Array, Bool, Float, Int
from jraph import GraphsTuple

from jattn._cost_model import cost_model
from jattn.nn import Network, SparseTopology
from jattn.nn._kernels import EllCoo
from jattn.training import AnyArray, Params


class SubgraphBatch(NamedTuple):
    """Balls around the nodes of one graph, as many to a chunk as its rows hold. Nodes count from 0 in their graph.

    Attributes:
      removed: the node of each ball, -1 where there is none, [chunks, balls].
      ball: the ball of each row, ascending, [chunks, rows].
      node: the node of each row, -1 where there is none, [chunks, rows].
      changes: after how many of the layers the row's node has changed, counted from the last: L for nodes within c_1
        hops, 1 within c_L, 0 beyond, [chunks, rows].
      beyond_row: the row of each edge that the whole graph has in its list, not in its table, -1 where there is none,
        [chunks, beyond].
      beyond_entry: the entry of the whole graph's list that this is, [chunks, beyond].
    """

    removed: Int[AnyArray, "*chunks balls"]
    subgraph: Int[AnyArray, "*chunks rows"]
    node: Int[AnyArray, "*chunks rows"]
    changes: Int[AnyArray, "*chunks rows"]
    coo_row: Int[AnyArray, "*chunks beyond"]
    coo_entry: Int[AnyArray, "*chunks beyond"]


class FullGraphActivations(NamedTuple):
    """What the whole graph says.

    Attributes:
      topology: of the graph and its padding.
      features: what enters each layer and what leaves the last, [nodes, features] each.
      order: for each feature of the last the nodes from largest to smallest, [nodes, features]; for max readout alone,
        [0, 0] without.
    """

    topology: SparseTopology
    features: tuple[Float[Array, "nodes features"], ...]
    order: Int[Array, "nodes features"]


def receptive_fields(network: Network) -> list[int]:
    """How far the features after each layer change, in hops, c_1 to c_L; then how far the ball reaches."""
    hops = max(network.order - 1, 1)
    return [1 + layer * hops for layer in range(1, len(network.filters) + 2)]


def subgraph_batches(graph: GraphsTuple, network: Network, width: int, most: float = 1.0) -> SubgraphBatch | None:
    """The balls around all nodes of a graph.

    Args:
      graph: one graph, host-side.
      network: says how large they are.
      width: edges of a node that the whole graph's table has room for.
      most: None is returned where balls have on average more than this share of the graph, or where one does not fit
        into a chunk.
    """
    costs = cost_model()
    most_rows, most_balls, most_beyond = costs.subgraph_rows, costs.subgraph_count, costs.subgraph_edges
    within = _within(graph, receptive_fields(network), most)
    if within is None:
        return None
    nodes, start, node_of = within.shape[0], within.indptr, within.indices
    beyond = np.maximum(np.bincount(graph.receivers, minlength=nodes) - width, 0)
    listed = np.cumsum(beyond) - beyond  # the first entry of each node in the whole graph's list
    beyond_start = np.insert(np.cumsum(beyond[node_of]), 0, 0)[start]
    if np.diff(start).max(initial=0) > most_rows or np.diff(beyond_start).max(initial=0) > most_beyond:
        return None
    bounds = [0]
    while bounds[-1] < nodes:
        last = bounds[-1]
        rows = np.searchsorted(start, start[last] + most_rows, side="right") - 1
        entries = np.searchsorted(beyond_start, beyond_start[last] + most_beyond, side="right") - 1
        bounds.append(min(int(rows), int(entries), last + most_balls, nodes))

    def filled(columns: int, value: int) -> np.ndarray:
        return np.full((len(bounds) - 1, columns), value, np.int32)

    chunks = SubgraphBatch(
        removed=filled(most_balls, -1),
        subgraph=filled(most_rows, most_balls - 1),
        node=filled(most_rows, -1),
        changes=filled(most_rows, 0),
        coo_row=filled(most_beyond, -1),
        coo_entry=filled(most_beyond, 0),
    )
    for i, (first, end) in enumerate(itertools.pairwise(bounds)):
        node = node_of[start[first] : start[end]]
        count = beyond[node]
        row = np.repeat(np.arange(len(node)), count)
        chunks.removed[i, : end - first] = np.arange(first, end)
        chunks.subgraph[i, : len(node)] = np.repeat(np.arange(end - first), np.diff(start[first : end + 1]))
        chunks.node[i, : len(node)] = node
        chunks.changes[i, : len(node)] = within.data[start[first] : start[end]] - 1
        chunks.coo_row[i, : len(row)] = row
        chunks.coo_entry[i, : len(row)] = np.arange(len(row)) + (listed[node] - np.cumsum(count) + count)[row]
    return chunks


def _within(graph: GraphsTuple, distances: list[int], most: float) -> scipy.sparse.csr_array | None:
    """For every node and those near it, how many of the distances they are within; None as for `chunks_of`."""
    nodes = len(graph.nodes["attention"])
    joined = np.ones(len(graph.senders), bool), (graph.receivers, graph.senders)
    hop = scipy.sparse.csr_array(joined, (nodes, nodes)) + scipy.sparse.identity(nodes, bool, "csr")
    sources = cost_model().search_sources
    columns = -(-sources // 64) * 8
    near, sizes, total = [], [], 0
    for first in range(0, nodes, sources):
        own = np.arange(min(sources, nodes - first))
        reached = np.zeros((nodes, columns), np.uint8)  # a row a node, in it a bit for each source that is near
        reached[first + own, own // 8] = 1 << own % 8
        at = []
        for distance in range(1, distances[-1] + 1):
            words = reached.view(np.uint64)[hop.indices]  # eight bytes at a time
            reached = np.bitwise_or.reduceat(words, hop.indptr[:-1], axis=0).view(np.uint8)
            if distance in distances:
                at.append(reached)
        bits = np.unpackbits(reached, axis=1, count=len(own), bitorder="little")
        node, source = np.divmod(np.flatnonzero(bits.view(bool)), len(own))
        order = np.argsort(source.astype(np.uint16), kind="stable")
        node, source = node[order], source[order]
        byte, bit = node * columns + source // 8, (source % 8).astype(np.uint8)
        near.append((node, sum(of.reshape(-1)[byte] >> bit & 1 for of in at)))
        sizes.append(np.bincount(source, minlength=len(own)))
        total += len(node)
        if total > most * nodes**2:
            return None
    indices, data = (np.concatenate(x) for x in zip(*near, strict=True))
    indptr = np.insert(np.cumsum(np.concatenate(sizes)), 0, 0)
    return scipy.sparse.csr_array((data, indices, indptr), (nodes, nodes))


def full_graph_activations(
    network: Network, params: Params, graph: GraphsTuple, topology: SparseTopology
) -> tuple[Float[Array, "graphs outputs"], FullGraphActivations]:
    """The predictions of a padded batch of one graph, and what balls of it need to know."""
    x = topology.mask_nodes(graph.nodes["features"].astype(jnp.float32))
    features = [x]
    for i in range(len(network.filters)):
        features.append(_apply(network, params, "layer", i, features[-1], topology))
    z = topology.readout(features[-1], network.readout)  # ReLU has been, and leaves them as they are
    order = jnp.argsort(-features[-1], axis=0) if network.readout == "max" else jnp.zeros((0, 0), int)
    return _apply(network, params, "head", z), FullGraphActivations(topology, tuple(features), order)


def predict_without_each(
    network: Network, params: Params, whole: FullGraphActivations, chunk: SubgraphBatch
) -> Float[Array, "balls outputs"]:
    """The graph's prediction without the node in the middle of each ball of a chunk (arrays without their first axis).

    The chunk has to be made for the width of the whole graph's table.
    """
    topology = _subgraph_topology(whole.topology, chunk)
    layers = len(network.filters)
    row = jnp.where(chunk.node < 0, 0, chunk.node)
    x = topology.mask_nodes(whole.features[0][row])
    for i in range(layers):
        y = _apply(network, params, "layer", i, x, topology)
        changed = (chunk.changes >= layers - i)[:, None]
        x = jnp.where(changed, y, topology.mask_nodes(whole.features[i + 1][row]))
    inside = (chunk.changes > 0)[:, None]
    now = jnp.where(inside, x, 0)
    if network.readout == "max":
        in_ball = jnp.zeros((len(chunk.removed), len(whole.topology.node_mask)), bool)
        in_ball = in_ball.at[chunk.subgraph, row].max(inside[:, 0] & (chunk.node >= 0))
        z = jnp.maximum(topology.readout(now, "max"), _max_outside(whole, in_ball))
    else:
        before = jnp.where(inside & (chunk.node >= 0)[:, None], whole.features[-1][row], 0)
        z = whole.features[-1].sum(0)[None] + topology.sum_rows(now - before)  # the removed node's too
        if network.readout == "mean":
            z = z / jnp.maximum(whole.topology.node_mask.sum() - 1, 1).astype(z.dtype)
    return _apply(network, params, "head", z)


def _subgraph_topology(whole: SparseTopology, chunk: SubgraphBatch) -> SparseTopology:
    """The balls as graphs, each without the node in its middle; degrees are those in the whole graph without it."""
    rows, balls, nodes, a = len(chunk.node), len(chunk.removed), len(whole.node_mask), whole.adjacency
    ball, real = jnp.asarray(chunk.subgraph), jnp.asarray(chunk.node >= 0)
    row, own = jnp.where(real, chunk.node, 0), jnp.arange(rows)
    removed = chunk.removed[ball]
    kept = real & (chunk.node != removed)
    place = jnp.full((balls, nodes), rows).at[ball, jnp.where(real, row, nodes)].set(own, mode="drop")

    def edges_at(at: Callable[[Array], Array], neighbour: Array, value: Array) -> tuple[Array, Array, Array]:
        """Columns of edges, their weights after the removal, and the same with 0 for those that leave the ball."""
        value = jnp.where(at(kept) & (neighbour != at(removed)), value, 0)
        column = place[at(ball), neighbour]
        inside = column < rows
        return jnp.where(inside, column, at(own)), value, jnp.where(inside, value, 0)

    listed, entry = jnp.maximum(chunk.coo_row, 0), jnp.asarray(chunk.coo_entry)
    of_list = jnp.where(chunk.coo_row < 0, 0, a.coo_values[entry])
    columns, values, inside = edges_at(lambda x: x[:, None], a.ell_columns[row], a.ell_values[row])
    list_columns, list_values, list_inside = edges_at(lambda x: x[listed], a.coo_columns[entry], of_list)
    return SparseTopology(
        n_node=jnp.bincount(ball, length=balls),
        node_graph=ball,
        graph_mask=jnp.ones(balls, bool),
        node_mask=kept,
        degrees=values.sum(1).at[listed].add(list_values),
        max_nodes=rows,
        adjacency=EllCoo(columns, inside, listed, list_columns, list_inside),
    )


def _max_outside(whole: FullGraphActivations, in_ball: Bool[Array, "balls nodes"]) -> Float[Array, "balls features"]:
    """The maximum of each feature over nodes outside each ball, at least 0: the first of its order that is outside."""
    nodes, features = whole.order.shape
    of_ball, of_feature = jnp.arange(len(in_ball))[:, None], jnp.arange(features)[None]

    def node_at(rank: Array) -> Array:
        return whole.order[rank, of_feature]

    def is_inside(rank: Array) -> Array:
        return in_ball[of_ball, node_at(rank)] & (rank < nodes - 1)

    rank = jnp.zeros((len(in_ball), features), int)
    rank = jax.lax.while_loop(
        lambda rank: is_inside(rank).any(), lambda rank: rank + is_inside(rank).astype(rank.dtype), rank
    )
    return jnp.where(in_ball[of_ball, node_at(rank)], 0, whole.features[-1][node_at(rank), of_feature])


def _apply(network: Network, params: Params, method: str, *arguments: Any) -> Array:
    return cast(Array, network.apply({"params": params}, *arguments, method=method))
