"""An experiment as a command: its presets and data, from the command line to the table at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jattn._choices import Task

from .command_line import late_decays, parse
from .devices import configure_jax, exit_for_others, exit_process_lost, is_xla_error
from .errors import fail
from .groups import flag, flat, name_flag
from .identity import is_of_preset
from .paper_scores import PaperScores
from .program import as_typed, program
from .settings import Settings

if TYPE_CHECKING:  # a command line is read without what a run needs
    from . import protocol
    from .data import Data


@dataclass(frozen=True)
class Experiment:
    """The definition of an experiment.

    Attributes:
      name: the name of its module, with which the folders of its runs begin.
      about: the module's docstring, for `--help`.
      presets: settings by name, the default first.
      paper: the paper's figures by preset.
      data: reads or generates the data of some settings.
      task: what is predicted.
      folder_name: a further part of the names of its runs' folders.
      details: scores in the table besides accuracy and AUC, by name.
      choose: chooses settings before training; None to take them as they are.
      variants: what its suffixes of presets stand for, for `--help`.
    """

    name: str
    about: str
    presets: Mapping[str, Any]
    paper: Mapping[str, PaperScores]
    data: "Callable[[Any], Data]"
    task: Task = "regression"
    folder_name: str = ""
    details: Sequence[str] = ()
    choose: "protocol.Choose | None" = None
    variants: Mapping[str, str] = field(default_factory=dict)

    def paper_scores(self, preset: str, settings: Settings | Mapping[str, Any]) -> PaperScores:
        """Returns the paper's figures for a preset; none if settings differ from it in what is trained or tested.

        Args:
          preset: its name; there are no figures for unknown ones.
          settings: the settings, or all of them by name as JSON has them.
        """
        values = settings if isinstance(settings, Mapping) else flat(settings)
        known = preset in self.presets and is_of_preset(values, self.presets[preset])
        return self.paper.get(preset, {}) if known else {}

    def parse(self, arguments: Sequence[str]) -> tuple[str, Any]:
        """Returns the preset and the settings of a command line."""
        return parse(self.presets, arguments, program(self.name), as_typed(self.about), self.variants)

    def main(self, arguments: Sequence[str]) -> None:
        """Runs the experiment with the settings of a command line."""
        preset, settings = self.parse(arguments)
        from .output import note

        configure_jax(settings.run, settings.processes)
        for name, why in late_decays(settings).items():
            note(f"warning: {flag(name)}: {why}", settings.run.quiet)
        self.run(preset, settings)

    def run(self, preset: str, settings: Settings) -> None:
        """Runs the experiment and prints its table.

        Args:
          preset: the name of the settings, and part of the folder's name if they don't name one.
          settings: the preset's settings, perhaps with changes.
        """
        import jax

        from jattn.training._devices import ALL_KNOW

        from ..reports.runs import RunReport, write_report
        from . import protocol
        from .folder import RunConfig
        from .output import print_results
        from .signals import exit_on_signal

        config = RunConfig(self.name, preset, settings)
        name = "-".join(filter(None, [self.name, self.folder_name, preset]))
        figures = self.paper_scores(preset, settings)
        try:
            with exit_on_signal():
                finished = protocol.run(
                    config,
                    name,
                    lambda: self._data(settings),
                    self.task,
                    lambda file: write_report([RunReport(file.parent, figures, self.details)], file),
                    self.choose,
                )
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
            print_results(*finished, figures, self.details)

    def _data(self, settings: Settings) -> "Data":
        from .folder import RunError

        try:
            return self.data(settings)
        except (ValueError, OSError) as error:
            message = str(error)
            for name in ("data_dir", "dataset"):  # a message of the library begins with the path, not with the flag
                if message.startswith(f"{getattr(settings.data, name, None)} "):
                    message = f"{name}: {message}"
            raise RunError(name_flag(message, settings)) from error
