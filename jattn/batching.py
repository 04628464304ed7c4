"""Batches of fixed size: a split that lives on the device, and padded GraphsTuples gathered from it inside jit.

A `Bucket` is the fixed size. As in jraph, padding is one extra graph that takes all unused nodes and edges and stands
right after the real graphs; unused graphs after it are empty. At least one node and one graph of a bucket are padding.
"""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jraph
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int
from jraph import GraphsTuple

from jattn.topology import Topology, blocks, edges

BLOCK_LIMIT = 128  # slots up to which dense blocks of A beat edge lists for sparse graphs
SLOTS_PER_ROW = 1.25  # slots of blocks that `plan` allows for each row, as its small graphs leave most of theirs empty
TYPICAL_ORDERS = 25  # random orders whose largest batches tell what is usual
DENSE_LIMIT = 2**25  # entries of A up to which a split keeps it dense: 128 MiB


class Bucket(NamedTuple):
    """Capacities of a batch, padding included.

    Attributes:
      nodes: rows for nodes.
      edges: rows for directed edges.
      graphs: graphs.
      slots: nodes of the largest graph.
    """

    nodes: int
    edges: int
    graphs: int
    slots: int


@struct.dataclass
class Split:
    """All graphs of a split on the device, in the layout of `jattn.graphs`, and where each one's rows start.

    Attributes:
      graphs: one `GraphsTuple` without padding.
      node_start: first row of each graph's nodes, [graphs].
      edge_start: first row of each graph's edges, [graphs].
      adjacency: of each graph, dense, and of one without edges; None where it would take much memory.
    """

    graphs: GraphsTuple
    node_start: Int[Array, "graphs"]
    edge_start: Int[Array, "graphs"]
    adjacency: Float[Array, "graphs+1 slots slots"] | None

    def with_attention(self, attention: Float[Array, "nodes"]) -> "Split":
        """The same split with another target attention."""
        return dataclasses.replace(
            self, graphs=self.graphs._replace(nodes={**self.graphs.nodes, "attention": attention})
        )


class Batch(NamedTuple):
    """Graphs gathered from a split.

    Attributes:
      graph: padded `GraphsTuple`.
      topology: of `graph`, in the storage that is quickest for its size.
      graph_ids: the graphs' places in the split, the split's number of graphs for padding, [graphs].
      node_ids: the nodes' places in the split, its number of nodes for padding, [nodes].
    """

    graph: GraphsTuple
    topology: Topology
    graph_ids: Int[Array, "graphs"]
    node_ids: Int[Array, "nodes"]


def pad(graphs: GraphsTuple, bucket: Bucket | None = None) -> GraphsTuple:
    """A set of graphs as one padded batch, as networks take it.

    Args:
      graphs: a `GraphsTuple` without padding.
      bucket: the batch's size; the smallest that holds the graphs where not given.

    Raises:
      ValueError: the bucket does not hold the graphs.
    """
    everything = bucket_of(graphs, np.arange(len(graphs.n_node)))
    bucket = bucket or everything
    for name, capacity, needed in zip(Bucket._fields, bucket, everything, strict=True):
        unrounded = needed if name in ("graphs", "slots") else int(np.sum(getattr(graphs, f"n_{name[:-1]}"))) + 1
        if capacity < unrounded:
            raise ValueError(f"bucket: {capacity} {name}, but the graphs and their padding need {unrounded}")
    return jraph.pad_with_graphs(graphs, bucket.nodes, bucket.edges, bucket.graphs)


def put(graphs: GraphsTuple) -> Split:
    """Puts a host-side split on the device."""
    n_node, n_edge = np.asarray(graphs.n_node), np.asarray(graphs.n_edge)
    node_start, edge_start = ((np.cumsum(n) - n).astype(np.int32) for n in (n_node, n_edge))
    slots = int(n_node.max(initial=1))
    dense = None
    if slots <= BLOCK_LIMIT and len(n_node) * slots**2 <= DENSE_LIMIT:
        graph_of, first = np.repeat(np.arange(len(n_node)), n_edge), np.repeat(node_start, n_edge)
        adjacency = np.zeros((len(n_node) + 1, slots, slots), np.float32)  # the last one is for padding
        np.add.at(adjacency, (graph_of, graphs.receivers - first, graphs.senders - first), graphs.edges)
        dense = jnp.asarray(adjacency)
    return Split(jax.tree.map(jnp.asarray, graphs), jnp.asarray(node_start), jnp.asarray(edge_start), dense)


