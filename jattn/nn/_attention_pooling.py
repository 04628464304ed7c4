"""Attention pooling: multiply features by attention, then drop nodes with little attention by a mask."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jattn._choices import Aggregation
from jattn._options import expect_one_of, set_numbers
from jattn.nn._scorers import Scorer, ScorerConfig, normalize_target
from jattn.nn._topology import Softmax, Topology
from jattn.types import AnyArray

ScoreFrom = Literal["current", "previous"]
# (alpha, topology before pooling) -> mask of the nodes to keep. Hashable, because networks are.
Select = Callable[[Float[Array, " nodes"], Topology], Bool[Array, " nodes"]]


@dataclass(frozen=True)
class Threshold:
    """Keeps the nodes with alpha > tau, strictly; a graph may become empty (Knyazev et al. 2019, eq. 3).

    >>> Threshold(0.05)
    Threshold(tau=0.05)
    """

    tau: float

    def __post_init__(self) -> None:
        set_numbers(self, floats=("tau",))
        if not self.tau <= 1:
            raise ValueError(f"tau: {self.tau} is not allowed, expected at most 1")

    def __call__(self, alpha: Float[Array, " nodes"], topology: Topology) -> Bool[Array, " nodes"]:
        """Mask of the nodes to keep."""
        return above(self.tau, alpha, topology)


def above(tau: Float[AnyArray, ""] | float, alpha: Float[Array, " nodes"], topology: Topology) -> Bool[Array, " nodes"]:
    """Mask of the nodes with alpha > tau."""
    return topology.node_mask & (alpha > tau)


@dataclass(frozen=True)
class TopK:
    """Keeps the nodes with the largest alpha of each graph (Gao and Ji 2019): drops round(N (1 - ratio)) nodes.

    N is the number of nodes still kept. Halves round to even. Of equal alphas the lower index stays.
    """

    ratio: float

    def __post_init__(self) -> None:
        set_numbers(self, floats=("ratio",))
        if not 0 <= self.ratio <= 1:
            raise ValueError(f"ratio: {self.ratio} is not allowed, expected 0 to 1")

    def __call__(self, alpha: Float[Array, " nodes"], topology: Topology) -> Bool[Array, " nodes"]:
        """Mask of the nodes to keep."""
        return largest(jnp.float32(1 - self.ratio), alpha, topology)


def largest(dropped: Float[AnyArray, ""], alpha: Float[Array, " nodes"], topology: Topology) -> Bool[Array, " nodes"]:
    """Mask of the nodes with the largest alpha of each graph; of N nodes, round(N dropped) are dropped."""
    size = topology.num_nodes
    keep = size - jnp.round(size * dropped)
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
      select: which nodes stay: `Threshold(tau)`, `TopK(ratio)`, or your own hashable function of (alpha, topology),
        which `save_network` can't write.
      scorer: what scores the nodes.
      score_from: the features that are scored: those being pooled ("current"), or those that entered the convolution
        before, after its own pooling ("previous").
      softmax: "clamped", the paper's, which is not shift-invariant, "plain" or "sink"; see `Topology.softmax`.
      renormalize: divide the attention of the kept nodes by its sum before it multiplies features, so that the sum is 1
        however many nodes were dropped. Attention itself, its loss and the selection stay as they are.
      relative: take attention relative to the 1 / N of each node if all had the same. `select` gets N alpha, and so do
        features: thresholds and features then mean the same in graphs of any size. After `renormalize`, N counts the
        kept nodes, whose mean is 1. Attention itself and its loss stay as they are.
    """

    select: Select
    scorer: ScorerConfig = ScorerConfig()
    score_from: ScoreFrom = "current"
    softmax: Softmax = "clamped"
    renormalize: bool = False
    relative: bool = False

    def __post_init__(self) -> None:
        set_numbers(self, bools=("renormalize", "relative"))
        if not callable(self.select) or isinstance(self.select, type):
            expected = "Threshold(tau), TopK(ratio) or a function of (alpha, topology)"
            raise ValueError(f"select: {self.select!r} selects no nodes, expected {expected}")
        if not isinstance(self.scorer, ScorerConfig):
            raise ValueError(f"scorer: expected a ScorerConfig, got {self.scorer!r}")
        expect_one_of("softmax", self.softmax, Softmax)
        expect_one_of("score_from", self.score_from, ScoreFrom)


