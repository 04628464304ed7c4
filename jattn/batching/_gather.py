"""A split that lives on the device, and padded batches gathered from it inside jit."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int
from jraph import GraphsTuple

from jattn.batching._buckets import Bucket, DenseStorage, power_of_2
from jattn.graphs import OneHot, check
from jattn.nn import Topology, block_topology, sparse_topology
from jattn.nn._kernels import EllCoo
from jattn.nn._topology import over_features


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


def device_put(graphs: GraphsTuple, rounded: bool = False) -> DeviceDataset:
    """Puts a split on the device.

    Args:
      graphs: the split, on the host.
      rounded: whether arrays are padded with 0 to lengths that are powers of 2, so that one compiled program serves
        splits of many sizes.

    Raises:
      ValueError: there are no graphs, or `jattn.check` finds a fault.

    >>> from jattn import from_arrays
    >>> device_put(from_arrays([[1.0], [2.0]], senders=[0, 1], receivers=[1, 0])).in_degree.tolist()
    [1, 1]
    """
    check(graphs)
    if not len(graphs.n_node):
        raise ValueError("graphs: expected at least one graph")
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

    >>> import jraph, jattn
    >>> graphs = jraph.batch_np([jattn.from_arrays(np.ones((nodes, 1)), [0, 1], [1, 0]) for nodes in (2, 3, 4)])
    >>> ids, bucket = jattn.pack(graphs, np.array([[2, 0]]), dense=False)
    >>> gather(device_put(graphs), jnp.asarray(ids[0, 0]), bucket).graph.n_node.tolist()  # the last graph is padding
    [4, 2, 2]
    """
    if len(ids) > bucket.graphs:
        raise ValueError(f"ids: {len(ids)} entries, but the bucket has {bucket.graphs} graphs")
    graphs, block = split.graphs, bucket.block_size or bucket.nodes
    ids = jnp.pad(ids, (0, bucket.graphs - len(ids)), constant_values=-1)
    real = ids >= 0
    split_ids = jnp.where(real, ids, 0)
    n_node, n_edge = (jnp.where(real, count[split_ids], 0) for count in (graphs.n_node, graphs.n_edge))
    is_end = (~real).astype(jnp.int32)
    graph_block = jnp.cumsum(is_end) - is_end
    used_rows = jax.ops.segment_sum(n_node, graph_block, bucket.nodes // block)
    n_node = jnp.where(real, n_node, block - used_rows.at[graph_block].get(mode="fill", fill_value=block))
    first_padding = jnp.max(jnp.arange(1, bucket.graphs + 1), where=real, initial=0)
    n_edge = n_edge.at[first_padding].add((bucket.edges - n_edge.sum()).astype(n_edge.dtype))
    padding_node = jnp.minimum((jnp.cumsum(n_node) - n_node)[first_padding], bucket.nodes - 1)

    node_rows = _rows(n_node, split.node_start[split_ids], bucket.nodes, real)
    edge_rows = _rows(n_edge, split.edge_start[split_ids], bucket.edges, real)

    def ends(nodes: Array) -> Array:
        moved = _take(nodes, edge_rows.source) + node_rows.shift[edge_rows.graph]
        return jnp.where(edge_rows.is_real, moved, padding_node)

    def gather_nodes(name: str, x: Array | OneHot) -> Array:
        gathered = jax.tree.map(lambda array: _take(array, node_rows.source), x)
        values = gathered.dense() if isinstance(gathered, OneHot) else gathered
        # Distances to padding are masked later; masking the positions too makes computing them twice as slow.
        return values if name == "position" else jnp.where(over_features(node_rows.is_real, values), values, 0)

    graph_ids = jnp.where(real, ids, len(graphs.n_node))
    batch = GraphsTuple(
        nodes={name: gather_nodes(name, x) for name, x in graphs.nodes.items()},
        edges=jax.tree.map(lambda x: jnp.where(edge_rows.is_real, _take(x, edge_rows.source), 0), graphs.edges),
        senders=ends(graphs.senders),
        receivers=ends(graphs.receivers),
        globals=jax.tree.map(lambda x: _take(x, graph_ids, "fill"), graphs.globals),
        n_node=n_node,
        n_edge=n_edge,
    )
    topology = dataclasses.replace(_topology(split, batch, node_rows, real, bucket), max_nodes=bucket.max_nodes)
    node_ids = jnp.where(node_rows.is_real, node_rows.source, len(split.in_degree))
    return Batch(batch, topology, graph_ids, node_ids)


class _Rows(NamedTuple):
    """Rows of nodes, or of edges, of a batch, and the rows of the split that they come from.

    Attributes:
      graph: the graph of each row, [rows].
      shift: row in the batch minus row in the split, [graphs].
      source: the row of the split, [rows].
      is_real: whether the row is not padding, [rows].
    """

    graph: Int[Array, " rows"]
    shift: Int[Array, " graphs"]
    source: Int[Array, " rows"]
    is_real: Bool[Array, " rows"]


def _rows(count: Array, start: Array, rows: int, real: Array) -> _Rows:
    """Rows of graphs, from the number of rows of each graph and its first row in the split."""
    end = jnp.cumsum(count)
    graph = (jnp.arange(rows)[:, None] >= end[None]).sum(1)
    shift = end - count - start
    is_real = real.at[graph].get(mode="fill", fill_value=False)
    return _Rows(graph, shift, jnp.arange(rows) - shift[graph], is_real)


def _topology(split: DeviceDataset, batch: GraphsTuple, rows: _Rows, real: Array, bucket: Bucket) -> Topology:
    """The topology of a gathered batch, in the bucket's storage."""
    if isinstance(bucket.storage, DenseStorage):
        return block_topology(batch, bucket.block_size or bucket.nodes, real)
    ell_width, coo_capacity = bucket.storage
    if coo_capacity is None:
        return sparse_topology(batch, real)
    start, count = _take(split.in_edge_start, rows.source), _take(split.in_degree, rows.source)
    entries, count = (split.graphs.senders, split.graphs.edges), jnp.where(rows.is_real, count, 0)
    adjacency = to_ell_coo(entries, start, count, rows.shift[rows.graph], ell_width, coo_capacity)
    return sparse_topology(batch, real, adjacency)


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
    rows, coo_count = jnp.arange(len(start)), jnp.maximum(count - ell_width, 0)
    coo_rows = jnp.repeat(rows, coo_count, total_repeat_length=coo_capacity)
    coo_start = jnp.cumsum(coo_count) - coo_count

    def entries_at(row: Array, position: Array) -> tuple[Array, Array]:
        present, entry = position < count[row], start[row] + position
        return jnp.where(present, _take(columns, entry) + shift[row], row), jnp.where(present, _take(values, entry), 0)

    table = entries_at(rows[:, None], jnp.arange(ell_width)[None])
    positions = ell_width + jnp.arange(coo_capacity) - coo_start[coo_rows]
    return EllCoo(*table, coo_rows, *entries_at(coo_rows, positions))


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


def _take(x: Array, rows: Array, mode: str = "clip") -> Array:
    """x[rows]. Rows out of range, of padding, give some row or, with mode "fill", 0. All zeros if x has no rows."""
    if not len(x):
        return jnp.zeros((*rows.shape, *x.shape[1:]), x.dtype)
    return x.at[rows].get(mode=mode, fill_value=0)
