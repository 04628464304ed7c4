"""Pictures of a run: curves of training, accuracy by size and label, trials of a study; a failure is only a warning."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from jattn.plots import accuracy_by_label, accuracy_by_size, training_curves
from jattn.plots._colors import CURVES
from jattn.plots._style import style_axes
from jattn.plots._training import FAINT, Quantity

from .results import SubsetScores

Curve = tuple[Int[np.ndarray, " epochs"], Float[np.ndarray, "epochs seeds"]]
QUANTITIES: tuple[Quantity, ...] = ("loss", "accuracy", "attention_auc")
MEASURED = ("trial", "score", "mean", "std", "seconds")  # columns of a study besides settings


def try_to_write(file: Path, write: Callable[[Path], Any]) -> None:
    """Calls `write` to write a picture or a report to a file; if it fails, prints a warning with the reason.

    The style is matplotlib's default: a user's matplotlibrc may ask for LaTeX or fonts that this machine lacks.
    """
    try:
        with style.context("default"):
            write(file)
    except Exception as error:  # from matplotlib, the data or the disk
        why = (str(error).splitlines() or [type(error).__name__])[0]
        print(f"warning: {file} can't be written: {why}", file=sys.stderr)


def training_figure(lines: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws loss, accuracy and attention AUC by epoch, one row per stage: the mean over seeds, and each seed faintly.

    Args:
      lines: the lines of a run's `metrics.jsonl`. Each has "stage", "epoch", "loss", "accuracy" (per cent) and, if it
        was measured, "attention_auc" (per cent, a list with one entry per pooling layer). A quantity is
        {"mean": number, "values": [one per seed]}; None stands for NaN.

    Returns:
      The figure. A stage without attention AUC has two panels.
    """
    stages = list(dict.fromkeys(line["stage"] for line in lines))
    keys = QUANTITIES if any(line.get("attention_auc") for line in lines) else QUANTITIES[:2]
    figure = Figure(figsize=(3.1 * len(keys), 0.5 + 2.2 * max(len(stages), 1)), dpi=130, layout="constrained")
    grid = figure.add_gridspec(max(len(stages), 1), len(keys))
    for row, stage in enumerate(stages):
        for column, key in enumerate(keys):
            layers = curves(lines, stage, key)
            if layers:
                axes = training_curves(layers, key, ax=figure.add_subplot(grid[row, column]))
                if column == 0:
                    axes.set_title(stage, loc="left", fontsize=11, fontweight="bold")
    seeds = max((len(line["loss"]["values"]) for line in lines), default=1)
    if seeds > 1:
        styles: dict[str, dict[str, Any]] = {
            f"mean of {seeds} seeds": {"linewidth": 1.5},
            ("each seed" if seeds <= FAINT else f"each of the first {FAINT}"): {"linewidth": 0.7, "alpha": 0.5},
        }
        handles = [Line2D([], [], color=CURVES[0], label=label, **style) for label, style in styles.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def curves(lines: Sequence[Mapping[str, Any]], stage: str, quantity: Quantity) -> dict[str, Curve]:
    """Returns the curves of a quantity in a stage by pooling layer; empty if it was not measured.

    Args:
      lines: the lines of a run's `metrics.jsonl`.
      stage: the stage's name.
      quantity: the quantity; loss and accuracy, which have no layers, have the curve "pooling 1" alone.
    """
    present = [line for line in lines if line["stage"] == stage and line.get(quantity)]
    layers = [line[quantity] if isinstance(line[quantity], list) else [line[quantity]] for line in present]
    epochs = np.array([line["epoch"] for line in present])
    return {
        f"pooling {i + 1}": (epochs, np.array([curve[i]["values"] for curve in layers], float))
        for i in range(max(map(len, layers), default=0))
    }


def accuracy_figure(subsets: Mapping[str, SubsetScores], trained: tuple[int, int]) -> Figure:
    """Draws test accuracy against the number of nodes and against the label: mean and standard deviation over seeds.

    Args:
      subsets: scores by the names to show; those without accuracy by size, as of all subsets together, are left out.
      trained: the smallest and largest number of nodes of a training graph, shown as a span.

    Returns:
      The figure. It has no panel of labels if no subset has scores by label.
    """
    sizes, labels = by_size(subsets), by_label(subsets)
    panels = 1 + bool(labels)
    figure = Figure(figsize=(0.7 + 3.6 * panels, 3.6), dpi=130, layout="constrained")
    first, *others = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
    accuracy_by_size(sizes, trained, ax=first, legend=False)
    for axes in others:
        accuracy_by_label({name: labels.get(name, ([], [])) for name in sizes}, ax=axes, legend=False)
        axes.set_ylabel("")
    *names, span = first.get_legend_handles_labels()[0]
    handles: list[Artist] = [*names]
    seeds = max((len(subsets[name].accuracy.values) for name in sizes), default=1)
    if seeds > 1:
        handles.append(Patch(color=CURVES[0], alpha=0.3, linewidth=0, label=f"± std of {seeds} seeds"))
    figure.legend(handles=[*handles, span], loc="outside lower center", ncols=3 * panels - 1, frameon=False, fontsize=9)
    return figure


def by_size(subsets: Mapping[str, SubsetScores]) -> dict[str, tuple[list[Any], list[Any]]]:
    """Returns the ranges of numbers of nodes and the accuracies, [ranges][seeds], of subsets that have them."""
    return {
        name: ([part.nodes for part in subset.by_nodes], [part.accuracy.values for part in subset.by_nodes])
        for name, subset in subsets.items()
        if subset.by_nodes is not None
    }


def by_label(subsets: Mapping[str, SubsetScores]) -> dict[str, tuple[list[Any], list[Any]]]:
    """Returns the labels and the accuracies, [labels][seeds], of subsets that have them."""
    return {
        name: ([part.label for part in subset.by_label], [part.accuracy.values for part in subset.by_label])
        for name, subset in subsets.items()
        if subset.by_label
    }


def study_figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws the trials of a study: each score and the best so far, then the scores against every setting.

    Args:
      rows: one trial each, at least one. All have "trial" (a number), "score", "mean" and "std" (per cent), and the
        same settings, each a number or a word.

    Returns:
      The figure. Settings whose values span a factor of 20 have a logarithmic axis.
    """
    settings = [name for name in rows[0] if name not in MEASURED]
    columns = min(1 + len(settings), 3)
    lines = -(-(1 + len(settings)) // columns)
    figure = Figure(figsize=(3.1 * columns, 0.3 + 2.5 * lines), dpi=130, layout="constrained")
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
    score = np.array([row["score"] for row in rows])
    best = int(score.argmax())
    for axes, name in zip(panels, ["trial", *settings], strict=False):
        values = [row[name] for row in rows]
        if name == "trial":
            axes.plot(values, np.maximum.accumulate(score), color=CURVES[0], linewidth=1, label="best so far")
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        elif not isinstance(values[0], str) and min(values) > 0 and max(values) >= 20 * min(values):
            axes.set_xscale("log")
        axes.scatter(values, score, s=14, color=CURVES[0], alpha=0.7, linewidths=0)
        axes.scatter(values[best : best + 1], score[best : best + 1], s=26, color=CURVES[1], label="best", zorder=3)
        axes.set_xlabel(name.replace("_", " "))
        axes.margins(x=0.08)
        style_axes(axes)
    for axes in panels[1 + len(settings) :]:
        axes.set_axis_off()
    for axes in panels[::columns]:
        axes.set_ylabel("mean - std (%)")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure
