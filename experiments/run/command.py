"""An experiment as a command: its presets and data, from the command line to the table at the end."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from jattn.training import Task
from jattn.training._devices import ALL_KNOW

from . import protocol
from .command_line import late_decays, parse
from .devices import configure_jax, exit_for_others, exit_process_lost, is_xla_error
from .errors import fail
from .folder import RunConfig, RunError
from .groups import flag
from .identity import is_of_preset
from .program import as_typed, program
from .settings import Settings
from .signals import exit_on_signal
from .tables import score_table


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
        return self.paper.get(preset, {}) if is_of_preset(settings, self.presets[preset]) else {}

    def parse(self, arguments: Sequence[str]) -> tuple[str, Any]:
        """The preset and the settings that a command line asks for."""
        return parse(self.presets, next(iter(self.presets)), arguments, program(self.name), as_typed(self.about))

    def main(self, arguments: Sequence[str]) -> None:
        """Runs the experiment that a command line asks for."""
        preset, settings = self.parse(arguments)
        for name, why in {} if settings.run.quiet else late_decays(settings).items():
            print(f"warning: {flag(name)}: {why}", file=sys.stderr)
        configure_jax(settings.run, settings.processes)
        self.run(preset, settings)

    def run(self, preset: str, settings: Settings) -> None:
        """Runs the experiment and prints its table.

        Args:
          preset: the settings' name, which the run's folder has where settings name none.
          settings: those of the preset, perhaps with changes.
        """
        about, name = RunConfig(self.name, preset, settings), "-".join(filter(None, [self.name, self.variant, preset]))
        try:
            with exit_on_signal():
                finished = protocol.run(about, name, lambda: self._data(settings), self.task, self.choose)
        except Exception as error:
            why, alone = (str(error).splitlines() or [""])[0], jax.process_count() == 1
            if alone and is_xla_error(error) and "RESOURCE_EXHAUSTED" in why:
                fail(f"out of memory ({why}); ask for fewer --seeds, a smaller --batch-size or smaller --filters")
            if alone or ALL_KNOW in getattr(error, "__notes__", ()):
                raise
            if is_xla_error(error):
                exit_process_lost(why)
            exit_for_others(error)
        if finished is not None:
            folder, results = finished
            print(score_table(results, self.paper_figures(preset, settings), self.details))
            print(f"{results.total_seconds:.0f} s; the run is in {folder}")

    def _data(self, settings: Settings) -> protocol.Data:
        try:
            return self.data(settings)
        except (ValueError, OSError) as error:
            raise RunError(str(error)) from error