class PoolingResult(NamedTuple):
    """Attention and masks of one attention pooling.

    Attributes:
      attention: alpha of every node, 0 for nodes dropped before, [nodes].
      node_mask_in: nodes that entered the pooling, [nodes].
      node_mask: nodes that it kept, [nodes].
    """

    attention: Float[Array, " nodes"]
    node_mask_in: Bool[Array, " nodes"]
    node_mask: Bool[Array, " nodes"]


class AttentionPooling(nn.Module):
    r"""Pools by attention: multiplies x_i by alpha_i, then drops nodes from the topology.

    .. math:: \alpha = \mathrm{softmax}(\mathrm{score}(x)), \quad Z_i = \alpha_i X_i

    Knyazev et al. 2019, section 2.2.

    Attributes:
      config: scorer, selection and softmax.
      order: Chebyshev order of the model; a scorer that is a graph network uses at most 2.
      aggregation: aggregation of the model, for a scorer that is a graph network.
    """

    config: AttentionPoolingConfig
    order: int = 2
    aggregation: Aggregation = "mean"

    def __call__(
        self,
        x: Float[Array, "nodes features"],
        topology: Topology,
        score_features: Float[Array, "nodes scored_features"] | None = None,
        target: Float[Array, " nodes"] | None = None,
    ) -> tuple[Float[Array, "nodes features"], Topology, PoolingResult]:
        """The pooled features, the topology of the kept nodes, and attention and masks.

        Args:
          x: features to pool; rows of dropped nodes have to be finite.
          topology: the graphs before pooling.
          score_features: features to score; x by default.
          target: target attention, for the "ground_truth" scorer only.

        Raises:
          ValueError: the scorer is "ground_truth" and there is no target.
        """
        weight, reduced, result = self.weigh(topology, x if score_features is None else score_features, target)
        return weight[:, None] * x, reduced, result

    @nn.compact
    def weigh(
        self,
        topology: Topology,
        score_features: Float[Array, "nodes scored_features"],
        target: Float[Array, " nodes"] | None = None,
    ) -> tuple[Float[Array, " nodes"], Topology, PoolingResult]:
        """As `__call__`, but with what multiplies features, 0 in dropped rows, in place of the pooled features."""
        if self.config.scorer.kind == "ground_truth":
            if target is None:
                raise ValueError('graph: ground-truth pooling needs nodes["attention"], the target')
            alpha = normalize_target(target, topology)
        else:
            scorer = Scorer(self.config.scorer, self.order, self.aggregation, name="scorer")
            scores = scorer(score_features, topology)
            alpha = topology.softmax(scores, self.config.softmax)
        relative, renormalize = self.config.relative, self.config.renormalize
        reduced = topology.subgraph(self.config.select(_times_nodes(alpha, topology) if relative else alpha, topology))
        # Weights of 0 also mask rows, because features are finite.
        weight = normalize_target(alpha, reduced) if renormalize else reduced.mask_nodes(alpha)
        if relative:
            weight = _times_nodes(weight, reduced if renormalize else topology)
        return weight, reduced, PoolingResult(alpha, topology.node_mask, reduced.node_mask)


def _times_nodes(alpha: Float[Array, " nodes"], topology: Topology) -> Float[Array, " nodes"]:
    """N alpha, with N the number of kept nodes of each graph."""
    return topology.broadcast_to_nodes(topology.num_nodes) * alpha
