"""Batches of a fixed size: a split on the device, and padded GraphsTuples gathered from it inside jit.

A `Bucket` is the fixed size. The rows of a batch are divided into blocks, and no graph crosses the border of a block. A
padding graph takes the rows left at the end of a block. With one block this is jraph's padding: one extra graph at the
end.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jraph
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int
from jraph import GraphsTuple

from jattn._options import expect_mask
from jattn.graphs import OneHot, expect_padded, expect_undirected, expect_usable
from jattn.nn import Topology, block_topology, sparse_topology
from jattn.nn._kernels import EllCoo
from jattn.nn._topology import over_features


class Bucket(NamedTuple):
    """Capacities of a batch, padding included.

    Attributes:
      nodes: rows for nodes.
      edges: rows for directed edges.
      graphs: graphs.
      max_nodes: nodes of the largest graph.
      block_size: rows of a block; `nodes` is a multiple of it. None: all rows are one block.
      dense: whether A is stored as dense blocks, or sparse.
      ell_width: columns of the ELL table of a sparse A: the first edges of each node.
      coo_capacity: capacity of the COO list, which has the other edges of a sparse A. None: all edges are in it.
    """

    nodes: int
    edges: int
    graphs: int
    max_nodes: int
    block_size: int | None = None
    dense: bool = False
    ell_width: int = 0
    coo_capacity: int | None = None


@struct.dataclass
class DeviceDataset:
    """All graphs of a split on the device, with the fields that `jattn.graphs` lists, and the first row of each graph.

    Attributes:
      graphs: one `GraphsTuple` without padding; its edges are sorted by receiver.
      node_start: first row of each graph's nodes, [graphs].
      edge_start: first row of each graph's edges, [graphs].
      in_edge_start: first row of the edges that each node receives, [nodes] (`indptr` of a CSR matrix).
      in_degree: number of edges that each node receives, [nodes].
    """

    graphs: GraphsTuple
    node_start: Int[Array, " graphs"]
    edge_start: Int[Array, " graphs"]
    in_edge_start: Int[Array, " nodes"]
    in_degree: Int[Array, " nodes"]

    def with_attention(self, attention: Float[Array, " nodes"]) -> "DeviceDataset":
        """This split with another target attention."""
        return dataclasses.replace(
            self, graphs=self.graphs._replace(nodes={**self.graphs.nodes, "attention": attention})
        )


class Batch(NamedTuple):
    """Graphs gathered from a split.

    Attributes:
      graph: the padded `GraphsTuple`.
      topology: its topology, in the storage that is fastest for its size.
      graph_ids: index of each graph in the split, [graphs]; for padding the number of graphs of the split.
      node_ids: index of each node in the split, [nodes]; for padding the number of nodes of the split.
    """

    graph: GraphsTuple
    topology: Topology
    graph_ids: Int[Array, " graphs"]
    node_ids: Int[Array, " nodes"]


def pad(graphs: GraphsTuple, bucket: Bucket | None = None) -> GraphsTuple:
    """One padded batch of graphs, the input of a network.

    Args:
      graphs: a host-side `GraphsTuple` without padding. If `edges` is an array of weights [edges], they are the entries
        of A: list every undirected edge in both directions. Edges with features of another shape may be directed.
      bucket: size of the batch. Default: the smallest that holds the graphs, rounded up to multiples of 8.

    Raises:
      ValueError: the bucket is too small, or an edge leaves its graph or lacks its reverse.
    """
    expect_undirected(graphs)
    needed = Bucket(
        nodes=int(np.sum(graphs.n_node)) + 1,
        edges=int(np.sum(graphs.n_edge)) + 1,
        graphs=len(graphs.n_node) + 1,
        max_nodes=int(np.max(graphs.n_node, initial=0)),
    )
    bucket = bucket or needed._replace(nodes=-(-needed.nodes // 8) * 8, edges=-(-needed.edges // 8) * 8)
    for name in ("nodes", "edges", "graphs"):
        capacity, least = getattr(bucket, name), getattr(needed, name)
        if capacity < least:
            raise ValueError(f"bucket: {capacity} {name}, but the graphs and their padding need {least}")
    return jraph.pad_with_graphs(graphs, bucket.nodes, bucket.edges, bucket.graphs)


def device_put(graphs: GraphsTuple, rounded: bool = False) -> DeviceDataset:
    """Puts a split on the device.

    Args:
      graphs: the split, on the host.
      rounded: whether arrays are padded with 0 to lengths that are powers of 2, so that one compiled program serves
        splits of many sizes.

    Raises:
      ValueError: there are no graphs, a field is missing or has the wrong shape, a label or a target attention is not
        an allowed number, or an edge leaves its graph or lacks its reverse.
    """
    if not len(graphs.n_node):
        raise ValueError("graphs: expected at least one graph")
    expect_usable(graphs)
    receivers = np.asarray(graphs.receivers)
    if (np.diff(receivers) < 0).any():
        order = np.argsort(receivers, kind="stable")
        graphs = graphs._replace(
            senders=graphs.senders[order],
            receivers=receivers[order],
            edges=jax.tree.map(lambda x: x[order], graphs.edges),
        )
    received = np.bincount(receivers, minlength=int(np.sum(graphs.n_node)))
    starts = (np.asarray(np.cumsum(n) - n, np.int32) for n in (graphs.n_node, graphs.n_edge, received))
    arrays = graphs, *starts, np.asarray(received, np.int32)
    return DeviceDataset(*jax.device_put(jax.tree.map(_rounded, arrays) if rounded else arrays))


def power_of_2(number: int, least: int = 16) -> int:
    """The smallest power of 2 that is at least `number` and at least `least`."""
    return 1 << (max(number, least) - 1).bit_length()


def _rounded(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    return np.pad(x, [(0, power_of_2(len(x)) - len(x))] + [(0, 0)] * (x.ndim - 1))


def gather(split: DeviceDataset, ids: Int[Array, " entries"], bucket: Bucket) -> Batch:
    """The padded batch of the graphs `ids`, for use inside jit.

    Args:
      split: the graphs to choose from.
      ids: indices of graphs, in the order of the batch. Each -1 ends a block: a padding graph takes the rest of its
        rows. More -1 may follow the last block. There may be up to `bucket.graphs` entries; missing ones count as -1.
        If real graphs take all of them, the rows after the last graph belong to no graph.
      bucket: size of the batch. It must hold the graphs, which can't be checked inside jit; `pack` makes one that does.

    Raises:
      ValueError: there are more ids than graphs in the bucket.
    """
    if len(ids) > bucket.graphs:
        raise ValueError(f"ids: {len(ids)} entries, but the bucket has {bucket.graphs} graphs")
    graphs, block = split.graphs, bucket.block_size or bucket.nodes
    ids = jnp.pad(ids, (0, bucket.graphs - len(ids)), constant_values=-1)
    real = ids >= 0
    id_of = jnp.where(real, ids, 0)
    n_node, n_edge = (jnp.where(real, count[id_of], 0) for count in (graphs.n_node, graphs.n_edge))
    is_end = (~real).astype(jnp.int32)
    block_of = jnp.cumsum(is_end) - is_end
    used = jax.ops.segment_sum(n_node, block_of, bucket.nodes // block)
    n_node = jnp.where(real, n_node, block - used.at[block_of].get(mode="fill", fill_value=block))
    behind = jnp.max(jnp.arange(1, bucket.graphs + 1), where=real, initial=0)  # the padding graph after the real ones
    n_edge = n_edge.at[behind].add((bucket.edges - n_edge.sum()).astype(n_edge.dtype))
    padding_node = jnp.minimum((jnp.cumsum(n_node) - n_node)[behind], bucket.nodes - 1)

    def rows_of(count: Array, start: Array, rows: int) -> tuple[Array, Array, Array]:
        """The graph of each row, each graph's offset from its rows in the split, and whether each row is real."""
        end = jnp.cumsum(count)
        graph_of = (jnp.arange(rows)[:, None] >= end[None]).sum(1)
        return graph_of, end - count - start[id_of], real.at[graph_of].get(mode="fill", fill_value=False)

    graph_of_node, shift, node_real = rows_of(n_node, split.node_start, bucket.nodes)
    graph_of_edge, edge_shift, edge_real = rows_of(n_edge, split.edge_start, bucket.edges)
    node, edge = jnp.arange(bucket.nodes) - shift[graph_of_node], jnp.arange(bucket.edges) - edge_shift[graph_of_edge]

    def ends(nodes: Array) -> Array:
        return jnp.where(edge_real, _take(nodes, edge) + shift[graph_of_edge], padding_node)

    def of_nodes(name: str, x: Array | OneHot) -> Array:
        taken = jax.tree.map(lambda of: _take(of, node), x)
        values = taken.dense() if isinstance(taken, OneHot) else taken
        # Distances to padding are masked later; masking the positions too makes computing them twice as slow.
        return values if name == "position" else jnp.where(over_features(node_real, values), values, 0)

    graph_ids = jnp.where(real, ids, len(graphs.n_node))
    batch = GraphsTuple(
        nodes={name: of_nodes(name, x) for name, x in graphs.nodes.items()},
        edges=jax.tree.map(lambda x: jnp.where(edge_real, _take(x, edge), 0), graphs.edges),
        senders=ends(graphs.senders),
        receivers=ends(graphs.receivers),
        globals=jax.tree.map(lambda x: _take(x, graph_ids, "fill"), graphs.globals),
        n_node=n_node,
        n_edge=n_edge,
    )
    topology: Topology
    if bucket.dense:
        topology = block_topology(batch, block, real)
    else:
        adjacency = None
        if bucket.coo_capacity is not None:
            start, count = _take(split.in_edge_start, node), jnp.where(node_real, _take(split.in_degree, node), 0)
            lists = graphs.senders, graphs.edges
            adjacency = to_ell_coo(lists, start, count, shift[graph_of_node], bucket.ell_width, bucket.coo_capacity)
        topology = sparse_topology(batch, real, adjacency)
    topology = dataclasses.replace(topology, max_nodes=bucket.max_nodes)
    total = jax.tree.leaves(graphs.nodes)[0].shape[0]
    return Batch(batch, topology, graph_ids, jnp.where(node_real, node, total))


