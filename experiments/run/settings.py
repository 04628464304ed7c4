"""What all experiments can be told, the networks that it describes, and the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import tyro

from jattn._options import expect_at_least, expect_seeds, setting
from jattn.nn import (
    Aggregation,
    AttentionPoolingConfig,
    DiffPoolConfig,
    Network,
    Precision,
    Readout,
    ScorerConfig,
    Threshold,
    TopK,
)
from jattn.training import Task, TrainConfig

from .devices import RunOptions
from .errors import expect_no_empty, fail

Attention = Literal["none", "unsupervised", "supervised", "weak", "ground_truth"]


@dataclass(frozen=True)
class Settings(RunOptions):
    """Settings common to all experiments; each gives them its own defaults."""

    data_dir: Path | None = setting(None, "location")
    """Folder (or zip) of the published data set; it is generated where not given."""
    seeds: int = setting(10, "evaluation", of_preset=False)
    """Networks to train, all at once, each with its own initial weights and order of graphs. They are spread over the
    largest number of devices that divides theirs; where that is half of all or less, several devices share the batches
    of each."""
    seed: int = setting(0, "training", of_preset=False)
    """The first of the seeds."""
    validation: bool = setting(False, "evaluation")
    """Evaluate on the validation split, to choose settings, in place of the test subsets."""
    best: bool = setting(False, "evaluation")
    """Evaluate for each seed the weights of the checkpoint that did best on the validation split, in place of the last
    ones. All checkpoints are of the last stage's network."""
    leave_one_out_auc: bool = setting(False, "evaluation", of_preset=False)
    """Without pooling: take attention from leave-one-out on the evaluated graphs, for its AUC. Takes minutes."""

    attention: Attention = setting("weak", "training")
    """none: global pooling, or DiffPool with --clusters. weak: supervised by a teacher's leave-one-out attribution.
    ground_truth: the target itself, an upper bound."""
    pooling: Literal["threshold", "topk"] = setting("threshold", "training")
    """Which nodes a pooling keeps: those with attention above --threshold, or a share --ratio of them."""
    threshold: float = setting(0.05, "training")
    """Attention at or under which a node is dropped."""
    ratio: float = setting(1.0, "training")
    """Share of a graph's nodes that top-k pooling keeps."""
    clusters: int | None = setting(None, "training")
    """Clusters that DiffPool makes of a graph's nodes, where --attention is none; no DiffPool where None."""
    pool_before: tuple[int, ...] = setting((1,), "training")
    """Convolutions, counted from 0, that have a pooling before them."""
    scorer: Literal["linear", "mlp", "gnn"] = setting("linear", "training")
    """What computes attention: a projection, an MLP or a graph network."""
    scorer_hidden: int = setting(32, "training")
    """Hidden units of an MLP that computes attention, or filters of a graph network that does."""
    scorer_layers: int = setting(3, "training")
    """Convolutions of a graph network that computes attention."""
    score_from: Literal["current", "previous"] = setting("previous", "training")
    """Attention is computed from the features being pooled, or from those that entered the convolution before."""
    init: Literal["normal", "uniform", "default"] = setting("normal", "training")
    """Distribution of attention's initial weights."""
    init_scale: float = setting(1.0, "training")
    """Standard deviation (normal) or bound (uniform) of attention's initial weights."""
    restarts: int = setting(1, "training")
    """Initial attentions of each network: all of them train for a tenth of the epochs, and training begins with the one
    whose training loss is least then. Unsupervised attention needs it most."""
    attention_weight: float = setting(100.0, "training")
    """Weight of the attention loss (beta)."""
    label_threshold: float = setting(0.0, "training")
    """Leave-one-out labels under this count as 0, where --attention is weak; a graph's others then sum to 1 again."""

    filters: tuple[int, ...] = setting((64, 64), "training")
    """Output features of each convolution."""
    order: int = setting(2, "training")
    """Chebyshev terms of a convolution (K); 1 is a GCN or GIN."""
    aggregation: Aggregation = setting("mean", "training")
    """How a convolution aggregates neighbours."""
    hidden: int | None = setting(None, "training")
    """Hidden units of each convolution's MLP; a linear map where None."""
    readout: Readout = setting("sum", "training")
    """How a graph's features are computed from those of its nodes."""
    dropout: float = setting(0.0, "training")
    """Rate of dropout before the output map."""
    compact: bool = setting(False, "nothing")
    """After a pooling, compute the rows of kept nodes alone: the same result, quicker where convolutions are wide. A
    device's seeds train one after another then, in place of all at once."""

    epochs: int = setting(300, "training")
    """Epochs to train."""
    decay_epochs: tuple[int, ...] = setting((280,), "training")
    """Epochs at whose start the learning rate is divided by 10."""
    teacher_epochs: int = setting(100, "training")
    """Epochs to train the teacher without attention, where --attention is weak."""
    teacher_decay_epochs: tuple[int, ...] = setting((90,), "training")
    """Epochs at whose start the teacher's learning rate is divided by 10."""
    learning_rate: float = setting(1e-3, "training")
    """Adam's learning rate."""
    weight_decay: float = setting(1e-4, "training")
    """L2 decay of all weights."""
    batch_size: int = setting(32, "training")
    """Graphs a training step."""
    precision: Precision = setting("highest", "training")
    """How convolutions compute in training: in float32 (highest), with quicker products on GPUs and TPUs (default), or
    in bfloat16. Weights, attention and losses are float32 always, and so are leave-one-out and tests."""

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_at_least(1, seeds=self.seeds, restarts=self.restarts, batch_size=self.batch_size)
        expect_at_least(1, epochs=self.epochs, teacher_epochs=self.teacher_epochs)
        expect_at_least(1, scorer_hidden=self.scorer_hidden, scorer_layers=self.scorer_layers, clusters=self.clusters)
        expect_seeds(self.seed, self.seeds)
        expect_at_least(0, init_scale=self.init_scale, label_threshold=self.label_threshold)
        expect_at_least(0, attention_weight=self.attention_weight)
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate: {self.learning_rate} is not allowed, expected more than 0")
        for name in ("threshold", "ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not allowed, expected 0 to 1")
        for name in ("decay_epochs", "teacher_decay_epochs"):
            if min(getattr(self, name), default=1) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not allowed, epochs count from 1")
        self.teacher(1)  # these refuse the rest of what a network and its training can't have
        self.training("regression")
        self._check_poolings()

        if self.restarts > 1 and self.attention in ("none", "ground_truth"):
            raise ValueError(f"restarts: with attention={self.attention} there are no weights of attention to choose")
        if self.leave_one_out_auc and self.attention != "none":
            raise ValueError(f"leave_one_out_auc: attention={self.attention} has an AUC of its own; leave it out")

    def _check_poolings(self) -> None:
        attention, last = self.attention != "none", len(self.filters) - 1
        if self.clusters is not None and attention:
            raise ValueError(f"clusters: DiffPool goes without attention={self.attention}; say --attention none")
        if not attention and self.clusters is None:
            return
        if not self.pool_before:
            wanted = f"attention={self.attention}" if attention else f"clusters={self.clusters}"
            raise ValueError(f"pool_before: {wanted} needs at least one pooling")
        previous = attention and self.score_from == "previous"
        if previous and len(self.filters) == 1:
            raise ValueError("filters: with one convolution there are no previous features; say --score-from current")
        for place in self.pool_before:
            first, where = (1, " with score_from=previous") if previous else (0, "")
            if not first <= place <= last:
                raise ValueError(f"pool_before: {place} is not allowed{where}, expected {first} to {last}")

    def teacher(self, outputs: int) -> Network:
        """The network without attention."""
        return Network(
            filters=self.filters,
            order=self.order,
            aggregation=self.aggregation,
            hidden=self.hidden,
            readout=self.readout,
            outputs=outputs,
            dropout=self.dropout,
        )

    def network(self, outputs: int) -> Network:
        """The network, with attention or DiffPool where there is some."""
        if self.attention == "none":
            clusters = None if self.clusters is None else DiffPoolConfig(self.clusters)
            return self.teacher(outputs).clone(poolings=self._placed(clusters))
        scorer = ScorerConfig(
            kind="ground_truth" if self.attention == "ground_truth" else self.scorer,
            hidden=self.scorer_hidden,
            filters=self.scorer_hidden,
            layers=self.scorer_layers,
            init=self.init,
            scale=self.init_scale,
        )
        rule = Threshold(self.threshold) if self.pooling == "threshold" else TopK(self.ratio)
        layer = AttentionPoolingConfig(rule, scorer, self.score_from)
        return self.teacher(outputs).clone(poolings=self._placed(layer))

    def _placed(
        self, layer: AttentionPoolingConfig | DiffPoolConfig | None
    ) -> tuple[AttentionPoolingConfig | DiffPoolConfig | None, ...]:
        """A pooling before each convolution that is to have one; none at all where there is no pooling."""
        return tuple(layer if i in self.pool_before else None for i in range(len(self.filters))) if layer else ()

    def training(self, task: Task) -> TrainConfig:
        """How the network is trained."""
        supervised = self.attention in ("supervised", "weak")
        return self._training(task, self.decay_epochs, self.attention_weight if supervised else 0.0)

    def teacher_training(self, task: Task) -> TrainConfig:
        """How the teacher is trained."""
        return self._training(task, self.teacher_decay_epochs, 0.0)

    def _training(self, task: Task, decay: tuple[int, ...], attention_weight: float) -> TrainConfig:
        learning_rate, weight_decay, precision = self.learning_rate, self.weight_decay, self.precision
        return TrainConfig(task, attention_weight, learning_rate, decay, weight_decay, precision, self.compact)


Configured = TypeVar("Configured", bound=Settings)


def parse(
    presets: Mapping[str, Configured], default: str, arguments: Sequence[str], program: str, about: str
) -> tuple[str, Configured]:
    """The preset's name and the settings that a command line asks for: `[PRESET] [--setting value ...]`.

    Exits with a message where a preset or a setting is unknown or has a value that is not allowed.

    Args:
      presets: settings by name.
      default: the preset where none is named.
      arguments: the command line after the program's name.
      program: how the program is called, for its help.
      about: what it does, for its help.
    """
    expect_no_empty(arguments)
    named = bool(arguments) and not arguments[0].startswith("-")
    name = arguments[0] if named else default
    if name not in presets:
        fail(f"preset {name!r} is not known; expected one of: {', '.join(presets)}")
    listing = "\n".join(f"  {key}" + ("  (default)" if key == default else "") for key in presets)
    try:
        settings = tyro.cli(
            type(presets[name]),
            default=presets[name],
            args=list(arguments[1:] if named else arguments),
            prog=f"{program} [PRESET]",
            description=f"{about}\n\nPresets; the defaults below are those of {name}:\n{listing}",
        )
    except ValueError as error:
        fail(str(error))
    return name, settings
