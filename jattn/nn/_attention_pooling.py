"""Attention pooling: features times attention, then nodes of little attention are dropped (by masks)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jattn._options import expect_one_of, set_numbers
from jattn.nn._chebyshev import Aggregation
from jattn.nn._scorers import Scorer, ScorerConfig, normalize_target
from jattn.nn._topology import Softmax, Topology

Reads = Literal["current", "previous"]
# (alpha, topology before pooling) -> which nodes stay. Hashable, since networks are.
Select = Callable[[Float[Array, " nodes"], Topology], Bool[Array, " nodes"]]


@dataclass(frozen=True)
class Threshold:
    """Keeps the nodes with alpha > tau, strictly; a graph may become empty (Knyazev et al. 2019, eq. 3)."""

    tau: float

    def __post_init__(self) -> None:
        set_numbers(self, floats=("tau",))
        if not self.tau <= 1:
            raise ValueError(f"tau: {self.tau} is not allowed, expected at most 1")

    def __call__(self, alpha: Float[Array, " nodes"], topology: Topology) -> Bool[Array, " nodes"]:
        """Which nodes to keep."""
        return topology.node_mask & (alpha > self.tau)


@dataclass(frozen=True)
class TopK:
    """Drops the round(N (1 - ratio)) nodes of least alpha of each graph (Gao and Ji 2019, in the paper's form).

    N counts the nodes still kept; halves round to even; of equal alphas the lower index stays.
    """

    ratio: float

    def __post_init__(self) -> None:
        set_numbers(self, floats=("ratio",))
        if not 0 <= self.ratio <= 1:
            raise ValueError(f"ratio: {self.ratio} is not within 0 to 1")

    def __call__(self, alpha: Float[Array, " nodes"], topology: Topology) -> Bool[Array, " nodes"]:
        """Which nodes to keep."""
        size = topology.num_nodes
        keep = size - jnp.round(size * jnp.float32(1 - self.ratio))
        # Rows in order of graph, then of falling alpha, dropped nodes last; lexsort is stable, so the lower index wins.
        order = jnp.lexsort((jnp.where(topology.node_mask, -alpha, jnp.inf), topology.node_graph))
        place = jnp.zeros_like(order).at[order].set(jnp.arange(len(order)))
        rank = place - topology.broadcast_to_nodes(jnp.cumsum(topology.n_node) - topology.n_node)
        return topology.node_mask & (rank < topology.broadcast_to_nodes(keep.astype(rank.dtype)))


SELECTIONS: dict[str, type[Threshold] | type[TopK]] = {"threshold": Threshold, "topk": TopK}  # by name, in files


@dataclass(frozen=True)
class AttentionPoolingConfig:
    """One attention pooling, placed before a convolution.

    Attributes:
      rule: which nodes stay: `Threshold(tau)`, `TopK(ratio)`, or a rule of one's own, which `save_network` can't write.
      scorer: what scores the nodes.
      reads: the features that are scored: those being pooled ("current") or those that entered the convolution before
        ("previous": after that convolution's own pooling, where it had one).
      softmax: "clamped", the paper's, which is not shift-invariant, or "plain"; `Topology.softmax` has both.
    """

    select: Select
    scorer: ScorerConfig = ScorerConfig()
    score_from: Reads = "current"
    softmax: Softmax = "clamped"

    def __post_init__(self) -> None:
        if not callable(self.select) or isinstance(self.select, type):
            expected = "Threshold(tau), TopK(ratio) or a function of (alpha, topology)"
            raise ValueError(f"rule: {self.select!r} is no rule, expected {expected}")
        if not isinstance(self.scorer, ScorerConfig):
            raise ValueError(f"scorer: expected a Scorer, got {self.scorer!r}")
        expect_one_of("softmax", self.softmax, Softmax)
        expect_one_of("reads", self.score_from, Reads)


class PoolingResult(NamedTuple):
    """What one pooling did.

    Attributes:
      attention: alpha of every node, 0 for those that were gone before, [nodes].
      present: nodes that entered the pooling, [nodes].
      kept: nodes that it kept, [nodes].
    """

    attention: Float[Array, " nodes"]
    node_mask_in: Bool[Array, " nodes"]
    node_mask: Bool[Array, " nodes"]


class AttentionPooling(nn.Module):
    r"""Pools by attention: x_i becomes alpha_i x_i, then nodes drop out of the topology.

    .. math:: \alpha = \mathrm{softmax}(\mathrm{score}(x)), \quad Z_i = \alpha_i X_i

    Knyazev et al. 2019, section 2.2.

    Attributes:
      config: how.
      order: the model's Chebyshev order, of which a scorer that is a graph network uses at most 2.
      aggregation: the model's aggregation, used by such a scorer.
    """

    config: AttentionPoolingConfig
    order: int = 2
    aggregation: Aggregation = "mean"

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "nodes features"],
        topology: Topology,
        score_features: Float[Array, "nodes scored_features"] | None = None,
        target: Float[Array, " nodes"] | None = None,
    ) -> tuple[Float[Array, "nodes features"], Topology, PoolingResult]:
        """The pooled features, the reduced topology, and what was done.

        Args:
          x: features to pool; rows of dropped nodes have to be finite.
          topology: the graphs before pooling.
          score_features: features to score; x where not given.
          target: target attention, read by the "ground_truth" scorer alone.
        """
        if self.config.scorer.kind == "ground_truth":
            if target is None:
                raise ValueError('graph: ground-truth pooling needs nodes["attention"], the target')
            alpha = normalize_target(target, topology)
        else:
            scores = Scorer(self.config.scorer, self.order, self.aggregation, name="scorer")(
                x if score_features is None else score_features, topology
            )
            alpha = topology.softmax(scores, self.config.softmax)
        reduced = topology.subgraph(self.config.select(alpha, topology))
        # Weights of 0 drop the rows too: x is finite, its own dropped rows are 0.
        weight = reduced.mask_nodes(alpha)
        return weight[:, None] * x, reduced, PoolingResult(alpha, topology.node_mask, reduced.node_mask)