def to_ell_coo(
    entries: tuple[Int[Array, " entries"], Float[Array, " entries"]],
    start: Int[Array, " rows"],
    count: Int[Array, " rows"],
    shift: Int[Array, " rows"],
    ell_width: int,
    coo_capacity: int,
) -> EllCoo:
    """A sparse matrix in ELL and COO storage, from one in CSR storage.

    Args:
      entries: columns and values of the CSR matrix.
      start: the first entry of each row (`indptr`).
      count: number of entries of each row.
      shift: what to add to the columns of each row.
      ell_width: columns of the ELL table, which takes the first entries of each row.
      coo_capacity: length of the COO list, which takes the other entries. It must hold all of them: more are lost.
    """
    columns, values = entries
    rows, others = jnp.arange(len(start)), jnp.maximum(count - ell_width, 0)
    list_rows = jnp.repeat(rows, others, total_repeat_length=coo_capacity)
    before = jnp.cumsum(others) - others

    def of(row: Array, place: Array) -> tuple[Array, Array]:
        present, entry = place < count[row], start[row] + place
        return jnp.where(present, _take(columns, entry) + shift[row], row), jnp.where(present, _take(values, entry), 0)

    table = of(rows[:, None], jnp.arange(ell_width)[None])
    return EllCoo(*table, list_rows, *of(list_rows, ell_width + jnp.arange(coo_capacity) - before[list_rows]))


