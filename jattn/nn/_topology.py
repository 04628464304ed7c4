"""The topology of a batch: which nodes share a graph or an edge. Models, losses and poolings are written against it.

Only a few operations need to know it: products with the adjacency A, plain and normalized, the softmax and the readout
over a graph, taking a subgraph, and broadcasting a graph's value to its nodes. All other operations work on rows. A
topology is made from a padded `GraphsTuple`, whose rows are its nodes. Dropping a node only masks it: with
s = node_mask / sqrt(degree + 1e-5), the normalized adjacency of the subgraph is diag(s) A diag(s), and no row moves.

Two storages of A give the same numbers:

- `sparse_topology`: an ELL table and a COO list, for graphs of bounded degree and any size.
- `block_topology`: dense blocks on the diagonal, with a few small graphs in each, for graphs of up to a hundred nodes.

Products are computed at the highest precision of the device, unless a layer asks for less.
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

from jattn._choices import Readout
from jattn._cost_model import cost_model
from jattn._options import expect_mask, expect_one_of
from jattn.graphs import Proximity, expect_padded
from jattn.nn._kernels import (
    EllCoo,
    block_product,
    compact_linear,
    ell_coo_product,
    masked_linear,
    permute_rows,
    segment_max,
)

HIGHEST = jax.lax.Precision.HIGHEST
Softmax = Literal["clamped", "plain", "sink"]
DEGREE_OFFSET = 1e-5  # inside the root of D^-1/2, so that an isolated node divides by more than 0
SUM_OFFSET = 1e-7  # beside the sum of a softmax, so that an emptied graph has attention 0

# Python's numbers may be transferred to the device even if the user's code has forbidden implicit transfers.
scalars_allowed = jax.transfer_guard_host_to_device("allow")


@struct.dataclass
class Topology(abc.ABC):
    """Nodes grouped into graphs and joined by weighted edges; some nodes may be dropped. Immutable, and a pytree.

    Attributes:
      n_node: nodes of each graph, dropped ones included, [graphs].
      node_graph: the graph that each row belongs to, [nodes].
      graph_mask: which graphs are not padding, [graphs].
      node_mask: which rows are nodes of real graphs and not dropped, [nodes].
      degrees: sum of the edge weights to kept neighbors, 0 for dropped nodes, [nodes].
      max_nodes: upper bound on the nodes of a graph, padding aside; known when a program is compiled.
      compact: whether products with weights leave out the rows of dropped nodes.
      few_gradients: whether, where they are compact, their VJP leaves out rows without a gradient, too.
    """

    n_node: Int[Array, " graphs"]
    node_graph: Int[Array, " nodes"]
    graph_mask: Bool[Array, " graphs"]
    node_mask: Bool[Array, " nodes"]
    degrees: Float[Array, " nodes"]
    max_nodes: int = struct.field(pytree_node=False)
    compact: bool = struct.field(pytree_node=False, default=False, kw_only=True)
    few_gradients: bool = struct.field(pytree_node=False, default=False, kw_only=True)

    @abc.abstractmethod
    def multiply(
        self, x: Float[Array, "nodes features"], precision: PrecisionLike = HIGHEST
    ) -> Float[Array, "nodes features"]:
        """A x over all rows, dropped nodes included."""

    @abc.abstractmethod
    def scaled_adjacency(
        self, scale: Float[Array, " nodes"], dtype: Dtype | None = None, precision: PrecisionLike = HIGHEST
    ) -> Callable[[Float[Array, "nodes features"]], Float[Array, "nodes features"]]:
        """The map x -> diag(scale) A diag(scale) x."""

    @abc.abstractmethod
    def square_weights(self) -> Self:
        """The same graphs with every edge weight squared."""

    def sum(self, x: Float[Array, " nodes *features"]) -> Float[Array, " graphs *features"]:
        """Sum over the kept nodes of each graph, whatever the other rows hold; 0 for an empty graph."""
        return self.sum_rows(self.mask_nodes(x))

    def max(self, x: Float[Array, "nodes features"]) -> Float[Array, "graphs features"]:
        """Maximum over the kept nodes of each graph, whatever the other rows hold; 0 for an empty graph."""
        x = jnp.where(over_features(self.node_mask, x), x, -jnp.inf)
        largest = segment_max(x, self.node_graph, len(self.n_node), -math.inf)
        return jnp.where(over_features(self.num_nodes > 0, largest), largest, 0)

    def mean(self, x: Float[Array, "nodes features"]) -> Float[Array, "graphs features"]:
        """Mean over the kept nodes of each graph, whatever the other rows hold; 0 for an empty graph."""
        return self.sum(x) / jnp.maximum(self.num_nodes, 1)[:, None]

    def readout(self, x: Float[Array, "nodes features"], kind: Readout) -> Float[Array, "graphs features"]:
        """`sum`, `mean` or `max` of relu(x), where x has to be 0 in dropped rows: faster, because no row is masked.

        For "log_sum" it is the sum, of which the network takes the logarithm.

        Args:
          x: features before ReLU, as the last layer of a network returns them.
          kind: which of them.
        """
        if kind == "max":  # the larger of 0 and the maximum, without a pass for ReLU
            return segment_max(x, self.node_graph, len(self.n_node))
        total = self.sum_rows(jax.nn.relu(x))
        return total / jnp.maximum(self.num_nodes, 1)[:, None] if kind == "mean" else total

    def sum_rows(self, x: Float[Array, " nodes *features"]) -> Float[Array, " graphs *features"]:
        """Sum over all rows of each graph, dropped nodes included."""
        return jraph.segment_sum(x, self.node_graph, len(self.n_node), indices_are_sorted=True)

    def outer_sum(
        self, s: Float[Array, "nodes clusters"], x: Float[Array, "nodes features"]
    ) -> Float[Array, "graphs clusters features"]:
        """S^T X of each graph: the sum of s_i x_i^T over its kept nodes, whatever the other rows hold."""
        s, x = self.mask_nodes(s), self.mask_nodes(x)
        graphs, nodes = len(self.n_node), len(self.node_mask)
        if graphs * self.max_nodes > cost_model().outer_sum_rows * nodes:
            return self.sum_rows(s[:, :, None] * x[:, None])
        # Lays the graphs out apart, [graphs, max_nodes, ...], for a batched product.
        index, start = jnp.arange(self.max_nodes)[None], jnp.cumsum(self.n_node) - self.n_node
        source = jnp.where(index < self.n_node[:, None], start[:, None] + index, nodes)
        in_graph = jnp.arange(nodes) - self.broadcast_to_nodes(start)
        target = jnp.where(in_graph < self.max_nodes, self.max_nodes * self.node_graph + in_graph, source.size)
        s, x = (permute_rows(rows, source.reshape(-1), target).reshape(*source.shape, -1) for rows in (s, x))
        return jnp.einsum("gnc,gnf->gcf", s, x, precision=HIGHEST)

    @property
    def num_nodes(self) -> Float[Array, " graphs"]:
        """Number of kept nodes of each graph, [graphs]."""
        return self.sum_rows(self.node_mask.astype(jnp.float32))

    def broadcast_to_nodes(self, per_graph: Array) -> Array:
        """Each node's value of its graph: [graphs, ...] to [nodes, ...]."""
        return per_graph[self.node_graph]

    def softmax(self, scores: Float[Array, " nodes"], kind: Softmax = "clamped") -> Float[Array, " nodes"]:
        r"""Softmax of scores over the kept nodes of each graph, 0 for other nodes.

        The default is that of the paper's code,

        .. math:: \alpha_i = e^{s_i} / (\textstyle\sum_j e^{s_j} + 10^{-7}), \quad s_i \in [-60, 60],

        with scores clamped so that exp is finite; no maximum is subtracted first. It is not shift-invariant: if all
        scores are low, attention sums to less than 1 (one node with score -20: to 0.02), so thresholds may empty a
        graph. Clamped scores have no gradient.

        Args:
          scores: a score for each node, [nodes]; those of dropped nodes are ignored.
          kind: "clamped", as above; "plain": exp(s_i) / sum_j exp(s_j), shift-invariant, with sum 1; or "sink":
            exp(s_i) / (sum_j exp(s_j) + 1) of clamped scores, as if each graph had one more node with score 0, to
            which attention can go. Scores then have a meaning of their own: attention needs a score well above 0.
        """
        expect_one_of("softmax", kind, Softmax)
        if kind == "plain":
            shift = jax.lax.stop_gradient(self.max(scores[:, None])[:, 0])
            scores = jnp.where(self.node_mask, scores - self.broadcast_to_nodes(shift), 0)
            exponential = jnp.where(self.node_mask, jnp.exp(scores), 0.0)
            total = self.sum_rows(exponential)  # at least 1, except for an empty graph
            return exponential / self.broadcast_to_nodes(jnp.where(total > 0, total, 1))
        exponential = jnp.where(self.node_mask, jnp.exp(jnp.clip(scores, -60.0, 60.0)), 0.0)
        offset = 1.0 if kind == "sink" else SUM_OFFSET
        return exponential / self.broadcast_to_nodes(self.sum_rows(exponential) + offset)

    def masked_linear(
        self, x: Float[Array, "nodes inputs"], weights: Float[Array, "inputs+1 out"], precision: PrecisionLike = HIGHEST
    ) -> Float[Array, "nodes out"]:
        """Returns x W + b for kept nodes and 0 for the others, where x has to be 0; b is the last row of `weights`."""
        if self.compact:
            return compact_linear(x, self.node_mask, weights, precision, self.few_gradients)
        return masked_linear(x, self.node_mask, weights, precision)

    def mask_nodes(self, x: Float[Array, " nodes *features"]) -> Float[Array, " nodes *features"]:
        """`x` with 0 in the rows of dropped nodes and padding, whatever they hold."""
        return jnp.where(over_features(self.node_mask, x), x, 0)

    @scalars_allowed
    def subgraph(self, mask: Bool[Array, " nodes"]) -> Self:
        """The same graphs without the nodes outside `mask`; degrees are counted again over kept neighbors.

        Raises:
          ValueError: the mask is not one boolean per row.
        """
        expect_mask("mask", mask, len(self.node_mask), "row of the batch")
        node_mask = self.node_mask & mask
        degrees = self.multiply(node_mask[:, None].astype(self.degrees.dtype))[:, 0]
        return dataclasses.replace(self, node_mask=node_mask, degrees=jnp.where(node_mask, degrees, 0))

    def normalized(
        self, self_loops: bool = False, dtype: Dtype | None = None, precision: PrecisionLike = HIGHEST
    ) -> Callable[[Float[Array, "nodes features"]], Float[Array, "nodes features"]]:
        r"""The map x -> D^{-1/2} A D^{-1/2} x over kept nodes, with the offset 1e-5 inside the root.

        Args:
          self_loops: use A + I and its degrees, as GCN does (Kipf and Welling 2017, eq. 2).
          dtype: dtype of the normalized A; that of A by default.
          precision: precision of products with it.
        """
        scale = jnp.where(self.node_mask, jax.lax.rsqrt(self.degrees + int(self_loops) + DEGREE_OFFSET), 0)
        multiply, diagonal = self.scaled_adjacency(scale, dtype, precision), _as(dtype, scale[:, None] ** 2)
        return (lambda x: multiply(x) + diagonal * x) if self_loops else multiply


