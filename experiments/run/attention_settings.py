"""The settings of pooling and attention, and the poolings that they describe."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jattn import nn
from jattn._choices import Change
from jattn._options import expect_at_least, setting

from .groups import Checked

if TYPE_CHECKING:  # a command line is read without flax
    Pooling = nn.AttentionPoolingConfig | nn.DiffPoolConfig

Attention = Literal["none", "unsupervised", "supervised", "weak", "ground_truth"]


@dataclass(frozen=True)
class AttentionSettings(Checked):
    """Pooling and the attention that it goes by."""

    attention: Attention = setting("weak", "training")
    """Supervision of attention. none: global pooling, or DiffPool with --clusters. weak: by a teacher's leave-one-out
    attribution. ground_truth: the target itself in place of attention, an upper bound."""
    pooling: Literal["threshold", "topk"] = setting("threshold", "training")
    """Nodes that a pooling keeps: those with attention above --threshold, or a fraction --ratio of them."""
    threshold: float = setting(0.05, "training")
    """Nodes with attention at or below this are dropped."""
    ratio: float = setting(1.0, "training")
    """Fraction of a graph's nodes that top-k pooling keeps; 1 keeps all."""
    clusters: int | None = setting(None, "training")
    """Clusters per graph of DiffPool, with --attention none; None for no DiffPool."""
    entropy_weight: float = setting(1.0, "training")
    """With --clusters: weight of the entropy of assignments in DiffPool's auxiliary loss."""
    pool_before: tuple[int, ...] = setting((1,), "training")
    """Convolutions, counted from 0, that have a pooling before them."""
    scorer: Literal["linear", "mlp", "gnn"] = setting("linear", "training")
    """What computes attention: a projection, an MLP or a graph network."""
    scorer_hidden: int = setting(32, "training")
    """Hidden units of an MLP scorer, or filters of a graph network scorer."""
    scorer_layers: int = setting(3, "training")
    """Convolutions of a graph network scorer."""
    score_from: Literal["current", "previous"] = setting("previous", "training")
    """Features that the scorer reads: those being pooled, or those that entered the convolution before."""
    init: Literal["normal", "uniform", "default"] = setting("normal", "training")
    """Distribution of the scorer's initial weights; default: uniform, within 1 / sqrt(inputs)."""
    init_scale: float = setting(1.0, "training")
    """Standard deviation (normal) or bound (uniform) of the scorer's initial weights."""
    restarts: int = setting(1, "training")
    """Initial scorers per network: all are trained for a tenth of the epochs, then training starts from the one with
    the lowest training loss. Helps unsupervised attention most."""
    softmax: Literal["clamped", "sink"] = setting("clamped", "training")
    """How scores become attention. clamped: exp(score) by its sum over the graph, which leaves open what a score of 0
    means. sink: each graph also has a sink, a node with score 0 that takes part in the sum alone. Attention then needs
    a score above 0, and nodes whose features were not seen in training, with scores around 0, get little."""
    renormalize: bool = setting(False, "training")
    """Divide the attention of the nodes that a pooling keeps by its sum, so that what many dropped nodes of a large
    graph take does not weaken the others."""
    relative: bool = setting(False, "training")
    """Multiply attention by the number of nodes, for --threshold and for features: both then mean the same in graphs of
    any size."""
    attention_weight: float = setting(100.0, "training")
    """Weight of the attention loss (beta)."""
    label_change: Change = setting("absolute", "training")
    """With --attention weak: what counts as a change of the teacher's prediction without a node. decrease: only a fall.
    Where nodes can only add to what is predicted, as to a count, a rise is an error of the teacher."""
    label_threshold: float = setting(0.0, "training")
    """With --attention weak: leave-one-out labels below this are set to 0, and each graph's others renormalized."""
    label_fraction: float = setting(0.0, "training")
    """With --attention weak: labels below this fraction of the graph's largest one are noise and set to 0. So are all
    labels of a graph whose prediction changes at most by less than this fraction of the median graph's, because no node
    matters there. Unlike --label-threshold it depends neither on the number of nodes that matter nor on units."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        super().validate()
        expect_at_least(1, restarts=self.restarts, clusters=self.clusters)
        expect_at_least(1, scorer_hidden=self.scorer_hidden, scorer_layers=self.scorer_layers)
        expect_at_least(0, init_scale=self.init_scale, attention_weight=self.attention_weight)
        expect_at_least(0, label_threshold=self.label_threshold, entropy_weight=self.entropy_weight)
        for name in ("threshold", "ratio", "label_fraction"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not allowed, expected 0 to 1")
        for place in self.pool_before:
            if self.pool_before.count(place) > 1:
                raise ValueError(f"pool_before: {place} is given twice; a convolution has one pooling before it")
        if self.clusters is not None and self.attention != "none":
            raise ValueError(f"clusters: DiffPool has no --attention {self.attention}; say --attention none")
        if self.restarts > 1 and self.attention in ("none", "ground_truth"):
            raise ValueError(f"restarts: --attention {self.attention} has no scorer to choose; leave it out")
        if self.pools and not self.pool_before:
            wanted = f"--clusters {self.clusters}" if self.attention == "none" else f"--attention {self.attention}"
            raise ValueError(f"pool_before: {wanted} needs at least one pooling")

    @property
    def source(self) -> Literal["current", "previous"]:
        """The features that the scorer reads; true attention has no scorer, so it may stand before any convolution."""
        return "current" if self.attention == "ground_truth" else self.score_from

    @property
    def pools(self) -> bool:
        """Whether there is any pooling: by attention, or DiffPool."""
        return self.attention != "none" or self.clusters is not None

    def pooling_config(self) -> "Pooling | None":
        """The pooling: by attention, DiffPool, or none."""
        if self.attention == "none":
            return None if self.clusters is None else nn.DiffPoolConfig(self.clusters, self.entropy_weight)
        scorer = nn.ScorerConfig(
            kind="ground_truth" if self.attention == "ground_truth" else self.scorer,
            hidden=self.scorer_hidden,
            filters=self.scorer_hidden,
            layers=self.scorer_layers,
            init=self.init,
            scale=self.init_scale,
        )
        select = nn.Threshold(self.threshold) if self.pooling == "threshold" else nn.TopK(self.ratio)
        return nn.AttentionPoolingConfig(select, scorer, self.source, self.softmax, self.renormalize, self.relative)

    def poolings(self, layers: int) -> "tuple[Pooling | None, ...]":
        """The pooling before each of `layers` convolutions; empty if there is no pooling at all."""
        pooling = self.pooling_config()
        return () if pooling is None else tuple(pooling if i in self.pool_before else None for i in range(layers))

    def expect_places(self, layers: int) -> None:
        """Raises `ValueError` if one of `layers` convolutions can't have a pooling before it.

        A convolution in `pool_before` may not exist, or have no previous features to score from.
        """
        if not self.pools:
            return
        first, condition = 0, ""
        if self.attention != "none" and self.source == "previous":
            first, condition = 1, " with --score-from previous"
            if layers == 1:
                raise ValueError("filters: one convolution has no previous features; say --score-from current")
        for place in self.pool_before:
            if not first <= place < layers:
                raise ValueError(f"pool_before: {place} is not allowed{condition}, expected {first} to {layers - 1}")

    @property
    def loss_weight(self) -> float:
        """The weight of the attention loss, 0 without a target."""
        return self.attention_weight if self.attention in ("supervised", "weak") else 0.0
