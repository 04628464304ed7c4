r"""Leave-one-out of large sparse graphs: without a node, only its k-hop subgraph has to be computed again.

A layer of order K reads K - 1 hops (at least 1) around a node. Without node i, the normalized adjacency differs in the
rows up to 2 hops from i, because its neighbors lose a degree. So with h = max(K - 1, 1), the features after l layers
differ only within

.. math:: c_l = 1 + l h

hops of i. The network runs on the subgraph of c_L + h hops around i, with the degrees of the full graph without i.
After each layer, nodes beyond c_l hops are overwritten with their features from the full graph. The readout adds
the rest of the graph. The result is that of the full graph without i.

Which graphs are large and sparse enough is decided in `_whole_split.py`, by the limits of the `CostModel`
(`subgraph_nodes`, `subgraph_degree`, `subgraph_share`).
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Bool, Float, Int
from jraph import GraphsTuple

from jattn._cost_model import cost_model
from jattn.nn import Network, SparseTopology
from jattn.nn._kernels import EllCoo
from jattn.types import AnyArray, Params


class SubgraphBatch(NamedTuple):
    """k-hop subgraphs around the nodes of one graph, packed into chunks of a fixed number of rows. Nodes count from 0.

    Attributes:
      removed: the removed node in the center of each subgraph, -1 for none, [chunks, subgraphs].
      subgraph: the subgraph of each row, ascending, [chunks, rows].
      node: the node of each row, -1 for none, [chunks, rows].
      changes: number of final layers whose features differ from the full graph's at the node of each row: L within c_1
        hops, 1 within c_L, 0 beyond, [chunks, rows].
      coo_row: the row of each edge that is in the COO list of the full graph, -1 for none, [chunks, entries].
      coo_entry: the index of that edge in the list, [chunks, entries].
    """

    removed: Int[AnyArray, "*chunks subgraphs"]
    subgraph: Int[AnyArray, "*chunks rows"]
    node: Int[AnyArray, "*chunks rows"]
    changes: Int[AnyArray, "*chunks rows"]
    coo_row: Int[AnyArray, "*chunks entries"]
    coo_entry: Int[AnyArray, "*chunks entries"]


class FullGraphActivations(NamedTuple):
    """Activations of the intact graph.

    Attributes:
      topology: topology of the graph and its padding.
      features: features that enter each layer, and those after the last one, [nodes, features] each.
      order: nodes from the largest to the smallest value of each feature after the last layer, [nodes, features];
        [0, 0] unless the readout is "max".
    """

    topology: SparseTopology
    features: tuple[Float[Array, "nodes features"], ...]
    order: Int[Array, "nodes features"]


def hop_radii(network: Network) -> list[int]:
    """Hops within which features after each layer change, c_1 to c_L, and the hops of the subgraph, c_L + h."""
    hops = max(network.order - 1, 1)
    return [1 + layer * hops for layer in range(1, len(network.filters) + 2)]


def subgraph_batches(graph: GraphsTuple, network: Network, width: int, max_share: float = 1.0) -> SubgraphBatch | None:
    """The k-hop subgraphs around all nodes of a graph; None if they do not pay off.

    Args:
      graph: one graph, on the host.
      network: its order and number of layers set the hops.
      width: columns of the ELL table of the full graph.
      max_share: None is returned if subgraphs have on average more than this share of the graph, or if one does not fit
        into a chunk.
    """
    costs = cost_model()
    max_rows, max_subgraphs, max_entries = costs.subgraph_rows, costs.subgraph_count, costs.subgraph_edges
    hops = _nodes_within(graph, hop_radii(network), max_share)
    if hops is None:
        return None
    nodes, start, node_of = hops.shape[0], hops.indptr, hops.indices
    num_listed = np.maximum(np.bincount(graph.receivers, minlength=nodes) - width, 0)
    first_entry = np.cumsum(num_listed) - num_listed  # of each node in the COO list of the full graph
    entry_start = np.insert(np.cumsum(num_listed[node_of]), 0, 0)[start]
    if np.diff(start).max(initial=0) > max_rows or np.diff(entry_start).max(initial=0) > max_entries:
        return None
    bounds = [0]
    while bounds[-1] < nodes:
        last = bounds[-1]
        rows = np.searchsorted(start, start[last] + max_rows, side="right") - 1
        entries = np.searchsorted(entry_start, entry_start[last] + max_entries, side="right") - 1
        bounds.append(min(int(rows), int(entries), last + max_subgraphs, nodes))

    def filled(columns: int, value: int) -> np.ndarray:
        return np.full((len(bounds) - 1, columns), value, np.int32)

    chunks = SubgraphBatch(
        removed=filled(max_subgraphs, -1),
        subgraph=filled(max_rows, max_subgraphs - 1),
        node=filled(max_rows, -1),
        changes=filled(max_rows, 0),
        coo_row=filled(max_entries, -1),
        coo_entry=filled(max_entries, 0),
    )
    for i, (first, end) in enumerate(itertools.pairwise(bounds)):
        node = node_of[start[first] : start[end]]
        count = num_listed[node]
        row = np.repeat(np.arange(len(node)), count)
        chunks.removed[i, : end - first] = np.arange(first, end)
        chunks.subgraph[i, : len(node)] = np.repeat(np.arange(end - first), np.diff(start[first : end + 1]))
        chunks.node[i, : len(node)] = node
        chunks.changes[i, : len(node)] = hops.data[start[first] : start[end]] - 1
        chunks.coo_row[i, : len(row)] = row
        chunks.coo_entry[i, : len(row)] = np.arange(len(row)) + (first_entry[node] - np.cumsum(count) + count)[row]
    return chunks


def _nodes_within(graph: GraphsTuple, distances: list[int], max_share: float) -> "scipy.sparse.csr_array | None":
    """For every node and its neighbors, how many of the distances they are within; None as in `subgraph_batches`."""
    nodes = len(graph.nodes["attention"])
    joined = np.ones(len(graph.senders), bool), (graph.receivers, graph.senders)
    hop = scipy.sparse.csr_array(joined, (nodes, nodes)) + scipy.sparse.identity(nodes, bool, "csr")
    sources = cost_model().search_sources
    columns = -(-sources // 64) * 8
    near, sizes, total = [], [], 0
    for first in range(0, nodes, sources):
        source_ids = np.arange(min(sources, nodes - first))
        reached = np.zeros((nodes, columns), np.uint8)  # a row for each node, a bit for each source that reaches it
        reached[first + source_ids, source_ids // 8] = 1 << source_ids % 8
        by_distance = []
        for distance in range(1, distances[-1] + 1):
            words = reached.view(np.uint64)[hop.indices]  # eight bytes at a time
            reached = np.bitwise_or.reduceat(words, hop.indptr[:-1], axis=0).view(np.uint8)
            if distance in distances:
                by_distance.append(reached)
        bits = np.unpackbits(reached, axis=1, count=len(source_ids), bitorder="little")
        node, source = np.divmod(np.flatnonzero(bits.view(bool)), len(source_ids))
        order = np.argsort(source.astype(np.uint16), kind="stable")
        node, source = node[order], source[order]
        byte, bit = node * columns + source // 8, (source % 8).astype(np.uint8)
        near.append((node, sum(bits.reshape(-1)[byte] >> bit & 1 for bits in by_distance)))
        sizes.append(np.bincount(source, minlength=len(source_ids)))
        total += len(node)
        if total > max_share * nodes**2:
            return None
    indices, data = (np.concatenate(x) for x in zip(*near, strict=True))
    indptr = np.insert(np.cumsum(np.concatenate(sizes)), 0, 0)
    return scipy.sparse.csr_array((data, indices, indptr), (nodes, nodes))


def full_graph_activations(
    network: Network, params: Params, graph: GraphsTuple, topology: SparseTopology
) -> tuple[Float[Array, "graphs outputs"], FullGraphActivations]:
    """The prediction of a padded batch of one graph, and its activations."""
    x = topology.mask_nodes(graph.nodes["features"].astype(jnp.float32))
    features = [x]
    for i in range(len(network.filters)):
        features.append(jax.nn.relu(_apply(network, params, "layer", i, features[-1], topology)))
    z = topology.readout(features[-1], network.readout)
    order = jnp.argsort(-features[-1], axis=0) if network.readout == "max" else jnp.zeros((0, 0), int)
    z = network.scale_readout(z)
    return _apply(network, params, "head", z), FullGraphActivations(topology, tuple(features), order)


def predict_without_each(
    network: Network, params: Params, whole: FullGraphActivations, chunk: SubgraphBatch
) -> Float[Array, "subgraphs outputs"]:
    """The prediction of the graph without the central node of each subgraph of one chunk.

    Args:
      network: the architecture, without poolings.
      params: its weights.
      whole: activations of the intact graph.
      chunk: subgraphs, arrays without their first axis, made for the ELL table of the full graph.
    """
    topology = _subgraph_topology(whole.topology, chunk)
    layers = len(network.filters)
    row = jnp.where(chunk.node < 0, 0, chunk.node)
    x = topology.mask_nodes(whole.features[0][row])
    for i in range(layers):
        y = jax.nn.relu(_apply(network, params, "layer", i, x, topology))
        changed = (chunk.changes >= layers - i)[:, None]
        x = jnp.where(changed, y, topology.mask_nodes(whole.features[i + 1][row]))
    inside = (chunk.changes > 0)[:, None]
    now = jnp.where(inside, x, 0)
    if network.readout == "max":
        in_subgraph = jnp.zeros((len(chunk.removed), len(whole.topology.node_mask)), bool)
        in_subgraph = in_subgraph.at[chunk.subgraph, row].max(inside[:, 0] & (chunk.node >= 0))
        z = jnp.maximum(topology.readout(now, "max"), _max_outside(whole, in_subgraph))
    else:
        before = jnp.where(inside & (chunk.node >= 0)[:, None], whole.features[-1][row], 0)
        z = whole.features[-1].sum(0)[None] + topology.sum_rows(now - before)  # the removed node's too
        if network.readout == "mean":
            z = z / jnp.maximum(whole.topology.node_mask.sum() - 1, 1).astype(z.dtype)
    return _apply(network, params, "head", network.scale_readout(z))


def _subgraph_topology(whole: SparseTopology, chunk: SubgraphBatch) -> SparseTopology:
    """The subgraphs without their central nodes, with the degrees of the full graph without that node."""
    rows, subgraphs, nodes, a = len(chunk.node), len(chunk.removed), len(whole.node_mask), whole.adjacency
    subgraph, real = jnp.asarray(chunk.subgraph), jnp.asarray(chunk.node >= 0)
    row, row_index = jnp.where(real, chunk.node, 0), jnp.arange(rows)
    removed = chunk.removed[subgraph]
    kept = real & (chunk.node != removed)
    position = jnp.full((subgraphs, nodes), rows).at[subgraph, jnp.where(real, row, nodes)].set(row_index, mode="drop")

    def edges_at(at: Callable[[Array], Array], neighbor: Array, value: Array) -> tuple[Array, Array, Array]:
        """Columns of edges, their weights after the removal, and the weights with 0 for edges out of the subgraph."""
        value = jnp.where(at(kept) & (neighbor != at(removed)), value, 0)
        column = position[at(subgraph), neighbor]
        inside = column < rows
        return jnp.where(inside, column, at(row_index)), value, jnp.where(inside, value, 0)

    listed, entry = jnp.maximum(chunk.coo_row, 0), jnp.asarray(chunk.coo_entry)
    of_list = jnp.where(chunk.coo_row < 0, 0, a.coo_values[entry])
    columns, values, inside = edges_at(lambda x: x[:, None], a.ell_columns[row], a.ell_values[row])
    list_columns, list_values, list_inside = edges_at(lambda x: x[listed], a.coo_columns[entry], of_list)
    return SparseTopology(
        n_node=jnp.bincount(subgraph, length=subgraphs),
        node_graph=subgraph,
        graph_mask=jnp.ones(subgraphs, bool),
        node_mask=kept,
        degrees=values.sum(1).at[listed].add(list_values),
        max_nodes=rows,
        adjacency=EllCoo(columns, inside, listed, list_columns, list_inside),
    )


def _max_outside(
    whole: FullGraphActivations, in_subgraph: Bool[Array, "subgraphs nodes"]
) -> Float[Array, "subgraphs features"]:
    """The maximum of each feature over nodes outside each subgraph, at least 0."""
    nodes, features = whole.order.shape
    subgraph, feature = jnp.arange(len(in_subgraph))[:, None], jnp.arange(features)[None]

    def node_at(rank: Array) -> Array:
        return whole.order[rank, feature]

    def is_inside(rank: Array) -> Array:
        return in_subgraph[subgraph, node_at(rank)] & (rank < nodes - 1)

    rank = jnp.zeros((len(in_subgraph), features), int)
    rank = jax.lax.while_loop(
        lambda rank: is_inside(rank).any(), lambda rank: rank + is_inside(rank).astype(rank.dtype), rank
    )
    return jnp.where(in_subgraph[subgraph, node_at(rank)], 0, whole.features[-1][node_at(rank), feature])


def _apply(network: Network, params: Params, method: str, *arguments: Any) -> Array:
    return cast(Array, network.apply({"params": params}, *arguments, method=method))
