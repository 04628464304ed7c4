"""Figures of the study: accuracy and AUC by scale and angle of the initial p, by AUC, and over training."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullLocator

from jattn.plots._colors import CURVES
from jattn.plots._style import draw_band, style_axes

from .projections import COSINE_THRESHOLD, common_scales

MEASURES = {
    "orig": "accuracy on Orig (%)",
    "large": "accuracy on Large (%)",
    "largec": "accuracy on LargeC (%)",
    "auc": "attention AUC (%)",
}
CHANGES = {
    "current_cosine": "cosine of p and optimum",
    "auc": "attention AUC (%)",
    "accuracy": "training accuracy (%)",
}
PALETTE = {"unsupervised": CURVES[1], "supervised": CURVES[0], "weak": CURVES[2]}
MARKERS = {"normal": "o", "uniform": "^"}
LAWS = {"normal": r"$N(0, \sigma)$", "uniform": r"$U(-\sigma, \sigma)$"}
SCALES: dict[str, Any] = {"Xavier": "--", "Kaiming": ":"}
BINS = np.linspace(-1, 1, 9)  # of cosines, for the lines of means
ZOOM = (95, 100.25)  # AUC in per cent

Row = Mapping[str, Any]


def sigma_figure(points: Sequence[Row]) -> Figure:
    """Accuracy on each subset and AUC against sigma, a row for each model and distribution: mean and std over seeds.

    Args:
      points: rows of `points.csv` of one n.
    """
    lines = list(dict.fromkeys((row["model"], row["distribution"]) for row in points))
    figure, panels = _panels(len(lines), len(MEASURES))
    for row, (model, distribution) in enumerate(lines):
        line_points = [point for point in points if (point["model"], point["distribution"]) == (model, distribution)]
        for axes, (key, label) in zip(panels[row], MEASURES.items(), strict=True):
            for supervision, part in by_value(line_points, "supervision"):
                groups = sorted(by_value(part, "sigma"))
                x, values = [sigma for sigma, _ in groups], [_column(group, key) for _, group in groups]
                _draw_band(axes, x, values, PALETTE[supervision], marker="o")
            for name, scale in common_scales(distribution, points[0]["n"]).items():
                axes.axvline(scale, color="0.35", linestyle=SCALES[name], linewidth=1)
            axes.set_xscale("log")
            axes.set_xticks(sorted({point["sigma"] for point in line_points}))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_locator(NullLocator())
            finish_panel(axes, label, r"$\sigma$ of the initial p")
        name_panel(panels[row][0], f"{model.upper()}, p from {LAWS[distribution]}")
    marks: list[Artist] = [
        Line2D([], [], color="0.35", linestyle=style, linewidth=1, label=name) for name, style in SCALES.items()
    ]
    _legend(figure, points, [Patch(color="0.6", alpha=0.5, linewidth=0, label="± std over seeds"), *marks])
    return figure


def cosine_figure(points: Sequence[Row]) -> Figure:
    """Accuracy on each subset and AUC against the cosine of the initial p with the optimum, a row for each model.

    Args:
      points: rows of `points.csv` of one n. Each is a mark; lines join the means of bins of cosines.
    """
    figure, panels = _panels(len({row["model"] for row in points}), len(MEASURES))
    for (model, model_points), row in zip(by_value(points, "model"), panels, strict=True):
        for axes, (key, label) in zip(row, MEASURES.items(), strict=True):
            for _, part in by_value(model_points, "supervision"):
                draw_by_cosine(axes, part, key, label)
        name_panel(row[0], model.upper())
    _legend(figure, points, cosine_marks(points))
    return figure


def draw_by_cosine(axes: Axes, points: Sequence[Row], key: str, label: str) -> None:
    """Draws one measure of networks of one kind against the cosine of the initial p: marks, and means of bins."""
    cosine, value = _column(points, "cosine"), _column(points, key)
    _scatter(axes, points, "cosine", key)
    bins = np.clip(np.digitize(cosine, BINS) - 1, 0, len(BINS) - 2)
    filled = [i for i in range(len(BINS) - 1) if (bins == i).any()]
    means = [float(value[bins == i].mean()) for i in filled]
    color = PALETTE[points[0]["supervision"]]
    axes.plot((BINS[:-1] + BINS[1:])[filled] / 2, means, color=color, linewidth=2)
    axes.axvline(COSINE_THRESHOLD, color="0.35", linestyle="--", linewidth=1)
    axes.set_xlim(-1.05, 1.05)
    finish_panel(axes, label, "cosine of initial p and optimum")


def cosine_marks(points: Sequence[Row]) -> list[Artist]:
    """The legend of `draw_by_cosine`."""
    good = Line2D([], [], color="0.35", linestyle="--", linewidth=1, label="good above")
    return [*_markers(points), Line2D([], [], color="0.35", linewidth=2, label="mean"), good]


def auc_figure(points: Sequence[Row]) -> Figure:
    """Accuracy against attention AUC: on Orig over the whole range, then on each subset where the AUC is above 95 %.

    Args:
      points: rows of `points.csv` of one n.
    """
    figure, panels = _panels(len({row["model"] for row in points}), 4)
    for (model, model_points), row in zip(by_value(points, "model"), panels, strict=True):
        for axes, key, zoomed in zip(row, ("orig", "orig", "large", "largec"), (False, True, True, True), strict=True):
            if zoomed:
                axes.set_xlim(*ZOOM)
            else:
                axes.axvspan(*ZOOM, color="0.92", linewidth=0, zorder=0)
                axes.set_xlim(-3, 103)
            for _, part in by_value(model_points, "supervision"):
                _scatter(axes, [point for point in part if not zoomed or point["auc"] >= ZOOM[0]], "auc", key)
            finish_panel(axes, MEASURES[key], "attention AUC (%)" + ", zoom" * zoomed)
        name_panel(row[0], model.upper())
    _legend(figure, points, [*_markers(points), Patch(color="0.9", label="zoomed range")])
    return figure


def share_figure(shares: Sequence[Row], marked: Sequence[int]) -> Figure:
    """The percentage of draws whose cosine with the optimum is above 0.5, against the number of colors.

    Args:
      shares: rows of `good_share.csv`.
      marked: numbers of colors to mark.
    """
    figure = Figure(figsize=(4.6, 3.4), dpi=130, layout="constrained")
    draw_shares(figure.subplots(), shares, marked)
    return figure


def draw_shares(axes: Axes, shares: Sequence[Row], marked: Sequence[int]) -> None:
    """Draws the panel of `share_figure`."""
    n = _column(shares, "n")
    axes.plot(n, _column(shares, "normal_formula"), color=CURVES[0], linewidth=1.5, label=LAWS["normal"] + ", formula")
    axes.plot(n, _column(shares, "normal"), color=CURVES[0], linestyle="", marker="o", markersize=4, label="drawn")
    label = LAWS["uniform"] + ", drawn"
    axes.plot(n, _column(shares, "uniform"), color=CURVES[1], linestyle="-", marker="^", markersize=4, label=label)
    for number in marked:
        axes.axvline(number, color="0.6", linestyle=":", linewidth=1)
        axes.annotate(f" n = {number}", (number, 0.97), xycoords=("data", "axes fraction"), fontsize=9, va="top")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(-0.5, 1.12 * max(row[law] for row in shares for law in LAWS))
    axes.legend(frameon=False, fontsize=9, loc="center right")
    _style(axes, f"initial p with cosine above {COSINE_THRESHOLD:g} (%)", "number of colors n")


def dynamics_figure(rows: Sequence[Row]) -> Figure:
    """Cosine of p, attention AUC and training accuracy by epoch, a row for each kind of supervision: mean and std.

    Args:
      rows: rows of `dynamics.csv`.
    """
    kinds = list(by_value(rows, "supervision"))
    figure, panels = _panels(len(kinds), len(CHANGES))
    for (supervision, kind_rows), line in zip(kinds, panels, strict=True):
        for axes, (key, label) in zip(line, CHANGES.items(), strict=True):
            for color, (_, part) in zip(CURVES, by_value(kind_rows, "cosine"), strict=False):
                groups = sorted(by_value(part, "epoch"))
                x, values = [epoch for epoch, _ in groups], [_column(group, key) for _, group in groups]
                _draw_band(axes, x, values, color, limits=(-1, 1) if key == "current_cosine" else (0, 100))
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            finish_panel(axes, label, "epoch")
            if key == "current_cosine":
                axes.set_ylim(-1.05, 1.05)
        name_panel(line[0], f"{supervision}, {kind_rows[0]['model'].upper()}, n = {kind_rows[0]['n']}")
    handles: list[Artist] = [
        Line2D([], [], color=color, linewidth=2, label=f"initial cosine {cosine:g}")
        for color, (cosine, _) in zip(CURVES, by_value(rows, "cosine"), strict=False)
    ]
    seeds = len({row["seed"] for row in rows})
    handles.append(Patch(color="0.6", alpha=0.5, linewidth=0, label=f"± std of {seeds} seed" + "s" * (seeds > 1)))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    return figure


def finish_panel(axes: Axes, label: str, under: str) -> None:
    """Sets the range and the labels of a panel of percentages."""
    axes.set_ylim(-3, 103)
    _style(axes, label, under)


def by_value(rows: Sequence[Row], key: str) -> Iterator[tuple[Any, list[Row]]]:
    """The rows of each value of a column, in order of appearance."""
    for value in dict.fromkeys(row[key] for row in rows):
        yield value, [row for row in rows if row[key] == value]


def _column(rows: Sequence[Row], key: str) -> Float[np.ndarray, " rows"]:
    return np.array([row[key] for row in rows], float)


def _panels(rows: int, columns: int, width: float = 3.0) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width * columns, 0.5 + 2.5 * rows), dpi=130, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _draw_band(
    axes: Axes, x: Sequence[float], values: Sequence[Float[np.ndarray, " _"]], color: str, **style: Any
) -> None:
    """Draws the mean of the values at each x and a band of one standard deviation; NaN values are left out."""
    finite = [group[np.isfinite(group)] for group in values]
    mean = np.array([group.mean() if len(group) else np.nan for group in finite])
    std = np.array([group.std() if len(group) else np.nan for group in finite])
    draw_band(axes, x, mean, std, color, **style)


def _scatter(axes: Axes, rows: Sequence[Row], x: str, y: str) -> None:
    for distribution, part in by_value(rows, "distribution"):
        style: dict[str, Any] = {"marker": MARKERS[distribution], "color": PALETTE[rows[0]["supervision"]]}
        axes.scatter(_column(part, x), _column(part, y), s=12, alpha=0.45, linewidths=0, **style)


def supervision_marks(kinds: Iterable[str]) -> list[Artist]:
    """A patch in the color of each kind of supervision, for a legend."""
    return [Patch(color=PALETTE[kind], label=kind) for kind in kinds]


def _markers(points: Sequence[Row]) -> list[Artist]:
    style: dict[str, Any] = {"color": "0.35", "linestyle": "", "markersize": 4}
    return [
        Line2D([], [], marker=MARKERS[name], label=f"p from {LAWS[name]}", **style)
        for name, _ in by_value(points, "distribution")
    ]


def _legend(figure: Figure, points: Sequence[Row], more: Sequence[Artist]) -> None:
    """Adds one legend under all panels: a color for each kind of supervision, then `more`."""
    figure.suptitle(f"COLORS, n = {points[0]['n']}", fontsize=11)
    handles = [*supervision_marks(name for name, _ in by_value(points, "supervision")), *more]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)


def name_panel(axes: Axes, name: str) -> None:
    """Puts a name above a panel, at the left."""
    axes.set_title(name, loc="left", fontsize=11, fontweight="bold")


def _style(axes: Axes, label: str, under: str) -> None:
    axes.set_ylabel(label, fontsize=9)
    axes.set_xlabel(under, fontsize=9)
    style_axes(axes)
