"""Which nodes share a graph or an edge: the one type that models, losses and pooling are written against.

A topology answers a few questions (products with the adjacency, as it is and normalised, softmax over a graph, readout
of a graph, dropping nodes, from a graph's value to its nodes); all else in a graph network is node-wise. It is made of
a padded `GraphsTuple`, whose rows are its nodes. Dropping a node is a mask: with s = kept / sqrt(degree + 1e-5)
the normalised adjacency of the reduced graph is diag(s) A diag(s): no row moves. Two storages give the same numbers:

- `edges`: a sparse A, neighbourhood sums by gathering; graphs of bounded degree, of any size.
- `blocks`: A as dense blocks on its diagonal, a few small graphs in each; batched matmuls, quickest for graphs of up to
  a hundred nodes.

Products are computed at the highest precision that a device has, unless a layer asks for less.
"""

import abc
import contextlib
import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
import jraph
from flax import struct
from flax.typing import Dtype, PrecisionLike
from jaxtyping import Array, Bool, Float, Int, Shaped
from jraph import GraphsTuple

from jattn._cost_model import cost_model
from jattn._options import expect_mask, expect_one_of
from jattn.graphs import Proximity, expect_padded
from jattn.nn._kernels import EllCoo, block_product, ell_coo_product, permute_rows, segment_max

HIGHEST = jax.lax.Precision.HIGHEST
Readout = Literal["sum", "mean", "max"]
Softmax = Literal["clamped", "plain"]
DEGREE_OFFSET = 1e-5  # inside the root of D^-1/2, so that an isolated node divides by more than 0
SUM_OFFSET = 1e-7  # beside the sum of a softmax, so that an emptied graph has attention 0


