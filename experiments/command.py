"""An experiment as a command: its presets and data, from the command line to the table at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import jax

from experiments import protocol
from experiments.running import MAY_DIFFER, configure_jax, fail, leave_others
from experiments.settings import Settings, parse
from experiments.termination import ends_plainly
from jattn.losses import Task
from jattn.options import expect_at_least

# A preset with others of these is still that preset.
NOT_OF_PRESET = (
    *MAY_DIFFER,
    *("data_dir", "seeds", "seed", "data_seeds", "data_seed", "noise_seed", "compact", "leave_one_out_auc"),
)


@dataclass(frozen=True)
class GeneratedSettings(Settings):
    """Settings where data are generated if no published ones are named; fields that it adds are those of the data."""

    train_graphs: int = 30_000
    """Training graphs of a generated set."""
    test_graphs: int = 5_000
    """Graphs of the validation split and of each test subset of a generated set."""
    data_seed: int = 0
    """Seed of a generated set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_at_least(1, train_graphs=self.train_graphs, test_graphs=self.test_graphs)
        expect_at_least(0, data_seed=self.data_seed)
        common = {field.name for field in fields(Settings)}
        for field in fields(self):
            value = getattr(self, field.name)
            if self.data_dir is not None and field.name not in common and value != field.default:
                raise ValueError(f"{field.name}: {value} is of a generated set, but data_dir gives another")


@dataclass(frozen=True)
class Experiment:
    """What a command needs to know of an experiment.

    Attributes:
      name: of its module and of its runs' folders.
      about: the module's docstring, for `--help`.
      presets: settings by name, the default first.
      paper: the paper's figures by preset: what the table shows for each subset, and as "auc" for the first pooling.
      data: reads or draws the data that settings ask for.
      task: what is predicted.
      variant: a word more for the names of its runs' folders.
      details: figures of the results that the table shows besides accuracy and AUC.
      choose: chooses settings before training, where there is something to choose.
    """

    name: str
    about: str
    presets: Mapping[str, Any]
    paper: Mapping[str, Mapping[str, str]]
    data: Callable[[Any], protocol.Data]
    task: Task = "regression"
    variant: str = ""
    details: Sequence[str] = ()
    choose: protocol.Choose | None = None

    def paper_figures(self, preset: str, settings: Settings) -> Mapping[str, str]:
        """The paper's figures for a preset, unless settings differ from it that change what is trained or tested."""
        asked = self.presets[preset]
        free = {field.name: getattr(asked, field.name) for field in fields(asked) if field.name in NOT_OF_PRESET}
        return self.paper.get(preset, {}) if replace(settings, **free) == asked else {}

    def parse(self, arguments: Sequence[str]) -> tuple[str, Any]:
        """The preset and the settings that a command line asks for."""
        return parse(
            self.presets, next(iter(self.presets)), arguments, f"python -m experiments.{self.name}", self.about
        )

    def main(self, arguments: Sequence[str]) -> None:
        """Runs the experiment that a command line asks for."""
        preset, settings = self.parse(arguments)
        configure_jax(settings)
        self.run(preset, settings)

    def run(self, preset: str, settings: Settings) -> None:
        """Runs the experiment and prints its table.

        Args:
          preset: the settings' name, which the run's folder has where settings name none.
          settings: those of the preset, perhaps with changes.
        """
        name = "-".join(filter(None, [self.name, self.variant, preset]))
        try:
            with ends_plainly():
                results = protocol.run(settings, name, lambda: self._data(settings), self.task, self.choose)
        except jax.errors.JaxRuntimeError as error:
            why = str(error).splitlines()[0]
            if jax.process_count() > 1:
                leave_others(why)
            if "RESOURCE_EXHAUSTED" in why:
                fail(f"out of memory ({why}); ask for fewer --seeds, a smaller --batch-size or smaller --filters")
            raise
        if results is not None:
            print(protocol.table(results, self.paper_figures(preset, settings), self.details))
            print(f"{sum(results['seconds'].values()):.0f} s; the run is in {results['folder']}")

    def _data(self, settings: Settings) -> protocol.Data:
        try:
            return self.data(settings)
        except (ValueError, OSError) as error:
            fail(str(error))
