"""The settings of a study, and of experiments that may have one."""

from dataclasses import dataclass, fields
from typing import TypeVar
from urllib.parse import urlsplit

from jattn._options import expect_at_least, expect_seeds, setting

from .groups import Checked
from .settings import Settings

Tunable = TypeVar("Tunable", bound="TunableSettings")


@dataclass(frozen=True)
class TuningSettings(Checked):
    """A study that chooses the settings of attention by cross-validation on the training graphs."""

    tune: int = setting(0, "training", may_grow=True)
    """Trials of the study, which chooses --threshold (or --ratio), --attention-weight and --scorer (linear or mlp),
    before training on all training graphs and testing once; 0 for no study. To resume a study, repeat the command; with
    more trials it makes the study longer."""
    folds: int = setting(5, "training")
    """Folds of the cross-validation."""
    tune_seeds: int = setting(1, "training")
    """Networks that each trial trains per fold."""
    tune_init: bool = setting(False, "training")
    """Also choose --init and --init-scale."""
    storage: str | None = setting(None, "nothing")
    """Database of the study, such as postgresql://USER@HOST/NAME or sqlite:////shared/study.db: machines that run the
    same command with it share the study. By default a file in the run's folder."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed, or has no effect without --tune."""
        super().validate()
        expect_at_least(0, tune=self.tune)
        expect_at_least(2, folds=self.folds)
        expect_at_least(1, tune_seeds=self.tune_seeds)
        if self.storage is not None and urlsplit(self.storage).password:
            raise ValueError(
                "storage: leave the password out, since the run's folder keeps the address; databases' drivers read it "
                "from a file or the environment, such as ~/.pgpass or PGPASSWORD"
            )
        for field in fields(self):
            if not self.tune and getattr(self, field.name) != field.default:
                raise ValueError(f"{field.name}: there is no study without --tune")


@dataclass(frozen=True)
class TunableSettings(Settings):
    """Settings of experiments whose attention can be tuned."""

    tuning: TuningSettings = TuningSettings()

    def validate(self) -> None:
        """Raises `ValueError` if groups contradict each other."""
        super().validate()
        expect_seeds(self.evaluation.seed, self.tuning.tune_seeds)
        if self.tuning.tune and self.attention.attention == "none":
            raise ValueError("tune: there is nothing to choose, since global pooling has no attention")
        if self.tuning.tune and self.processes.coordinator is not None:
            raise ValueError("tune: several processes can't run a study as one; let each run it, with the same storage")