@struct.dataclass
class Topology(abc.ABC):
    """Nodes grouped into graphs and joined by weighted edges, some of them dropped. Immutable; a pytree.

    Attributes:
      n_node: nodes of each graph, dropped ones included, [graphs].
      node_graph: the graph that each row belongs to, [nodes].
      graph_mask: which graphs are not padding, [graphs].
      node_mask: which rows are nodes of real graphs and not dropped, [nodes].
      degrees: sum over kept neighbours of the edge weights, 0 for dropped nodes, [nodes].
      max_nodes: no graph has more nodes, padding aside; a number that is known when a program is compiled.
    """

    n_node: Int[Array, " graphs"]
    node_graph: Int[Array, " nodes"]
    graph_mask: Bool[Array, " graphs"]
    node_mask: Bool[Array, " nodes"]
    degrees: Float[Array, " nodes"]
    max_nodes: int = struct.field(pytree_node=False)

    @abc.abstractmethod
    def multiply(
        self, x: Float[Array, "nodes features"], precision: PrecisionLike = HIGHEST
    ) -> Float[Array, "nodes features"]:
        """A x over all nodes, dropped ones included."""

    @abc.abstractmethod
    def scaled_adjacency(
        self, scale: Float[Array, " nodes"], dtype: Dtype | None = None, precision: PrecisionLike = HIGHEST
    ) -> Callable[[Float[Array, "nodes features"]], Float[Array, "nodes features"]]:
        """The map x -> diag(scale) A diag(scale) x, over all nodes whose scale is not 0."""

    @abc.abstractmethod
    def square_weights(self) -> Self:
        """The same graphs with every edge weight squared."""

    def sum(self, x: Float[Array, " nodes *features"]) -> Float[Array, " graphs *features"]:
        """Sum over each graph's kept nodes, whatever other rows hold; an empty graph has 0."""
        return self.sum_rows(self.mask_nodes(x))

    def max(self, x: Float[Array, "nodes features"]) -> Float[Array, "graphs features"]:
        """Maximum over each graph's kept nodes, whatever other rows hold; an empty graph has 0."""
        x = jnp.where(over_features(self.node_mask, x), x, -jnp.inf)
        largest = segment_max(x, self.node_graph, len(self.n_node), -math.inf)
        return jnp.where(over_features(self.num_nodes > 0, largest), largest, 0)

    def mean(self, x: Float[Array, "nodes features"]) -> Float[Array, "graphs features"]:
        """Mean over each graph's kept nodes, whatever other rows hold; an empty graph has 0."""
        return self.sum(x) / jnp.maximum(self.num_nodes, 1)[:, None]

    def readout(self, x: Float[Array, "nodes features"], kind: Readout) -> Float[Array, "graphs features"]:
        """`sum`, `mean` or `max` of relu(x), quicker: dropped rows of x have to be 0, as a network's layers leave them.

        Args:
          x: features before ReLU.
          kind: which of the three.
        """
        if kind == "max":  # the larger of 0 and the maximum: no pass over rows for ReLU
            return segment_max(x, self.node_graph, len(self.n_node))
        total = self.sum_rows(jax.nn.relu(x))
        return total / jnp.maximum(self.num_nodes, 1)[:, None] if kind == "mean" else total

    def sum_rows(self, x: Float[Array, " nodes *features"]) -> Float[Array, " graphs *features"]:
        """Sum over each graph's rows, dropped ones included."""
        return jraph.segment_sum(x, self.node_graph, len(self.n_node), indices_are_sorted=True)

    def outer_sum(
        self, s: Float[Array, "nodes clusters"], x: Float[Array, "nodes features"]
    ) -> Float[Array, "graphs clusters features"]:
        """S^T X of each graph: the sum over its kept nodes of s_i x_i^T, whatever other rows hold."""
        s, x = self.mask_nodes(s), self.mask_nodes(x)
        graphs, nodes = len(self.n_node), len(self.node_mask)
        if graphs * self.max_nodes > cost_model().outer_sum_rows * nodes:
            return self.sum_rows(s[:, :, None] * x[:, None])
        place, own = jnp.arange(self.max_nodes)[None], jnp.arange(nodes)
        start = jnp.cumsum(self.n_node) - self.n_node
        rows = jnp.where(place < self.n_node[:, None], start[:, None] + place, nodes)
        within = own - self.broadcast_to_nodes(start)
        place_of = jnp.where(within < self.max_nodes, self.max_nodes * self.node_graph + within, rows.size)
        s_of, x_of = (permute_rows(values, rows.reshape(-1), place_of).reshape(*rows.shape, -1) for values in (s, x))
        return jnp.einsum("gnc,gnf->gcf", s_of, x_of, precision=HIGHEST)

    @property
    def num_nodes(self) -> Float[Array, " graphs"]:
        """How many nodes each graph still has."""
        return self.sum_rows(self.node_mask.astype(jnp.float32))

    def broadcast_to_nodes(self, per_graph: Array) -> Array:
        """The value of its graph for every row, [graphs, ...] to [nodes, ...]."""
        return per_graph[self.node_graph]

    def softmax(self, scores: Float[Array, " nodes"], kind: Softmax = "clamped") -> Float[Array, " nodes"]:
        r"""Softmax of scores over each graph's kept nodes, 0 for the others; an empty graph has no attention.

        The default is that of the paper's code,

        .. math:: \alpha_i = e^{s_i} / (\textstyle\sum_j e^{s_j} + 10^{-7}), \quad s_i \in [-60, 60],

        with scores clamped, so that exp is finite and no maximum is taken off first. It is not shift-invariant: where
        all scores are low, attention sums up to less than 1 (one node with score -20: to 0.02), so that thresholds may
        empty a graph, and beyond the clamp there is no gradient.

        Args:
          scores: one a node; those of dropped nodes do not matter.
          kind: "clamped", as above, or "plain": exp(s_i) / sum_j exp(s_j), shift-invariant, summing up to 1.
        """
        expect_one_of("softmax", kind, Softmax)
        if kind == "plain":
            shift = jax.lax.stop_gradient(self.max(scores[:, None])[:, 0])
            scores = jnp.where(self.node_mask, scores - self.broadcast_to_nodes(shift), 0)
            exponential = jnp.where(self.node_mask, jnp.exp(scores), 0.0)
            total = self.sum_rows(exponential)  # at least 1, but for an empty graph
            return exponential / self.broadcast_to_nodes(jnp.where(total > 0, total, 1))
        exponential = jnp.where(self.node_mask, jnp.exp(jnp.clip(scores, -60.0, 60.0)), 0.0)
        return exponential / self.broadcast_to_nodes(self.sum_rows(exponential) + SUM_OFFSET)

    def mask_nodes(self, x: Float[Array, " nodes *features"]) -> Float[Array, " nodes *features"]:
        """`x` with the rows of dropped nodes and padding set to 0, whatever stood there."""
        return jnp.where(over_features(self.node_mask, x), x, 0)

    def subgraph(self, mask: Bool[Array, " nodes"]) -> Self:
        """The same graphs without the nodes outside `mask`; degrees are counted anew over kept neighbours.

        Raises:
          ValueError: the mask is not of booleans, one for each row.
        """
        expect_mask("mask", mask, len(self.node_mask), "row of the batch")
        kept = self.node_mask & mask
        neighbours = self.multiply(kept[:, None].astype(self.degrees.dtype))[:, 0]
        return dataclasses.replace(self, node_mask=kept, degrees=jnp.where(kept, neighbours, 0))

    def normalized(
        self, self_loops: bool = False, dtype: Dtype | None = None, precision: PrecisionLike = HIGHEST
    ) -> Callable[[Float[Array, "nodes features"]], Float[Array, "nodes features"]]:
        r"""The map x -> D^{-1/2} A D^{-1/2} x over kept nodes, with the offset 1e-5 inside the root.

        Args:
          self_loops: take A + I for A, and its degrees, as GCN does (Kipf and Welling 2017, eq. 2).
          dtype: of the normalised A; as A and degrees are where not given.
          precision: of products with it.
        """
        scale = jnp.where(self.node_mask, jax.lax.rsqrt(self.degrees + int(self_loops) + DEGREE_OFFSET), 0)
        multiply, diagonal = self.scaled_adjacency(scale, dtype, precision), _as(dtype, scale[:, None] ** 2)
        return (lambda x: multiply(x) + diagonal * x) if self_loops else multiply


