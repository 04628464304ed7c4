"""Which nodes share a graph or an edge: the one type that models, losses and pooling are written against.

A topology answers five questions (Chebyshev terms, softmax over a graph, readout of a graph, dropping nodes, from a
graph's value to its nodes); all else in a graph network is node-wise. It is made from a padded `GraphsTuple`, whose
node order its rows keep. Dropping a node is a mask: with s = kept / sqrt(degree + 1e-5) the normalised adjacency of the
reduced graph is diag(s) A diag(s), so A itself is never copied. Two storages give the same numbers:

- `edges`: neighbourhood sums by gather and segment sum; graphs of bounded degree, of any size.
- `blocks`: one dense block of A a graph; batched matmuls for small or complete graphs, and for leave-one-out.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Self

import jax
import jax.numpy as jnp
import jraph
from flax import struct
from jaxtyping import Array, Bool, Float, Int
from jraph import GraphsTuple

DEGREE_OFFSET = 1e-5  # inside the root of D^-1/2, so that an isolated node divides by more than 0
SUM_OFFSET = 1e-7  # beside the sum of a softmax, so that an emptied graph has attention 0


@struct.dataclass
class Topology(abc.ABC):
    """Nodes grouped into graphs and joined by weighted edges, some of them dropped. Immutable; a pytree.

    Attributes:
      n_node: nodes of each graph, dropped ones included and 0 for padding graphs, [graphs].
      graph_of: the graph that each row belongs to, [nodes].
      real: which graphs are not padding, [graphs].
      kept: which rows are nodes of real graphs and not dropped, [nodes].
      degrees: sum over kept neighbours of the edge weights, 0 for dropped nodes, [nodes].
    """

    n_node: Int[Array, "graphs"]
    graph_of: Int[Array, "nodes"]
    real: Bool[Array, "graphs"]
    kept: Bool[Array, "nodes"]
    degrees: Float[Array, "nodes"]

    @abc.abstractmethod
    def to_slots(self, x: Array) -> Array:
        """Rows [nodes, ...] to where this storage wants them for neighbourhood sums; rows of padding have to be 0."""

    @abc.abstractmethod
    def to_rows(self, slots: Array) -> Array:
        """The inverse of `to_slots`."""

    @abc.abstractmethod
    def multiply(self, slots: Array) -> Array:
        """A x over all nodes, dropped ones included; `slots` and result are as `to_slots` gives them."""

    @abc.abstractmethod
    def sum(self, x: Float[Array, "nodes *features"]) -> Float[Array, "graphs *features"]:
        """Sum over each graph's rows; dropped rows have to be 0, as `zero_dropped` leaves them."""

    @abc.abstractmethod
    def max(self, x: Float[Array, "nodes features"]) -> Float[Array, "graphs features"]:
        """Maximum over each graph's rows of features that are at least 0, dropped rows 0; an empty graph has 0."""

    @property
    def size(self) -> Float[Array, "graphs"]:
        """How many nodes each graph still has."""
        return self.sum(self.kept.astype(jnp.float32))

    def mean(self, x: Float[Array, "nodes features"]) -> Float[Array, "graphs features"]:
        """Mean over each graph's kept nodes; an empty graph has 0."""
        return self.sum(x) / jnp.maximum(self.size, 1)[:, None]

    def spread(self, per_graph: Array) -> Array:
        """The value of its graph for every row, [graphs, ...] to [nodes, ...]."""
        return per_graph[self.graph_of]

    def softmax(self, scores: Float[Array, "nodes"]) -> Float[Array, "nodes"]:
        r"""alpha_i = exp(s_i) / (sum_j exp(s_j) + 1e-7) over each graph's kept nodes; 0 for the others.

        Scores are clamped to +-60, where exp is finite, so no maximum is taken off first.
        """
        exponential = jnp.where(self.kept, jnp.exp(jnp.clip(scores, -60.0, 60.0)), 0.0)
        return exponential / self.spread(self.sum(exponential) + SUM_OFFSET)

    def zero_dropped(self, x: Float[Array, "nodes *features"]) -> Float[Array, "nodes *features"]:
        """`x` with the rows of dropped nodes and padding set to 0, whatever stood there."""
        return jnp.where(_over_features(self.kept, x), x, 0)

    def keep(self, mask: Bool[Array, "nodes"]) -> Self:
        """The same graphs without the nodes outside `mask`; degrees are counted anew over kept neighbours."""
        kept = self.kept & mask
        ones = kept.astype(jnp.float32)[:, None]
        degrees = self.to_rows(self.multiply(self.to_slots(ones)))[:, 0]
        return dataclasses.replace(self, kept=kept, degrees=jnp.where(kept, degrees, 0))

    def chebyshev(self, x: Float[Array, "nodes features"], order: int) -> Float[Array, "nodes order features"]:
        r"""The Chebyshev terms T_0 x, ..., T_{order-1} x over the kept nodes; dropped rows of x have to be 0.

        T_0 x = x, T_1 x = L x, T_k x = 2 L T_{k-1} x - T_{k-2} x with L = -D^{-1/2} A D^{-1/2}, which is the rescaled
        Laplacian of largest eigenvalue 2 (Defferrard et al. 2016, section 2.1). Order 1 is the one term
        D'^{-1/2} (A + I) D'^{-1/2} x with the degrees D' of A + I (Kipf and Welling 2017, eq. 2).
        """
        if order == 1:
            scale = self._inverse_root(self.degrees + 1)
            scaled = scale * x
            return (scale * (self._neighbours(scaled) + scaled))[:, None]
        scale = self.to_slots(self._inverse_root(self.degrees))
        terms = [self.to_slots(x)]
        terms.append(-scale * self.multiply(scale * terms[0]))
        for _ in range(2, order):
            terms.append(-2 * scale * self.multiply(scale * terms[-1]) - terms[-2])
        return jnp.stack([x] + [self.to_rows(term) for term in terms[1:]], axis=1)

    def _inverse_root(self, degrees: Float[Array, "nodes"]) -> Float[Array, "nodes 1"]:
        return jnp.where(self.kept, jax.lax.rsqrt(degrees + DEGREE_OFFSET), 0)[:, None]

    def _neighbours(self, x: Float[Array, "nodes features"]) -> Float[Array, "nodes features"]:
        return self.to_rows(self.multiply(self.to_slots(x)))