@struct.dataclass
class SparseTopology(Topology):
    """A topology with a sparse, symmetric A.

    Attributes:
      adjacency: A.
    """

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
    """A topology with A as dense blocks on its diagonal. Blocks have equal numbers of rows, and no edge crosses them.

    Attributes:
      adjacency: symmetric blocks, [blocks, block, block] with blocks * block = nodes.
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


@scalars_allowed
def sparse_topology(
    graph: GraphsTuple, graph_mask: Bool[Array, " graphs"] | None = None, adjacency: EllCoo | None = None
) -> SparseTopology:
    """The topology of a padded `GraphsTuple` with a sparse A, whose entries are the weights in `graph.edges`.

    Args:
      graph: the graphs, with every undirected edge in both directions: products assume that A is symmetric.
      graph_mask: real graphs. Default: all except the last graph with nodes, which is padding in jraph. Graphs without
        padding would lose a real one, so they are refused; inside jit this can't be checked.
      adjacency: A without the edges of padding, if it is laid out already; made from the list of edges by default.

    Raises:
      ValueError: the graphs are complete (`Proximity`) and list no edges, or they have no padding.

    >>> import jattn
    >>> path = jattn.from_arrays([[1.0], [2.0], [4.0]], senders=[0, 1, 1, 2], receivers=[1, 0, 2, 1])
    >>> graph = jax.device_put(jattn.pad(path))  # three nodes and five rows of padding
    >>> topology = jattn.sparse_topology(graph)
    >>> topology.degrees.tolist()
    [1.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    >>> topology.sum(graph.nodes["features"]).tolist()
    [[7.0], [0.0]]
    >>> topology.subgraph(jnp.arange(8) != 1).degrees[:3].tolist()  # without the node in the middle
    [0.0, 0.0, 0.0]
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


@scalars_allowed
def block_topology(
    graph: GraphsTuple, block_size: int, graph_mask: Bool[Array, " graphs"] | None = None
) -> BlockTopology:
    """The topology of a padded `GraphsTuple` with A as dense blocks.

    Args:
      graph: the graphs. `graph.edges` has the weights of the edges, every undirected edge in both directions, or the
        `Proximity` that gives them. Rows i * block_size to (i + 1) * block_size - 1 are block i.
      block_size: rows of a block. One block of all rows fits any graphs.
      graph_mask: which graphs are not padding; as for `sparse_topology` by default.

    Raises:
      ValueError: the graphs have no padding, the number of rows is not a multiple of `block_size`, or an edge leaves
        its block. Inside jit the ends of edges can't be read: there such an edge makes all of A NaN, and so every
        prediction, rather than be lost in silence.
    """
    shared = _shared_fields(graph, graph_mask)
    rows = len(shared["node_graph"])
    if rows % block_size:
        raise ValueError(f"block: {rows} rows can't be parted into blocks of {block_size}")
    adjacency = _adjacency_from_positions if isinstance(graph.edges, Proximity) else _adjacency_from_edges
    topology = BlockTopology(**shared, adjacency=adjacency(graph, shared, block_size))
    return topology.subgraph(topology.node_mask)


def _adjacency_from_edges(graph: GraphsTuple, shared: dict[str, Any], block: int) -> Float[Array, "blocks block block"]:
    """The blocks of A from a list of edges."""
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
    """The blocks of A from positions: the weights between all nodes of a graph."""
    position, graph_of, kept = (
        x.reshape(-1, block, *x.shape[1:]) for x in (graph.nodes["position"], shared["node_graph"], shared["node_mask"])
    )
    weights = graph.edges.weights(position[:, :, None], position[:, None])
    joined = (graph_of[:, :, None] == graph_of[:, None]) & kept[:, None] & ~jnp.eye(block, dtype=bool)[None]
    return jnp.where(joined, weights, 0)


def _shared_fields(graph: GraphsTuple, graph_mask: Array | None) -> dict[str, Any]:
    """The fields that all topologies share; degrees are not counted yet."""
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
        & (jnp.arange(rows) < n_node.sum()),  # rows after all graphs have the last one here
        "degrees": jnp.zeros(rows),
        "max_nodes": rows,
    }


def _as(dtype: Dtype | None, x: Array) -> Array:
    return x if dtype is None else x.astype(dtype)


def over_features(mask: Bool[Array, " rows"], x: Shaped[Array, " _ *features"]) -> Bool[Array, "rows ..."]:
    """A mask of rows with as many axes as x, [rows, 1, ...], so that it broadcasts over features."""
    return mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