@struct.dataclass
class SparseTopology(Topology):
    """A topology as a sparse A, symmetric."""

    adjacency: EllCoo

    def multiply(self, x: Array, precision: PrecisionLike = HIGHEST) -> Array:
        return ell_coo_product(self.adjacency, x)  # sums, which have no precision of their own

    def scaled_adjacency(
        self, scale: Array, dtype: Dtype | None = None, precision: PrecisionLike = HIGHEST
    ) -> Callable[[Array], Array]:
        a = self.adjacency
        ell_values = _as(dtype, scale[:, None] * a.ell_values * scale[a.ell_columns])
        coo_values = _as(dtype, scale[a.coo_rows] * a.coo_values * scale[a.coo_columns])
        return dataclasses.replace(self, adjacency=a._replace(ell_values=ell_values, coo_values=coo_values)).multiply

    def square_weights(self) -> Self:
        a = self.adjacency
        adjacency = a._replace(ell_values=a.ell_values**2, coo_values=a.coo_values**2)
        return dataclasses.replace(self, adjacency=adjacency).subgraph(self.node_mask)


@struct.dataclass
class BlockTopology(Topology):
    """A topology as the dense blocks on A's diagonal; rows are parted evenly into blocks, which no edge crosses.

    Attributes:
      adjacency: symmetric, [blocks, block, block] with blocks * block = nodes.
    """

    adjacency: Float[Array, "blocks block block"]

    def multiply(self, x: Array, precision: PrecisionLike = HIGHEST) -> Array:
        by_block = x.reshape(*self.adjacency.shape[:2], x.shape[1])
        return block_product(self.adjacency, by_block, precision).reshape(x.shape)

    def scaled_adjacency(
        self, scale: Array, dtype: Dtype | None = None, precision: PrecisionLike = HIGHEST
    ) -> Callable[[Array], Array]:
        by_block = scale.reshape(self.adjacency.shape[:2])
        adjacency = _as(dtype, by_block[:, :, None] * self.adjacency * by_block[:, None])
        scaled = dataclasses.replace(self, adjacency=adjacency)
        return lambda x: scaled.multiply(x, precision)

    def square_weights(self) -> Self:
        return dataclasses.replace(self, adjacency=self.adjacency**2).subgraph(self.node_mask)


def sparse_topology(
    graph: GraphsTuple, graph_mask: Bool[Array, " graphs"] | None = None, adjacency: EllCoo | None = None
) -> SparseTopology:
    """The topology of a padded `GraphsTuple` as it stands, edge weights in `graph.edges`.

    Args:
      graph: the graphs, every undirected edge in both directions: products with A take it to be symmetric.
      graph_mask: which of them are not padding; where not given all but the last that has nodes, as jraph pads. Without
        padding a real graph would be lost so: that is refused, but inside jit it can't be seen.
      adjacency: A without edges of padding, where it is laid out already; the list of edges where not given.

    Raises:
      ValueError: the graphs are complete and list no edges, or they have no padding.
    """
    if isinstance(graph.edges, Proximity):
        raise ValueError(
            "graph: its weights follow from positions; take `block_topology(graph, block)`, or `list_edges` first"
        )
    shared = _shared_fields(graph, graph_mask)
    if adjacency is None:
        weights = jnp.where(shared["node_mask"][graph.senders], graph.edges, 0)
        no_table = jnp.zeros((len(shared["node_mask"]), 0), weights.dtype)
        adjacency = EllCoo(no_table.astype(int), no_table, graph.receivers, graph.senders, weights)
    topology = SparseTopology(**shared, adjacency=adjacency)
    return topology.subgraph(topology.node_mask)