@struct.dataclass
class Edges(Topology):
    """A topology as lists of directed edges: senders, receivers and weights, [edges] each."""

    senders: Int[Array, "edges"]
    receivers: Int[Array, "edges"]
    weights: Float[Array, "edges"]

    def to_slots(self, x: Array) -> Array:  # noqa: D102
        return x

    def to_rows(self, slots: Array) -> Array:  # noqa: D102
        return slots

    def multiply(self, slots: Array) -> Array:  # noqa: D102
        messages = self.weights[:, None] * slots[self.senders]
        return jraph.segment_sum(messages, self.receivers, len(self.graph_of))

    def sum(self, x: Array) -> Array:  # noqa: D102
        return jraph.segment_sum(x, self.graph_of, len(self.n_node), indices_are_sorted=True)

    def max(self, x: Array) -> Array:  # noqa: D102
        largest = jraph.segment_max(x, self.graph_of, len(self.n_node), indices_are_sorted=True)
        return jnp.where((self.n_node > 0)[:, None], jnp.maximum(largest, 0), 0)


@struct.dataclass
class Blocks(Topology):
    """A topology as one dense block of A a graph; node i of graph g has slot (g, i).

    Attributes:
      adjacency: symmetric, 0 where a graph has no node, [graphs, slots, slots].
      row_of: the row of each slot, that of a padding node for a hole, [graphs * slots].
      slot_of: the slot of each row, one of the padding graph for padding, [nodes].
    """

    adjacency: Float[Array, "graphs slots slots"]
    row_of: Int[Array, "graphs_slots"]
    slot_of: Int[Array, "nodes"]

    def to_slots(self, x: Array) -> Array:  # noqa: D102
        slots = _move(x, self.row_of, self.slot_of)
        return slots.reshape(self.adjacency.shape[:2] + x.shape[1:])

    def to_rows(self, slots: Array) -> Array:  # noqa: D102
        return _move(slots.reshape((-1, *slots.shape[2:])), self.slot_of, self.row_of)

    def multiply(self, slots: Array) -> Array:  # noqa: D102
        return _symmetric_matmul(self.adjacency, slots)

    def sum(self, x: Array) -> Array:  # noqa: D102
        return self.to_slots(x).sum(1)

    def max(self, x: Array) -> Array:  # noqa: D102
        return self.to_slots(x).max(1, initial=0)


def edges(graph: GraphsTuple) -> Edges:
    """The topology of a padded `GraphsTuple` as it stands: edge weights in `graph.edges`, padding as jraph's."""
    grouping = _grouping(graph)
    weights = jnp.where(grouping["kept"][graph.senders], graph.edges, 0)
    topology = Edges(**grouping, senders=graph.senders, receivers=graph.receivers, weights=weights)
    return topology.keep(topology.kept)


