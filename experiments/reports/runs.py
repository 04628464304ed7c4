"""The report of one run, or of several beside each other: scores, curves, accuracy by size and label, sample graphs."""

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from jattn.plots import accuracy_by_label, accuracy_by_size, training_curves
from jattn.plots._accuracy import Accuracies
from jattn.plots._training import FAINT, Quantity

from ..run.folder import RunConfig, RunError, read_config, read_lines
from ..run.paper_scores import PaperScores
from ..run.pictures import QUANTITIES, Curve, by_label, by_size, curves
from ..run.results import TOGETHER, Results
from ..run.samples import read_samples
from ..run.tables import score_rows, title
from .graphs import graphs_section
from .page import details, preformatted, table, write_page
from .plots import grid, inline_plot, legend

TITLES = {
    "colors": "COLORS",
    "triangles": "TRIANGLES",
    "mnist75sp": "MNIST-75sp",
    "tu": "TU collection",
    "size_shift": "Largest graphs of TU data sets",
}
MAX_EPOCHS = 100  # of a curve, which keeps the page small
EMPTY: tuple[list[Any], list[Any]] = ([], [])  # the accuracies of a run without any
IGNORED = ("out", "quiet")  # settings that say nothing about a run


class RunReport(NamedTuple):
    """A finished run that a report shows.

    Attributes:
      folder: its path.
      paper: the paper's figures; empty if it gives none.
      details: scores in its table besides accuracy and AUC, by name.
    """

    folder: Path
    paper: PaperScores
    details: Sequence[str] = ()


class _Run(NamedTuple):
    """What a report shows of a run, as its folder has it."""

    name: str
    report: RunReport
    config: RunConfig
    results: Results
    lines: Sequence[Mapping[str, Any]]
    samples: Mapping[str, np.ndarray] | None

    @property
    def heading(self) -> str:
        """The experiment, or its data set, and the preset."""
        data_set = self.config.settings.get("dataset")
        known = TITLES.get(self.config.experiment, self.config.experiment)
        return f"{Path(data_set).stem if data_set else known}, {self.config.preset}"


def write_report(runs: Sequence[RunReport], file: Path) -> None:
    """Writes the report of some runs as one page that needs no other file.

    Args:
      runs: finished runs, at least one.
      file: the page.

    Raises:
      RunError: a folder has no finished run, or a file of it is damaged.
    """
    names = _names([run.folder for run in runs])
    read = [_read(name, run) for name, run in zip(names, runs, strict=True)]
    one = read[0] if len(read) == 1 else None
    heading = one.heading if one else f"{len(read)} runs"
    parts = [
        f"<h1>{html.escape(heading)}</h1>",
        *(_about(run, named=one is None) for run in read),
        *_scores(read),
        *_training(read),
        *_accuracy(read),
        graphs_section({run.name: run.samples for run in read}),
        *_settings(read),
    ]
    scripts = ["graphs.js"] if any(run.samples is not None for run in read) else []
    write_page(file, f"{heading}: report by jattn", parts, scripts)


def _names(folders: Sequence[Path]) -> list[str]:
    """A name for each folder: the shortest ends of their paths that differ."""
    whole = [folder.absolute().parts for folder in folders]
    for length in range(1, max(map(len, whole), default=1) + 1):
        names = ["/".join(parts[-length:]) for parts in whole]
        if len(set(names)) == len(names):
            break
    return names


def _read(name: str, run: RunReport) -> _Run:
    config = read_config(run.folder)
    if config is None:
        raise RunError(f"{run.folder}: no run is there; name the folder of a run, which has config.json")
    try:
        results = Results.read(run.folder)
    except FileNotFoundError:
        why = "its run has no results yet; repeat its command with --out to finish it"
        raise RunError(f"{run.folder}: {why}") from None
    metrics = run.folder / "metrics.jsonl"
    lines = read_lines(metrics) if metrics.exists() else []
    return _Run(name, run, config, results, lines, read_samples(run.folder))


def _about(run: _Run, named: bool) -> str:
    count = run.results.networks
    networks = f"{count} network{'s' * (count > 1)}"
    where = f"<code>{html.escape(str(run.report.folder.absolute()))}</code>"
    name = f"<strong>{html.escape(run.name)}</strong>: {html.escape(run.heading)}, " if named else ""
    return f"<p>{name}{networks}, {run.results.total_seconds:.0f} s, in {where}</p>"


def _scores(runs: Sequence[_Run]) -> list[str]:
    """The table of scores: a row a run, and one with the paper's figures where it has some."""
    tables = [score_rows(run.results, run.report.paper, run.report.details) for run in runs]
    columns = list(dict.fromkeys(heading for headings, *_ in tables for heading in headings[1:]))
    rows = [["%", *columns]]
    for run, (headings, *lines) in zip(runs, tables, strict=True):
        for line in lines:
            cells = dict(zip(headings, line, strict=True))
            name = line[0] if len(runs) == 1 else f"{run.name}, {line[0]}"
            rows.append([name, *(cells.get(column, "") for column in columns)])
    text = "Per cent, mean ± standard deviation over networks."
    return ["<h2>Scores</h2>", table(rows, "Scores"), f'<p class="muted">{text}</p>']


