"""The picture of the benchmark: times beside their floors, growth with the number of nodes, times to start."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.workloads import SOURCES
from jattn.plots._colors import CURVES
from jattn.plots._style import style_axes

Rows = Sequence[Mapping[str, Any]]
FIT_FROM = 100  # nodes, of power laws; smaller graphs mostly pay for what does not grow
LABELS = {"training": "training", "leave_one_out": "leave-one-out", "prediction": "prediction"}


def draw(parts: Mapping[str, Rows], fits: Mapping[tuple[str, str], tuple[float, float]]) -> Figure:
    """Draws a panel each of times, growth and starts, if they were measured.

    Args:
      parts: the rows of each part; any of them.
      fits: (exponent, factor) of the power law of each curve of growth.
    """
    panels: list[Callable[[Axes], None]] = []
    if any(parts[part] for part in LABELS):
        panels.append(lambda axes: _draw_ratios(axes, parts))
    if parts["growth"]:
        panels.append(lambda axes: _draw_growth(axes, parts["growth"], fits))
    if parts["start"]:
        panels.append(lambda axes: _draw_start(axes, parts["start"]))
    figure = Figure(figsize=(0.5 + 3.8 * len(panels), 3.8), dpi=130, layout="constrained")
    for axes, draw_panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw_panel(axes)
        style_axes(axes)
    return figure


def _draw_ratios(axes: Axes, parts: Mapping[str, Rows]) -> None:
    """Bars of times relative to their floors."""
    measured = {part: {(row["workload"], row["seeds"]): row for row in parts[part]} for part in LABELS if parts[part]}
    found = {key for rows in measured.values() for key in rows}
    keys = sorted(found, key=lambda key: (list(SOURCES).index(key[0]), key[1]))
    height = 0.8 / len(measured)
    for i, (part, rows) in enumerate(measured.items()):
        there = [(y, rows[key]) for y, key in enumerate(keys) if key in rows]
        places = [y + (i - (len(measured) - 1) / 2) * height for y, _ in there]
        axes.barh(places, [row["each"] / row["floor"] for _, row in there], height, color=CURVES[i], label=LABELS[part])
    several = {name for name, seeds in keys if seeds > 1}
    names = [SOURCES[name].name + (f", seeds: {seeds}" if name in several else "") for name, seeds in keys]
    axes.set_yticks(range(len(keys)), names)
    axes.invert_yaxis()
    axes.axvline(1, color="0.3", linewidth=1)
    axes.set_xlabel("time / floor by matrix products", fontsize=9)
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))


def _draw_growth(axes: Axes, rows: Rows, fits: Mapping[tuple[str, str], tuple[float, float]]) -> None:
    """Times against the number of nodes, with the fitted power laws."""
    names = list(dict.fromkeys((row["measurement"], row["kind"]) for row in rows))
    for color, (measurement, kind) in zip(CURVES, names, strict=False):
        chosen = [row for row in rows if (row["measurement"], row["kind"]) == (measurement, kind)]
        points = sorted((row["nodes"], row["each"]) for row in chosen)
        exponent, factor = fits.get((measurement, kind), (None, 0.0))
        label = LABELS[measurement] + (", in space" if kind == "space" else "")
        if exponent is not None:
            x = np.array([FIT_FROM, points[-1][0]])
            axes.plot(x, factor * x**exponent, color=color, linewidth=1, linestyle="--")
            label += f", N^{exponent:.2f}"
        axes.plot(*zip(*points, strict=True), color=color, marker="o", markersize=3, linewidth=1, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("nodes of a graph, 5 neighbors each", fontsize=9)
    axes.set_ylabel("ms: a step of 32 graphs, or a graph", fontsize=9)
    axes.legend(fontsize=8, frameon=False)


def _draw_start(axes: Axes, rows: Rows) -> None:
    """Bars of the seconds of CPU that commands take to start."""
    names = [start_name(row["command"]) for row in rows]
    axes.barh(range(len(rows)), [row["cpu"] for row in rows], 0.7, color=CURVES[0])
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.set_xlabel("seconds of CPU to start", fontsize=9)


def start_name(command: str) -> str:
    """What was started, as it is shown: the help of a command, or a statement of Python."""
    return command if " " in command else f"{command.replace('_', '-')} --help"