def blocks(graph: GraphsTuple, slots: int, adjacency: Float[Array, "graphs slots slots"] | None = None) -> Blocks:
    """The topology of a padded `GraphsTuple` with one dense block of `slots` x `slots` a graph.

    Args:
      graph: a padded `GraphsTuple`, edge weights in `graph.edges`.
      slots: nodes of the largest real graph, or more.
      adjacency: what the blocks hold, 0 for padding; from the graph's edges where not given.

    Raises:
      ValueError: a graph has more nodes than `slots`. Inside a compiled function sizes can't be read: there such a
        graph makes the whole adjacency NaN, and with it every prediction, rather than lose nodes in silence.
    """
    grouping = _grouping(graph)
    n_node, graph_of, real = grouping["n_node"], grouping["graph_of"], grouping["real"]
    rows, graphs = len(graph_of), len(n_node)
    largest = jnp.max(n_node, initial=0)
    if not isinstance(largest, jax.core.Tracer) and int(largest) > slots:
        raise ValueError(f"slots: the largest graph has {int(largest)} nodes, more than the {slots} of a block")
    start = jnp.cumsum(graph.n_node) - graph.n_node
    local = jnp.arange(rows) - start[graph_of]
    slot_of = jnp.where(real[graph_of], graph_of * slots + local, real.sum() * slots)
    place = jnp.arange(slots)
    # The last row is padding, and 0, as is every row and slot of the padding graph.
    row_of = jnp.where(place < n_node[:, None], start[:, None] + place, rows - 1).reshape(-1)
    if adjacency is None:
        sender, receiver = jnp.minimum(local[graph.senders], slots - 1), slot_of[graph.receivers]
        weights = jnp.where(grouping["kept"][graph.senders], graph.edges, 0)
        empty = jnp.where(largest > slots, jnp.nan, jnp.zeros((graphs * slots, slots)))
        adjacency = empty.at[receiver, sender].add(weights).reshape(graphs, slots, slots)
    topology = Blocks(**grouping, adjacency=adjacency, row_of=row_of, slot_of=slot_of)
    return topology.keep(topology.kept)


def _grouping(graph: GraphsTuple) -> dict[str, Array]:
    """The fields that all topologies share, degrees not yet counted."""
    real = jraph.get_graph_padding_mask(graph)
    rows = jax.tree.leaves(graph.nodes)[0].shape[0]
    graph_of = jnp.repeat(jnp.arange(len(graph.n_node)), graph.n_node, total_repeat_length=rows)
    return {
        "n_node": jnp.where(real, graph.n_node, 0),
        "graph_of": graph_of,
        "real": real,
        "kept": real[graph_of],
        "degrees": jnp.zeros(rows),
    }


@jax.custom_vjp
def _move(x: Array, source: Array, target: Array) -> Array:
    """x[source]; `target` is its inverse up to rows that are 0, so the VJP is a gather and no scatter."""
    return x.at[source].get(mode="promise_in_bounds")


def _move_forward(x: Array, source: Array, target: Array) -> tuple[Array, tuple[Array, Array]]:
    return _move(x, source, target), (source, target)


def _move_backward(indices: tuple[Array, Array], cotangent: Array) -> tuple[Array, None, None]:
    source, target = indices
    return _move(cotangent, target, source), None, None


_move.defvjp(_move_forward, _move_backward)


@jax.custom_vjp
def _symmetric_matmul(adjacency: Array, x: Array) -> Array:
    """A x for A = A^T, whose VJP is A g: on CPU a third of the time of the transposed product."""
    return _product(adjacency, x)


def _symmetric_matmul_forward(adjacency: Array, x: Array) -> tuple[Array, tuple[Array, Array]]:
    return _symmetric_matmul(adjacency, x), (adjacency, x)


def _symmetric_matmul_backward(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    adjacency, x = saved
    return jnp.einsum("gif,gjf->gij", cotangent, x), _symmetric_matmul(adjacency, cotangent)


_symmetric_matmul.defvjp(_symmetric_matmul_forward, _symmetric_matmul_backward)


def _over_features(mask: Array, x: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))


@jax.custom_batching.custom_vmap
def _product(adjacency: Array, x: Array) -> Array:
    """A x; a vmap over x alone copies A: a product with one A would transpose x and the result, which takes longer."""
    return jnp.einsum("...ij,...jf->...if", adjacency, x)


@_product.def_vmap
def _product_vmap(size: int, batched: Sequence[bool], adjacency: Array, x: Array) -> tuple[Array, bool]:
    operands = [
        operand if is_batched else jnp.broadcast_to(operand, (size, *operand.shape))
        for operand, is_batched in zip((adjacency, x), batched, strict=True)
    ]
    return _product(*operands), True