def block_topology(
    graph: GraphsTuple, block_size: int, graph_mask: Bool[Array, " graphs"] | None = None
) -> BlockTopology:
    """The topology of a padded `GraphsTuple` as dense blocks of A.

    Args:
      graph: the graphs, in `graph.edges` their edges' weights or the `Proximity` that gives them; every undirected edge
        in both directions. Rows i * block to (i + 1) * block - 1 are those of block i.
      block_size: rows of a block; all rows make one block that fits any graphs.
      graph_mask: which graphs are not padding; as for `edges` where not given.

    Raises:
      ValueError: the graphs have no padding, the number of rows is not a multiple of `block`, or an edge leaves its
        block. Inside a compiled function ends of edges can't be read: there such an edge makes all of A NaN, and with
        it every prediction, rather than be lost in silence.
    """
    shared = _shared_fields(graph, graph_mask)
    rows = len(shared["node_graph"])
    if rows % block_size:
        raise ValueError(f"block: {rows} rows can't be parted into blocks of {block_size}")
    of_graph = _adjacency_from_positions if isinstance(graph.edges, Proximity) else _adjacency_from_edges
    topology = BlockTopology(**shared, adjacency=of_graph(graph, shared, block_size))
    return topology.subgraph(topology.node_mask)


def _adjacency_from_edges(graph: GraphsTuple, shared: dict[str, Any], block: int) -> Float[Array, "blocks block block"]:
    """A from lists of edges."""
    weights = jnp.where(shared["node_mask"][graph.senders], graph.edges, 0)
    crossing = jnp.any((graph.senders // block != graph.receivers // block) & (weights != 0))
    with contextlib.suppress(jax.errors.ConcretizationTypeError):  # inside a compiled function
        if crossing:
            raise ValueError(f"block: an edge leaves its block of {block} rows")
    empty = jnp.where(crossing, jnp.nan, jnp.zeros((len(shared["node_mask"]), block)))
    return empty.at[graph.receivers, graph.senders % block].add(weights).reshape(-1, block, block)


def _adjacency_from_positions(
    graph: GraphsTuple, shared: dict[str, Any], block: int
) -> Float[Array, "blocks block block"]:
    """A from positions: the weights between all nodes of a graph."""
    position, graph_of, kept = (
        x.reshape(-1, block, *x.shape[1:]) for x in (graph.nodes["position"], shared["node_graph"], shared["node_mask"])
    )
    weights = graph.edges.weights(position[:, :, None], position[:, None])
    joined = (graph_of[:, :, None] == graph_of[:, None]) & kept[:, None] & ~jnp.eye(block, dtype=bool)[None]
    return jnp.where(joined, weights, 0)


def _shared_fields(graph: GraphsTuple, graph_mask: Array | None) -> dict[str, Any]:
    """The fields that all topologies share, degrees not yet counted."""
    if graph_mask is None:
        expect_padded(graph)
        graph_mask = jraph.get_graph_padding_mask(graph)
    expect_mask("graph_mask", graph_mask, len(graph.n_node), "graph")
    rows, n_node = jax.tree.leaves(graph.nodes)[0].shape[0], jnp.asarray(graph.n_node)
    node_graph = jnp.repeat(jnp.arange(len(n_node)), n_node, total_repeat_length=rows)
    return {
        "n_node": n_node,
        "node_graph": node_graph,
        "graph_mask": graph_mask,
        "node_mask": graph_mask[node_graph]
        & (jnp.arange(rows) < n_node.sum()),  # rows behind all graphs are of the last one here
        "degrees": jnp.zeros(rows),
        "max_nodes": rows,
    }


def _as(dtype: Dtype | None, x: Array) -> Array:
    return x if dtype is None else x.astype(dtype)


def over_features(mask: Bool[Array, " rows"], x: Shaped[Array, " _ *features"]) -> Bool[Array, "rows ..."]:
    """A mask of rows with as many axes as x, so that it masks rows of such features: [rows, 1, ...]."""
    return mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
