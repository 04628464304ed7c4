"""The settings of the study of initialization, and those of the COLORS networks that it trains."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from jattn._choices import Precision
from jattn._options import expect_at_least, expect_seeds, setting
from jattn.plots._colors import CURVES

from ..colors import GIN, PRESETS, Colors
from ..run.devices import RunSettings
from ..run.groups import Checked, with_changes
from ..run.settings import GeneratedData

Model = Literal["gin", "gcn"]
Supervision = Literal["unsupervised", "supervised", "weak"]
Distribution = Literal["normal", "uniform"]

MODELS: dict[Model, dict[str, Any]] = {"gin": GIN, "gcn": {"order": 1}}


@dataclass(frozen=True)
class StudyData(GeneratedData):
    """The data: published COLORS-3, or else generated sets."""

    data_dir: Path | None = setting(None, "location")
    """Folder (or zip) of the published COLORS-3, with --dimensions 3; by default sets are generated."""
    train_graphs: int = setting(500, "data")
    """Training graphs of a generated set."""
    test_graphs: int = setting(500, "data")
    """Graphs of each test subset of a generated set."""


@dataclass(frozen=True)
class StudySettings(Checked):
    """The networks that are trained: all combinations of these."""

    dimensions: tuple[int, ...] = setting((3, 16), "training")
    """Numbers of colors n."""
    models: tuple[Model, ...] = setting(("gin", "gcn"), "training")
    """Networks to train."""
    supervision: tuple[Supervision, ...] = setting(("unsupervised", "supervised", "weak"), "training")
    """Kinds of supervision of attention."""
    distributions: tuple[Distribution, ...] = setting(("normal", "uniform"), "training")
    """Distributions of p: N(0, sigma), U(-sigma, sigma)."""
    sigmas: tuple[float, ...] = setting((0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), "training")
    """Scales of p."""
    seeds: int = setting(20, "evaluation")
    """Networks per sigma. Those of all sigmas are trained at once."""
    seed: int = setting(0, "training")
    """The first seed."""
    epochs: int = setting(100, "training")
    """Epochs to train, a third of the paper's. The learning rate is divided by 10 after 14/15 of them. A large p takes
    many to turn: an epoch of 500 graphs changes each of its entries by at most about 0.016."""
    cosines: tuple[float, ...] = setting((-0.75, 0.75, 1.0), "evaluation")
    """Cosines of the p's whose training dynamics are shown, with GIN."""
    dynamics_epochs: int = setting(300, "evaluation")
    """Epochs of the training dynamics of GIN, if it is among --models; 0 leaves them out."""
    precision: Precision = setting("highest", "training")
    """Precision of convolutions in training, as in other experiments."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        super().validate()
        expect_at_least(1, seeds=self.seeds, epochs=self.epochs)
        expect_seeds(self.seed, self.seeds)
        expect_at_least(0, dynamics_epochs=self.dynamics_epochs)
        for name in ("dimensions", "models", "supervision", "distributions", "sigmas", "cosines"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name}: {values} is not allowed, expected at least one, and none twice")
        expect_at_least(3, dimensions=min(self.dimensions))
        if not 0 < min(self.sigmas) <= max(self.sigmas) < np.inf:
            raise ValueError(f"sigmas: {self.sigmas} is not allowed, expected positive numbers")
        if not max(map(abs, self.cosines)) <= 1 or len(self.cosines) > len(CURVES):
            raise ValueError(f"cosines: {self.cosines} is not allowed, expected {len(CURVES)} at most, from -1 to 1")

    @property
    def dynamics(self) -> Sequence[Supervision]:
        """The kinds of supervision whose training dynamics are shown."""
        return self.supervision if self.dynamics_epochs and "gin" in self.models else ()


@dataclass(frozen=True)
class Initialization(Checked):
    """Settings of the study, which runs in one process."""

    data: StudyData = StudyData()
    study: StudySettings = StudySettings()
    run: RunSettings = RunSettings()

    def validate(self) -> None:
        """Raises `ValueError` if groups contradict each other."""
        if self.data.data_dir is not None and self.study.dimensions != (3,):
            raise ValueError("data_dir: the published set has three colors; say --dimensions 3")

    def colors(self, dimension: int, model: Model, supervision: Supervision, epochs: int) -> Colors:
        """The settings of some of the networks."""
        study, run = self.study, self.run
        return with_changes(
            PRESETS[supervision],
            **MODELS[model],
            dimension=dimension,
            seeds=study.seeds,
            seed=study.seed,
            precision=study.precision,
            epochs=epochs,
            decay_epochs=_decay(epochs),
            teacher_epochs=study.epochs,
            teacher_decay_epochs=_decay(study.epochs),
            checkpoint_every=run.checkpoint_every,
            tensorboard=run.tensorboard,
            quiet=run.quiet,
            compact=model == "gin",
        )


def _decay(epochs: int) -> tuple[int, ...]:
    return (round(epochs * 14 / 15),) if epochs > 1 else ()
