"""The style that all plots share: colors, grid, bands of one standard deviation."""

import io
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from jattn.plots._colors import ATTENTION_COLORS

ATTENTION = LinearSegmentedColormap.from_list("attention", ATTENTION_COLORS)
SPAN = "0.92"  # of a range of values, behind the curves


class NotebookFigure(Figure):
    """A figure that a notebook shows, also without `%matplotlib inline`."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def current_axes(ax: Axes | None) -> Axes:
    """Returns `ax`, or pyplot's current axes if it is None."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # chooses a backend, which who passes axes may not want

    return plt.gca()


def relative_to_largest(values: Float[np.ndarray, " values"]) -> Float[np.ndarray, " values"]:
    """Returns values divided by the largest; NaN counts as 0."""
    values = np.nan_to_num(values)
    return values / max(values.max(initial=0), 1e-30)


def attention_colors(attention: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, "nodes 4"]:
    """Returns the colors of the nodes of one graph."""
    return ATTENTION(relative_to_largest(attention))


def draw_attention_bar(figure: Figure, labelpad: float = 4.0, **place: Any) -> None:
    """Draws the color bar of `attention_colors`; `place` is given to `Figure.colorbar`."""
    bar = figure.colorbar(ScalarMappable(cmap=ATTENTION), **place)
    bar.set_label("attention / largest of the graph", fontsize=9, labelpad=labelpad)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)


def style_axes(axes: Axes) -> None:
    """Sets the grid, ticks and spines."""
    axes.tick_params(which="both", labelsize=8)
    axes.grid(color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def whole_numbers(most: int) -> MaxNLocator:
    """Returns a locator of at most so many ticks at whole numbers."""
    return MaxNLocator(most, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)


def draw_band(
    axes: Axes,
    x: ArrayLike,
    mean: Float[np.ndarray, " points"],
    std: Float[np.ndarray, " points"],
    color: str,
    marker: str = "",
    label: str = "",
    limits: tuple[float, float] = (0, 100),
) -> None:
    """Draws a line through means, and a band of one standard deviation within limits, by default of percentages."""
    low, high = np.clip(mean - std, *limits), np.clip(mean + std, *limits)
    if len(mean) == 1:  # too narrow for a band
        axes.vlines(x, low, high, color=color, alpha=0.4, linewidth=2)
    axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
    axes.plot(x, mean, color=color, linewidth=1.5, marker=marker, markersize=4, label=label)


def by_seed(name: str, values: Any, points: int) -> Float[np.ndarray, "points seeds"]:
    """Returns values of one or several seeds as a matrix; None becomes NaN.

    Args:
      name: the argument, for errors.
      values: [points] or [points, seeds].
      points: how many points there have to be.

    Raises:
      ValueError: they have another shape.
    """
    array = np.asarray(values, float)
    if array.ndim not in (1, 2) or len(array) != points:
        raise ValueError(f"{name}: expected [{points}] or [{points}, seeds], got {list(array.shape)}")
    return array.reshape(points, -1) if array.size else np.full((points, 1), np.nan)
