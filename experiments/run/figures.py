"""Pictures of a run: curves of training, accuracy by size and label, trials of a study."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogFormatter, LogLocator, MaxNLocator, NullLocator

from .results import LabelScores, SizeScores, SubsetScores

CURVES = ("#2a6f97", "#e07a1f", "#4c956c", "#8e5ea2", "#c1436d")  # one per pooling layer or subset
TRAINED = "0.92"  # the span of sizes trained on
MEASURED = ("trial", "score", "mean", "std", "seconds")  # columns of a study besides settings


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
    keys = ["loss", "accuracy"] + ["attention_auc"] * any(line.get("attention_auc") for line in lines)
    figure = Figure(figsize=(3.1 * len(keys), 0.5 + 2.2 * max(len(stages), 1)), dpi=130, layout="constrained")
    grid = figure.add_gridspec(max(len(stages), 1), len(keys))
    for row, stage in enumerate(stages):
        stage_lines = [line for line in lines if line["stage"] == stage]
        for column, key in enumerate(keys):
            if any(line.get(key) for line in stage_lines):
                axes = figure.add_subplot(grid[row, column])
                _draw_curves(axes, stage_lines, key)
                if column == 0:
                    axes.set_title(stage, loc="left", fontsize=11, fontweight="bold")
    seeds = max((len(line["loss"]["values"]) for line in lines), default=1)
    if seeds > 1:
        styles: dict[str, dict[str, Any]] = {
            f"mean of {seeds} seeds": {"linewidth": 1.5},
            "each seed": {"linewidth": 0.7, "alpha": 0.5},
        }
        handles = [Line2D([], [], color=CURVES[0], label=label, **style) for label, style in styles.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _draw_curves(axes: Axes, lines: Sequence[Mapping[str, Any]], key: str) -> None:
    """Draws one quantity of one stage, one colour per pooling layer; lines without it are skipped."""
    present = [(line["epoch"], line[key]) for line in lines if line.get(key)]
    layers = [curve if isinstance(curve, list) else [curve] for _, curve in present]
    epochs = [epoch for epoch, _ in present]
    marker = "." if len(epochs) < 20 else ""
    drawn = [np.zeros(0)]
    for layer in range(max(map(len, layers))):
        color = CURVES[layer % len(CURVES)]
        mean = np.array([curves[layer]["mean"] for curves in layers], float)  # [epochs]; None becomes NaN
        values = np.array([curves[layer]["values"] for curves in layers], float)  # [epochs, seeds]
        if values.shape[1] > 1:
            axes.plot(epochs, values, color=color, alpha=0.3, linewidth=0.7)
        axes.plot(epochs, mean, color=color, linewidth=1.5, marker=marker, label=f"pooling {layer + 1}")
        drawn += [mean, values.ravel()]
    finite = np.concatenate(drawn)
    finite = finite[np.isfinite(finite)]
    if key != "loss":
        axes.set_ylim(min(90, 10 * np.floor(finite.min(initial=90) / 10)), 101)
    elif (finite > 0).any():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))  # for ranges within a power of 10
    if max(map(len, layers)) > 1:
        axes.legend(loc="lower right", frameon=False, fontsize=8)
    axes.set_ylabel({"loss": "loss", "accuracy": "accuracy (%)", "attention_auc": "attention AUC (%)"}[key])
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    style_axes(axes)


def accuracy_figure(subsets: Mapping[str, SubsetScores], trained: tuple[int, int]) -> Figure:
    """Draws test accuracy against the number of nodes and against the label: mean and standard deviation over seeds.

    Args:
      subsets: scores by the names to show; those without accuracy by size, as of all subsets together, are left out.
      trained: the smallest and largest number of nodes of a training graph, shown as a span.

    Returns:
      The figure. It has no panel of labels if no subset has scores by label.
    """
    subsets = {name: subset for name, subset in subsets.items() if subset.by_nodes is not None}
    keys = ["nodes"] + ["label"] * any(subset.by_label for subset in subsets.values())
    figure = Figure(figsize=(0.7 + 3.6 * len(keys), 3.6), dpi=130, layout="constrained")
    panels = figure.subplots(1, len(keys), sharey=True, squeeze=False)[0]
    colors = dict(zip(subsets, cycle(CURVES), strict=False))
    for axes, key in zip(panels, keys, strict=True):
        for name, subset in subsets.items():
            _draw_parts(axes, subset.by_nodes or () if key == "nodes" else subset.by_label or (), colors[name])
        axes.set_xlabel({"nodes": "number of nodes", "label": "label"}[key])
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
        style_axes(axes)
    smallest, largest = trained
    panels[0].axvspan(smallest - 0.5, largest + 0.5, color=TRAINED, linewidth=0, zorder=0)
    sizes = [*trained, *(n for subset in subsets.values() for part in subset.by_nodes or () for n in part.nodes)]
    if max(sizes) >= 10 * min(sizes) > 0:
        panels[0].set_xscale("log")
        panels[0].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panels[0].xaxis.set_major_formatter("{x:g}")
        panels[0].xaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("accuracy (%)")
    panels[0].set_ylim(-2, 102)  # the whole range, so that runs can be compared
    seeds = max((len(subset.accuracy.values) for subset in subsets.values()), default=1)
    handles: list[Artist] = [
        Line2D([], [], color=color, marker="o", markersize=4, label=name) for name, color in colors.items()
    ]
    if seeds > 1:
        handles.append(Patch(color=CURVES[0], alpha=0.3, linewidth=0, label=f"± std of {seeds} seeds"))
    handles.append(
        Patch(color=TRAINED, label=f"trained on {smallest}" + f"-{largest}" * (largest > smallest) + " nodes")
    )
    figure.legend(handles=handles, loc="outside lower center", ncols=3 * len(keys) - 1, frameon=False, fontsize=9)
    return figure


def _draw_parts(axes: Axes, parts: Sequence[LabelScores | SizeScores], color: str) -> None:
    """Draws the accuracy on one subset by label or size."""
    x = np.array([part.label if isinstance(part, LabelScores) else np.mean(part.nodes) for part in parts])
    mean, std = np.array([part.accuracy.mean for part in parts]), np.array([part.accuracy.std for part in parts])
    draw_band(axes, x, mean, std, color, marker="o")


def draw_band(
    axes: Axes,
    x: Sequence[float] | Float[np.ndarray, " points"],
    mean: Float[np.ndarray, " points"],
    std: Float[np.ndarray, " points"],
    color: str,
    marker: str = "",
) -> None:
    """Draws a line through means, and a band of one standard deviation within 0 to 100 %."""
    low, high = np.clip(mean - std, 0, 100), np.clip(mean + std, 0, 100)
    if len(x) == 1:  # too narrow for a band
        axes.vlines(x, low, high, color=color, alpha=0.4, linewidth=2)
    axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
    axes.plot(x, mean, color=color, linewidth=1.5, marker=marker, markersize=4)


def style_axes(axes: Axes) -> None:
    """Sets the grid, ticks and spines that all pictures of runs have."""
    axes.tick_params(which="both", labelsize=8)
    axes.grid(color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


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