def _training(runs: Sequence[_Run]) -> list[str]:
    """Curves of each stage: by pooling layer for one run, or else by run."""
    stages = list(dict.fromkeys(line["stage"] for run in runs for line in run.lines))
    parts = ["<h2>Training</h2>"]
    if not stages:
        return [*parts, "<p>The folder has no <code>metrics.jsonl</code>, so there are no curves.</p>"]
    if len(runs) > 1:
        parts.append(legend([run.name for run in runs]))
    for stage in stages:
        plots = [_curves(runs, stage, quantity) for quantity in QUANTITIES]
        parts += [f"<h3>{html.escape(stage)}</h3>", grid([plot for plot in plots if plot])]
    layers = " AUC is that of the first pooling." if len(runs) > 1 else ""
    seeds = f"Strong lines are means over networks, faint ones single networks, the first {FAINT} at most.{layers}"
    return [*parts, f'<p class="muted">{seeds}</p>']


def _curves(runs: Sequence[_Run], stage: str, quantity: Quantity) -> str:
    """A quantity of a stage as a plot; empty if it was not measured."""
    found = {run.name: curves(_thinned(run.lines, stage), stage, quantity) for run in runs}
    drawn = found[runs[0].name] if len(runs) == 1 else _first_of_each(found)
    if not any(len(epochs) for epochs, _ in drawn.values()):
        return ""
    label = f"{title(quantity)} by epoch, {stage}"
    return inline_plot(label, lambda axes: training_curves(drawn, quantity, ax=axes, legend=len(runs) == 1))


def _first_of_each(found: Mapping[str, Mapping[str, Curve]]) -> dict[str, Curve]:
    """The curve of the first layer of each run; an empty one, which takes its color, where there is none."""
    empty = np.zeros(0, int), np.zeros((0, 1))
    return {name: next(iter(layers.values()), empty) for name, layers in found.items()}


def _thinned(lines: Sequence[Mapping[str, Any]], stage: str) -> list[Mapping[str, Any]]:
    """The lines of a stage in evenly spaced epochs, the last among them, and those with an AUC."""
    there = [line for line in lines if line["stage"] == stage]
    step = -(-len(there) // MAX_EPOCHS) or 1
    last = len(there) - 1
    return [line for i, line in enumerate(there) if (last - i) % step == 0 or line.get("attention_auc")]


def _accuracy(runs: Sequence[_Run]) -> list[str]:
    """Accuracy by size and by label: one pair of plots for one run, or else a pair for each subset."""
    parts = ["<h2>Accuracy by size and label</h2>"]
    if len(runs) == 1:
        subsets = {title(name): scores for name, scores in runs[0].results.subsets.items()}
        sizes, labels = by_size(subsets), by_label(subsets)
        plots = _pair(sizes, {name: labels.get(name, EMPTY) for name in sizes}, _trained(runs))
        return [*parts, legend(list(sizes)), plots, _note(runs)]
    parts.append(legend([run.name for run in runs]))
    for subset in dict.fromkeys(name for run in runs for name in run.results.subsets if name != TOGETHER):
        by_run = {run.name: run.results.subsets.get(subset) for run in runs}
        there = {name: scores for name, scores in by_run.items() if scores is not None}
        sizes, labels = by_size(there), by_label(there)
        drawn = [{name: scores.get(name, EMPTY) for name in by_run} for scores in (sizes, labels)]
        parts += [f"<h3>{html.escape(title(subset))}</h3>", _pair(drawn[0], drawn[1], _trained(runs))]
    return [*parts, _note(runs)]


def _trained(runs: Sequence[_Run]) -> tuple[int, int] | None:
    """The smallest and largest number of nodes of a training graph; None if runs differ or do not say."""
    found = {tuple(map(int, run.samples["trained"])) if run.samples is not None else () for run in runs}
    smallest, largest = found.pop() if len(found) == 1 and () not in found else (0, 0)
    return (smallest, largest) if largest else None


def _note(runs: Sequence[_Run]) -> str:
    trained = _trained(runs)
    span = "" if trained is None else f" Training graphs have {trained[0]} to {trained[1]} nodes, the shaded range."
    return f'<p class="muted">Bands reach one standard deviation over networks to each side.{span}</p>'


def _pair(sizes: Accuracies, labels: Accuracies, trained: tuple[int, int] | None) -> str:
    """Plots of accuracy by size and by label; without labels, the first alone."""

    def draw(axes: Axes) -> Axes:
        return accuracy_by_size(sizes, trained, ax=axes, legend=False)

    plots = [inline_plot("Accuracy by number of nodes", draw)]
    if any(len(scores[0]) for scores in labels.values()):  # type: ignore[arg-type]  # lists
        plots.append(inline_plot("Accuracy by label", lambda axes: accuracy_by_label(labels, ax=axes, legend=False)))
    return grid(plots)


def _settings(runs: Sequence[_Run]) -> list[str]:
    """What differs between the settings of runs, and all of them."""
    parts = ["<h2>Settings</h2>"]
    names = list(dict.fromkeys(name for run in runs for name in run.config.settings if name not in IGNORED))
    shown = {name: [json.dumps(run.config.settings.get(name)) for run in runs] for name in names}
    differing = [[name, *values] for name, values in shown.items() if len(set(values)) > 1]
    if len(runs) > 1:
        rows = [["setting", *(run.name for run in runs)], *differing]
        parts.append(table(rows, "Settings that differ") if differing else "<p>All have the same settings.</p>")
    for run in runs:
        text = json.dumps(run.config._asdict(), indent=1)
        parts.append(details("All settings" if len(runs) == 1 else f"All settings of {run.name}", preformatted(text)))
    return parts
