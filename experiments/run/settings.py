"""The settings of an experiment, in groups, and the network and training that they describe.

A group checks its own values; what concerns several groups is checked by `Settings`. Each setting says what another
value of it affects: nothing, the data, training or evaluation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jattn import nn
from jattn._choices import Aggregation, Precision, Readout, Task, check_layers
from jattn._options import expect_at_least, expect_seeds, setting
from jattn.training import TrainConfig

from .attention_settings import AttentionSettings
from .devices import ProcessSettings, RunSettings
from .groups import Checked

if TYPE_CHECKING:  # a command line is read without flax
    from .attention_settings import Pooling


@dataclass(frozen=True)
class DataSettings(Checked):
    """The data set."""

    data_dir: Path | None = setting(None, "location")
    """Folder (or zip) of the published data set; by default it is generated."""


@dataclass(frozen=True)
class GeneratedData(DataSettings):
    """The data set: the published one in --data-dir, or else a generated one."""

    train_graphs: int = setting(30_000, "data")
    """Training graphs of a generated set."""
    test_graphs: int = setting(5_000, "data")
    """Graphs of the validation split and of each test subset of a generated set."""
    data_seed: int = setting(0, "data", of_preset=False)
    """Seed of a generated set."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed, or has no effect on published data."""
        super().validate()
        expect_at_least(1, train_graphs=self.train_graphs, test_graphs=self.test_graphs)
        expect_at_least(0, data_seed=self.data_seed)
        if self.data_dir is not None:
            for name, value in self.unpublished().items():
                raise ValueError(f"{name}: {value} is for a generated set, but --data-dir names a published one")

    def unpublished(self) -> dict[str, Any]:
        """The settings that no published data set has, by name."""
        values = {
            field.name: getattr(self, field.name) for field in fields(self) if field.metadata["affects"] == "data"
        }
        return {name: value for name, value in values.items() if value != getattr(type(self), name)}


@dataclass(frozen=True)
class ModelSettings(Checked):
    """The network apart from its pooling."""

    filters: tuple[int, ...] = setting((64, 64), "training")
    """Output features of each convolution."""
    order: int = setting(2, "training")
    """Chebyshev terms of a convolution (K); 1 is a GCN or GIN."""
    aggregation: Aggregation = setting("mean", "training")
    """How a convolution aggregates neighbors."""
    hidden: int | None = setting(None, "training")
    """Hidden units of each convolution's MLP; None for a linear map."""
    readout: Readout = setting("sum", "training")
    """How a graph's features are computed from those of its nodes; log_sum: log2((1 + sum) / (1 + typical nodes))."""
    typical_nodes: float = setting(100.0, "training")
    """With --readout log_sum: about the number of nodes of a training graph."""
    dropout: float = setting(0.0, "training")
    """Dropout rate before the output map."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        super().validate()
        check_layers(self)

    def network(self, outputs: int, poolings: "tuple[Pooling | None, ...]" = ()) -> "nn.Network":
        """The network, with a pooling before each convolution that has one."""
        return nn.Network(
            filters=self.filters,
            order=self.order,
            aggregation=self.aggregation,
            hidden=self.hidden,
            readout=self.readout,
            typical_nodes=self.typical_nodes,
            outputs=outputs,
            dropout=self.dropout,
            poolings=poolings,
        )


@dataclass(frozen=True)
class OptimizerSettings(Checked):
    """How networks are trained."""

    epochs: int = setting(300, "training")
    """Epochs to train."""
    decay_epochs: tuple[int, ...] = setting((280,), "training")
    """Epochs at the start of which the learning rate is divided by 10."""
    teacher_epochs: int = setting(100, "training")
    """With --attention weak: epochs to train the teacher, which has no attention."""
    teacher_decay_epochs: tuple[int, ...] = setting((90,), "training")
    """Epochs at the start of which the teacher's learning rate is divided by 10."""
    learning_rate: float = setting(1e-3, "training")
    """Adam's learning rate."""
    weight_decay: float = setting(1e-4, "training")
    """L2 decay of all weights."""
    batch_size: int = setting(32, "training")
    """Graphs per training step."""
    precision: Precision = setting("highest", "training")
    """Precision of convolutions in training: float32 (highest), faster products on GPUs and TPUs (default), or
    bfloat16. Weights, attention, losses, leave-one-out and tests are float32 always."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        super().validate()
        expect_at_least(1, epochs=self.epochs, teacher_epochs=self.teacher_epochs, batch_size=self.batch_size)
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate: {self.learning_rate} is not allowed, expected more than 0")
        for name in ("decay_epochs", "teacher_decay_epochs"):
            epochs = getattr(self, name)
            expect_at_least(1, **{name: min(epochs, default=1)})
            for epoch in epochs:
                if epochs.count(epoch) > 1:
                    raise ValueError(f"{name}: {epoch} is given twice")
        self.training("regression", attention_weight=0.0, compact=False)

    def training(self, task: Task, attention_weight: float, compact: bool) -> TrainConfig:
        """How the network is trained."""
        return TrainConfig(
            task=task,
            attention_weight=attention_weight,
            learning_rate=self.learning_rate,
            decay_epochs=self.decay_epochs,
            weight_decay=self.weight_decay,
            precision=self.precision,
            compact=compact,
        )

    def teacher_training(self, task: Task, compact: bool) -> TrainConfig:
        """How the teacher is trained, which has no attention."""
        config = self.training(task, attention_weight=0.0, compact=compact)
        return replace(config, decay_epochs=self.teacher_decay_epochs)

    def late_decays(self, teacher: bool) -> Mapping[str, str]:
        """For each setting with a decay after the last epoch, which is never reached: a line that says so.

        Args:
          teacher: whether a teacher is trained.
        """
        schedules = [("decay_epochs", "learning rate", f"--epochs {self.epochs}", self.epochs)]
        if teacher:
            rate, last = "teacher's learning rate", f"--teacher-epochs {self.teacher_epochs}"
            schedules.append(("teacher_decay_epochs", rate, last, self.teacher_epochs))
        return {
            name: f"{max(getattr(self, name))} is after the last epoch, {last}, so the {rate} never drops there"
            for name, rate, last, epochs in schedules
            if max(getattr(self, name), default=0) > epochs
        }


@dataclass(frozen=True)
class SeedSettings(Checked):
    """The networks that are trained, one per seed, and tested on all test subsets with their last weights."""

    seeds: int = setting(10, "evaluation", of_preset=False)
    """Networks to train, all at once, each with its own initial weights and order of graphs. They use the most
    devices that divide them evenly. If that leaves half of the devices or more idle, several share each network's
    batches."""
    seed: int = setting(0, "training", of_preset=False)
    """The first seed."""

    @property
    def all_seeds(self) -> range:
        """Every seed."""
        return range(self.seed, self.seed + self.seeds)

    # Such data have neither a validation split nor true attention, so these options are fixed.
    @property
    def validation(self) -> bool:
        """Whether the validation split is evaluated in place of the test subsets."""
        return False

    @property
    def best(self) -> bool:
        """Whether the best checkpoint of each seed is evaluated in place of the last weights."""
        return False

    @property
    def leave_one_out_auc(self) -> bool:
        """Whether networks without pooling get an attention AUC from leave-one-out."""
        return False

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        super().validate()
        expect_at_least(1, seeds=self.seeds)
        expect_seeds(self.seed, self.seeds)


@dataclass(frozen=True)
class EvaluationSettings(SeedSettings):
    """The networks that are trained, one per seed, and how they are tested."""

    validation: bool = setting(False, "evaluation")
    """Evaluate on the validation split, to choose settings, in place of the test subsets."""
    best: bool = setting(False, "evaluation")
    """Evaluate, for each seed, the checkpoint of the last stage with the highest accuracy on the validation split, in
    place of the last weights."""
    leave_one_out_auc: bool = setting(False, "evaluation", of_preset=False)
    """Without pooling: take attention from leave-one-out on the evaluated graphs, for its AUC. Takes minutes."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        super().validate()
        if self.best and self.validation:
            raise ValueError("best: with --validation the same graphs would choose and score; leave one of them out")