def gather(split: Split, ids: Int[Array, "batch"], bucket: Bucket) -> Batch:
    """The padded batch of the graphs `ids`; for use inside jit.

    Args:
      split: where they come from.
      ids: graphs, in the order wanted; -1 after the last where there are fewer than `bucket.graphs - 1`.
      bucket: has to hold them: `Bucket.nodes` and `edges` can't be checked here, `bucket_of` makes one that does.
    """
    graphs = split.graphs
    real = ids >= 0
    id_of = jnp.where(real, ids, 0)
    padding = jnp.arange(bucket.graphs) == real.sum()

    def lay_out(count: Array, start: Array, rows: int) -> tuple[Array, Array, Array, Array]:
        """Sizes of the padded graphs, each row's graph, its place in the split, and whether it is real."""
        count = jnp.where(real, count[id_of], 0)
        end = jnp.cumsum(count)
        row = jnp.arange(rows)
        graph_of = jnp.minimum((row[:, None] >= end).sum(1), len(ids) - 1)
        source = start[id_of][graph_of] + row - (end - count)[graph_of]
        sizes = jnp.where(padding, rows - end[-1], jnp.pad(count, (0, bucket.graphs - len(ids))))
        return sizes, graph_of, source, row < end[-1]

    n_node, _, node, node_real = lay_out(graphs.n_node, split.node_start, bucket.nodes)
    n_edge, graph_of_edge, edge, edge_real = lay_out(graphs.n_edge, split.edge_start, bucket.edges)
    shift = (jnp.cumsum(n_node) - n_node)[: len(ids)] - split.node_start[id_of]
    first_padding_node = node_real.sum()

    def ends(nodes: Array) -> Array:
        return jnp.where(edge_real, _take(nodes, edge) + shift[graph_of_edge], first_padding_node)

    graph_ids = jnp.pad(
        jnp.where(real, ids, len(graphs.n_node)), (0, bucket.graphs - len(ids)), constant_values=len(graphs.n_node)
    )
    batch = GraphsTuple(
        nodes=jax.tree.map(lambda x: jnp.where(_over(node_real, x), _take(x, node), 0), graphs.nodes),
        edges=jnp.where(edge_real, _take(graphs.edges, edge), 0),
        senders=ends(graphs.senders),
        receivers=ends(graphs.receivers),
        globals=jax.tree.map(lambda x: _take(x, graph_ids), graphs.globals),
        n_node=n_node,
        n_edge=n_edge,
    )
    total = jax.tree.leaves(graphs.nodes)[0].shape[0]
    topology = _topology(batch, split, graph_ids, bucket.slots)
    return Batch(batch, topology, graph_ids, jnp.where(node_real, node, total))


def _topology(batch: GraphsTuple, split: Split, graph_ids: Array, slots: int) -> Topology:
    if slots > BLOCK_LIMIT:
        return edges(batch)
    if split.adjacency is None or slots > split.adjacency.shape[1]:
        return blocks(batch, slots)
    return blocks(batch, slots, split.adjacency[graph_ids, :slots, :slots])


def scatter(total: int, ids: Int[Array, "*steps rows"], values: Array) -> Array:
    """The inverse of `gather` for values of rows: [*steps, rows, ...] to [total, ...], 0 where no row belongs.

    Args:
      total: nodes or graphs of the split.
      ids: `Batch.node_ids` or `Batch.graph_ids`, of one batch or several.
      values: what each row holds.
    """
    values = values.reshape(-1, *values.shape[ids.ndim :])
    return jnp.zeros((total, *values.shape[1:]), values.dtype).at[ids.reshape(-1)].set(values, mode="drop")


