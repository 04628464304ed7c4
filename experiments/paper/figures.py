"""The paper's figures of numbers, drawn from tables of networks and of the study; nothing is trained."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from jattn.plots import save

from ..initialization.drawing import POINTS, SHARES, draw_study
from ..reports.runs import TITLES
from ..run.output import note
from ..run.pictures import try_to_write
from ..run.tables import read_csv, write_csv
from .accuracy_by_auc import Row, networks_figure, read_networks
from .figure3 import figure_3, missing
from .plan import FIGURE_3, NETWORKS, STUDY, TASKS, TaskRuns


def write_networks(runs: Sequence[TaskRuns], out: Path) -> None:
    """Writes the scores of every network of finished runs, and a picture of those that are in the folder.

    Args:
      runs: all runs of every task.
      out: the folder of their folders.

    Raises:
      RunError: the table of a task without finished runs is damaged.
    """
    for task, _, jobs in runs:
        rows = read_networks(jobs, out / task)
        if rows:
            write_csv(_networks_file(out, task), rows)
    networks = {TITLES[task]: rows for task, rows in _read_networks(out).items()}
    _draw(networks_figure(networks), out / NETWORKS)


def draw_figures(out: Path, quiet: bool) -> None:
    """Draws the pictures of the study and Figure 3 from the tables in the folder, and names what is left out.

    Raises:
      RunError: a table is damaged.
    """
    study = out / STUDY
    draw_study(study)
    points, shares, networks = read_csv(study / POINTS), read_csv(study / SHARES), _read_networks(out)
    _draw(figure_3(points, shares, networks), out / FIGURE_3)
    for letter, file in missing(points, shares, networks).items():
        note(f"{FIGURE_3}: panel {letter} is left out, {out / file} has no such networks", quiet)


def _networks_file(out: Path, task: str) -> Path:
    return out / f"networks-{task}.csv"


def _read_networks(out: Path) -> dict[str, Sequence[Row]]:
    """The rows of every task that has a table of its networks."""
    tables: dict[str, Sequence[Row]] = {task: read_csv(_networks_file(out, task)) for task in TASKS}
    return {task: rows for task, rows in tables.items() if rows}


def _draw(figure: Figure | None, file: Path) -> None:
    if figure is not None:
        try_to_write(file, lambda path: save(figure, path))
