"""Accuracy against the number of nodes or the label: mean and standard deviation over seeds."""

from collections.abc import Mapping
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import ArrayLike

from jattn.plots._colors import CURVES
from jattn.plots._style import SPAN, by_seed, current_axes, draw_band, style_axes, whole_numbers

Accuracies = Mapping[str, tuple[ArrayLike, ArrayLike]]
LOGARITHMIC = 10  # the ratio of sizes from which their axis is logarithmic


def accuracy_by_size(
    accuracy: Accuracies, trained: tuple[int, int] | None = None, *, ax: Axes | None = None, legend: bool = True
) -> Axes:
    """Draws accuracy against the number of nodes: means over seeds with a band of one standard deviation.

    Args:
      accuracy: by name, as of test subsets or runs: the numbers of nodes, [sizes] or [sizes, 2] for ranges, and the
        accuracies of graphs of these sizes in per cent, [sizes] or [sizes, seeds].
      trained: the smallest and largest number of nodes of a training graph, shown as a span.
      ax: where to draw. Default: pyplot's current axes.
      legend: whether to add a legend.

    Returns:
      The axes; logarithmic if the sizes span a factor of 10.

    Raises:
      ValueError: the shapes of two arrays don't fit.

    >>> from matplotlib.figure import Figure
    >>> scores = {"test": ([[4, 9], [10, 25]], [[90.0, 100.0], [60.0, 70.0]])}
    >>> axes = accuracy_by_size(scores, trained=(4, 25), ax=Figure().subplots())
    >>> axes.lines[0].get_xdata(), axes.lines[0].get_ydata()
    (array([ 6.5, 17.5]), array([95., 65.]))
    """
    axes = _draw(accuracy, current_axes(ax))
    sizes = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(nodes, float)) for nodes, _ in accuracy.values())])
    if trained is not None:
        smallest, largest = trained
        label = f"trained on {smallest}" + f"-{largest}" * (largest > smallest) + " nodes"
        axes.axvspan(smallest - 0.5, largest + 0.5, color=SPAN, linewidth=0, zorder=0, label=label)
        sizes = np.append(sizes, trained)
    if len(sizes) and sizes.max() >= LOGARITHMIC * sizes.min() > 0:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    return _finish(axes, "number of nodes", legend)


def accuracy_by_label(accuracy: Accuracies, *, ax: Axes | None = None, legend: bool = True) -> Axes:
    """Draws accuracy against the label: means over seeds with a band of one standard deviation.

    Args:
      accuracy: by name, as of test subsets or runs: the labels, [labels], and the accuracies of graphs with these
        labels in per cent, [labels] or [labels, seeds].
      ax: where to draw. Default: pyplot's current axes.
      legend: whether to add a legend.

    Returns:
      The axes.

    Raises:
      ValueError: the shapes of two arrays don't fit.

    >>> from matplotlib.figure import Figure
    >>> axes = accuracy_by_label({"test": ([0, 1], [90.0, 60.0])}, ax=Figure().subplots())
    >>> axes.get_xlabel(), axes.lines[0].get_ydata()
    ('label', array([90., 60.]))
    """
    return _finish(_draw(accuracy, current_axes(ax)), "label", legend)


def _draw(accuracy: Accuracies, axes: Axes) -> Axes:
    for (name, (x, values)), color in zip(accuracy.items(), cycle(CURVES), strict=False):
        positions = np.asarray(x, float)
        if positions.ndim == 2:  # the middle of each range
            positions = positions.mean(1)
        by_network = by_seed(f"accuracy[{name!r}][1]", values, len(positions))
        finite = np.isfinite(by_network).all(1)
        mean, std = np.full((2, len(positions)), np.nan)
        mean[finite], std[finite] = by_network[finite].mean(1), by_network[finite].std(1)
        draw_band(axes, positions, mean, std, color, marker="o", label=name)
    return axes


def _finish(axes: Axes, label: str, legend: bool) -> Axes:
    if axes.get_xscale() == "linear":
        axes.xaxis.set_major_locator(whole_numbers(12))
    axes.set_xlabel(label)
    axes.set_ylabel("accuracy (%)")
    axes.set_ylim(-2, 102)  # the whole range, so that plots can be compared
    style_axes(axes)
    if legend:
        axes.legend(frameon=False, fontsize=8)
    return axes