def scatter(total: int, ids: Int[Array, "*steps rows"], values: Array) -> Array:
    """Values of a batch's rows in the order of the split: the inverse of `gather`.

    Args:
      total: number of nodes or graphs of the split.
      ids: `Batch.node_ids` or `Batch.graph_ids` of one or several batches.
      values: a value for each row, [*steps, rows, ...].

    Returns:
      [total, ...], 0 where no row belongs.

    >>> scatter(4, jnp.array([2, 0, 4]), jnp.array([1.5, 2.5, 9.0])).tolist()  # index 4 is padding
    [2.5, 0.0, 1.5, 0.0]
    """
    values = values.reshape(-1, *values.shape[ids.ndim :])
    return jnp.zeros((total, *values.shape[1:]), values.dtype).at[ids.reshape(-1)].set(values, mode="drop")


def drop_nodes(graph: GraphsTuple, node_mask: Bool[Array, " nodes"]) -> GraphsTuple:
    """Moves some nodes and their edges into the padding graph of a padded `GraphsTuple`; shapes stay the same.

    For graph networks that take no masks; jattn's networks take a `Topology` with dropped nodes instead. All features
    of the padding graph become 0.

    Args:
      graph: padded as by `jraph.pad_with_graphs`, with any features.
      node_mask: the nodes to keep; its entries for padding are ignored.

    Raises:
      ValueError: the mask is not one boolean per row, or the graph is not padded. Inside jit missing padding can't be
        seen: the last graph then counts as padding.
    """
    expect_mask("node_mask", node_mask, jax.tree.leaves(graph.nodes)[0].shape[0], "row of the batch")
    expect_padded(graph)
    graph, node_mask = jax.device_put((graph, node_mask))
    real = jraph.get_graph_padding_mask(graph)
    padding = real.sum()  # the padding graph stands right after the real ones
    rows, graphs = len(node_mask), len(real)
    graph_of = jnp.repeat(jnp.arange(graphs), graph.n_node, total_repeat_length=rows)
    new_graph_of = jnp.where(node_mask & real[graph_of], graph_of, padding)
    order = jnp.argsort(new_graph_of, stable=True)
    place = jnp.zeros(rows, order.dtype).at[order].set(jnp.arange(rows))
    stays = (new_graph_of[graph.senders] < padding) & (new_graph_of[graph.receivers] < padding)
    graph_of_edge = jnp.where(stays, graph_of[graph.senders], padding)
    edge_order = jnp.argsort(graph_of_edge, stable=True)
    first_padding_node = (new_graph_of < padding).sum()

    def ends(nodes: Array) -> Array:
        return jnp.where(stays, place[nodes], first_padding_node)[edge_order]

    def in_order(x: Array, order: Array, stays: Array) -> Array:
        return jnp.where(over_features(stays[order], x), x[order], jnp.zeros((), x.dtype))

    return graph._replace(
        nodes=jax.tree.map(lambda x: in_order(x, order, new_graph_of < padding), graph.nodes),
        edges=jax.tree.map(lambda x: in_order(x, edge_order, stays), graph.edges),
        senders=ends(graph.senders),
        receivers=ends(graph.receivers),
        n_node=jnp.bincount(new_graph_of, length=graphs),
        n_edge=jnp.bincount(graph_of_edge, length=graphs),
    )


def _take(x: Array, rows: Array, mode: str = "clip") -> Array:
    """x[rows]. Rows out of range, of padding, give some row or, with mode "fill", 0. All zeros if x has no rows."""
    if not len(x):
        return jnp.zeros((*rows.shape, *x.shape[1:]), x.dtype)
    return x.at[rows].get(mode=mode, fill_value=0)