def bucket_of(graphs: GraphsTuple, batches: Int[np.ndarray, "*steps batch"]) -> Bucket:
    """The smallest bucket (rows in multiples of 8) that holds every one of these batches.

    Args:
      graphs: the host-side split.
      batches: graph ids of each batch, -1 where there is none.
    """
    totals = [
        int(np.where(batches >= 0, np.asarray(n)[batches], 0).sum(-1).max(initial=0))
        for n in (graphs.n_node, graphs.n_edge)
    ]
    members = np.asarray(graphs.n_node)[np.unique(batches[batches >= 0])]
    nodes, edge_rows = (-(-(total + 1) // 8) * 8 for total in totals)
    return Bucket(nodes, edge_rows, batches.shape[-1] + 1, int(members.max(initial=1)))


def shuffled_batches(
    seed: int, epochs: int, n_node: Int[np.ndarray, "graphs"], batch: int
) -> Int[np.ndarray, "epochs steps batch"]:
    """Random batches for a whole run: every graph once an epoch, the last batch of an epoch filled up with -1.

    An order whose largest batch has more nodes than that of the median order is drawn again, which happens to half of
    them, so that a bucket need not hold the largest batch that chance can make. Knowing all batches beforehand, a run
    compiles one program.

    Args:
      seed: of the orders.
      epochs: how many orders.
      n_node: nodes of each graph.
      batch: graphs of a batch.
    """
    graphs = len(n_node)
    steps = -(-graphs // batch)

    def draw(rng: np.random.Generator) -> np.ndarray:
        order = np.full(steps * batch, -1, np.int32)
        order[:graphs] = rng.permutation(graphs)
        return order.reshape(steps, batch)

    def largest(batches: np.ndarray) -> int:
        return int(np.append(n_node, 0)[batches].sum(1).max(initial=0))

    typical = np.random.default_rng(0)  # the same for all seeds, which share a bucket
    bound = np.median([largest(draw(typical)) for _ in range(TYPICAL_ORDERS)])
    rng = np.random.default_rng(seed)
    orders = np.empty((epochs, steps, batch), np.int32)
    for epoch in range(epochs):
        orders[epoch] = draw(rng)
        while largest(orders[epoch]) > bound:
            orders[epoch] = draw(rng)
    return orders


def plan(
    graphs: GraphsTuple, nodes: int, slots: tuple[int, ...] = ()
) -> Iterator[tuple[Bucket, Int[np.ndarray, "steps batch"]]]:
    """Batches that cover a split once, in order of size, a bucket for each class of size.

    Args:
      graphs: the host-side split.
      nodes: nodes of a batch at most (a larger graph is a batch of its own); this bounds memory.
      slots: largest sizes of the classes, ascending; one more class holds what is larger.

    Yields:
      For every class that has graphs: its bucket and the graph ids of its batches, -1 where there is none.
    """
    n_node = np.asarray(graphs.n_node)
    by_size = np.argsort(n_node, kind="stable")
    for ids in np.split(by_size, np.searchsorted(n_node[by_size], slots, side="right")):
        if not len(ids):
            continue
        largest = int(n_node[ids[-1]])
        most = int(SLOTS_PER_ROW * nodes) // largest if 0 < largest <= BLOCK_LIMIT else len(ids)
        rows: list[list[int]] = [[]]
        total = 0
        for i in ids.tolist():
            if rows[-1] and (total + n_node[i] > nodes or len(rows[-1]) == most):
                rows.append([])
                total = 0
            rows[-1].append(i)
            total += int(n_node[i])
        batches = np.full((len(rows), max(map(len, rows))), -1, np.int32)
        for row, members in zip(batches, rows, strict=True):
            row[: len(members)] = members
        yield bucket_of(graphs, batches), batches


def size_classes(graphs: GraphsTuple, ratio: float = 1.5, least: int = 2000) -> tuple[int, ...]:
    """Sizes for `plan` that part a split into classes, each of graphs at most `ratio` times its smallest.

    Args:
      graphs: the host-side split.
      ratio: about how far sizes within a class may differ.
      least: graphs that make a class worth a compiled program of its own.
    """
    n_node = np.sort(np.asarray(graphs.n_node))
    classes, rest = [], n_node
    while len(rest):
        smaller = rest[rest < rest[-1] / ratio]
        if len(smaller) < least or len(rest) - len(smaller) < least:
            break
        classes.append(int(smaller[-1]))
        rest = smaller
    return tuple(reversed(classes))


def drop_nodes(graph: GraphsTuple, kept: Bool[Array, "nodes"]) -> GraphsTuple:
    """A padded `GraphsTuple` without some nodes: they and their edges move into the padding graph. Shapes stay.

    For graph networks that know nothing of masks; jattn's own take a `Topology` with nodes dropped.

    Args:
      graph: padded as `jraph.pad_with_graphs` does, with any features.
      kept: nodes to keep; what it says of padding does not matter.
    """
    graph = jax.tree.map(jnp.asarray, graph)
    real = jraph.get_graph_padding_mask(graph)
    padding = real.sum()  # the padding graph stands right after the real ones
    rows, graphs = len(kept), len(real)
    graph_of = jnp.repeat(jnp.arange(graphs), graph.n_node, total_repeat_length=rows)
    new_graph_of = jnp.where(kept & real[graph_of], graph_of, padding)
    order = jnp.argsort(new_graph_of, stable=True)
    place = jnp.zeros(rows, order.dtype).at[order].set(jnp.arange(rows))
    stays = (new_graph_of[graph.senders] < padding) & (new_graph_of[graph.receivers] < padding)
    graph_of_edge = jnp.where(stays, graph_of[graph.senders], padding)
    edge_order = jnp.argsort(graph_of_edge, stable=True)
    first_padding_node = (new_graph_of < padding).sum()

    def ends(nodes: Array) -> Array:
        return jnp.where(stays, place[nodes], first_padding_node)[edge_order]

    return graph._replace(
        nodes=jax.tree.map(lambda x: x[order], graph.nodes),
        edges=jax.tree.map(lambda x: x[edge_order], graph.edges),
        senders=ends(graph.senders),
        receivers=ends(graph.receivers),
        n_node=jnp.bincount(new_graph_of, length=graphs),
        n_edge=jnp.bincount(graph_of_edge, length=graphs),
    )


def _take(x: Array, rows: Array) -> Array:
    """x[rows], where rows of padding may be out of range; an array without rows gives zeros."""
    if not len(x):
        return jnp.zeros((len(rows), *x.shape[1:]), x.dtype)
    return x.at[rows].get(mode="fill", fill_value=0)


def _over(mask: Array, x: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (x.ndim - 1))