@dataclass(frozen=True)
class ExperimentRun(RunSettings):
    """Where a run is kept, what it shows, and how it is executed; none of it changes results."""

    compact: bool = setting(False, "nothing")
    """After a pooling, compute the rows of kept nodes alone, and before --readout max gradients alone of rows that have
    one: the same result, faster. The seeds of a device then train one after another. CPUs only."""


@dataclass(frozen=True)
class Settings(Checked):
    """Settings of an experiment; each experiment has its own data and defaults."""

    data: DataSettings = DataSettings()
    model: ModelSettings = ModelSettings()
    attention: AttentionSettings = AttentionSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    evaluation: SeedSettings = SeedSettings()
    run: ExperimentRun = ExperimentRun()
    processes: ProcessSettings = ProcessSettings()

    def validate(self) -> None:
        """Raises `ValueError` if groups contradict each other."""
        self.attention.expect_places(len(self.model.filters))
        if self.evaluation.leave_one_out_auc and self.attention.attention != "none":
            why = f"--attention {self.attention.attention} has an AUC of its own"
            raise ValueError(f"leave_one_out_auc: {why}; leave it out")
        if self.processes.coordinator is not None and self.run.devices != "all":
            raise ValueError("devices: with --coordinator each process uses all of its devices; leave it out")

    def network(self, outputs: int) -> "nn.Network":
        """The network, with its poolings."""
        poolings = self.attention.poolings(len(self.model.filters))
        return self.model.network(outputs, poolings)

    def teacher(self, outputs: int) -> "nn.Network":
        """The teacher: the same network without pooling."""
        return self.model.network(outputs)

    def training(self, task: Task) -> TrainConfig:
        """How the network is trained."""
        return self.optimizer.training(task, self.attention.loss_weight, self.run.compact)

    def teacher_training(self, task: Task) -> TrainConfig:
        """How the teacher is trained."""
        return self.optimizer.teacher_training(task, self.run.compact)
