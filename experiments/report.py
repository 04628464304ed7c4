"""The report of finished runs as one page, which any browser shows without a server or a network.

    python -m experiments.report runs/colors-weak-20250101-120000      writes report.html in that folder again
    python -m experiments.report runs/weak runs/global                 compares runs, in report.html here
    python -m experiments.report runs/* --out all.html                 the same, in another file

A run writes its own report.html when it ends. The page has the scores beside the paper's, curves of training, accuracy
by size and label, and test graphs with their attention, to step through by size, label and error. Of several runs, it
has curves and scores beside each other and the settings that differ.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from .run.command_line import parse_settings
from .run.errors import expect_no_empty, fail
from .run.folder import REPORT, RunError, read_config
from .run.groups import Checked
from .run.paths import local_path
from .run.program import as_typed, program
from .sweeps.grid import EXPERIMENTS, find

if TYPE_CHECKING:  # a command line is read without matplotlib
    from .reports.runs import RunReport


@dataclass(frozen=True, kw_only=True)
class Report(Checked):
    """What a report shows, and where it is written."""

    positional: ClassVar[tuple[str, ...]] = ("runs",)
    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN ...")] = ()
    """Folders of finished runs, at least one."""
    out: Path | None = None
    """The page to write; by default report.html, in the folder of a single run or else here."""

    def validate(self) -> None:
        """Raises `ValueError` if there are no runs, one is given twice, or the page would be a folder."""
        super().validate()
        object.__setattr__(self, "runs", tuple(local_path("runs", run) for run in self.runs))
        if not self.runs:
            raise ValueError("runs: name the folder of a run, such as runs/colors-weak-20250101-120000")
        for i, run in enumerate(self.runs):
            if run.absolute() in [other.absolute() for other in self.runs[:i]]:
                raise ValueError(f"runs: {run} is given twice")
        if self.out is not None and self.out.is_dir():
            raise ValueError(f"out: {self.out} is a folder, expected a file such as {self.out / REPORT}")


def main(arguments: Sequence[str]) -> None:
    """Writes the report that a command line asks for."""
    expect_no_empty(arguments)
    report = parse_settings(Report, arguments, program("report"), as_typed(__doc__ or ""))
    from .reports.runs import write_report

    out = report.out or (report.runs[0] / REPORT if len(report.runs) == 1 else Path(REPORT))
    try:
        write_report([with_figures(run) for run in report.runs], out)
    except (RunError, OSError) as error:
        fail(str(error))
    print(out)


def with_figures(folder: Path) -> "RunReport":
    """Returns what a report shows of a run, with the paper's figures if its settings are those of a preset."""
    from .reports.runs import RunReport

    config = read_config(folder)
    if config is None or config.experiment not in EXPERIMENTS:
        return RunReport(folder, {})
    data_set = ["--dataset", str(config.settings["dataset"])] if "dataset" in config.settings else []
    experiment = find(config.experiment, data_set)
    return RunReport(folder, experiment.paper_scores(config.preset, config.settings), experiment.details)


if __name__ == "__main__":
    main(sys.argv[1:])
