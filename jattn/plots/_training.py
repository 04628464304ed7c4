"""Curves of training: loss, accuracy or attention AUC by epoch."""

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter
from numpy.typing import ArrayLike

from jattn.plots._colors import CURVES
from jattn.plots._style import by_seed, current_axes, style_axes, whole_numbers

Quantity = Literal["loss", "accuracy", "attention_auc"]
LABELS: Mapping[str, str] = {"loss": "loss", "accuracy": "accuracy (%)", "attention_auc": "attention AUC (%)"}
FEW = 20  # epochs; fewer have a dot each
FAINT = 20  # seeds that are drawn each


def training_curves(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    quantity: Quantity = "loss",
    *,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Draws a quantity by epoch: the mean over seeds, and each of the first 20 seeds faintly.

    Args:
      curves: by name, as of pooling layers or runs: the epochs, [epochs], and the values, [epochs] or [epochs, seeds],
        in per cent unless they are losses. NaN leaves a gap.
      quantity: what they are. A loss has a logarithmic axis if any is positive.
      ax: where to draw. Default: pyplot's current axes.
      legend: whether to add a legend if there are several names.

    Returns:
      The axes.

    Raises:
      ValueError: `quantity` is not known, or values don't have one row per epoch.

    >>> from matplotlib.figure import Figure
    >>> curves = {"attention": ([1, 2], [[4.0, 2.0], [1.0, 1.0]])}
    >>> axes = training_curves(curves, "loss", ax=Figure().subplots())
    >>> axes.get_ylabel(), axes.lines[-1].get_ydata()
    ('loss', array([3., 1.]))
    """
    if quantity not in LABELS:
        raise ValueError(f"quantity: expected one of {', '.join(get_args(Quantity))}, got {quantity!r}")
    axes, drawn = current_axes(ax), [np.zeros(0)]
    for i, (name, (epochs, values)) in enumerate(curves.items()):
        x = np.asarray(epochs)
        curve, color = by_seed(f"curves[{name!r}][1]", values, len(x)), CURVES[i % len(CURVES)]
        if curve.shape[1] > 1:
            axes.plot(x, curve[:, :FAINT], color=color, alpha=0.3, linewidth=0.7)
        axes.plot(x, curve.mean(1), color=color, linewidth=1.5, marker="." if len(x) < FEW else "", label=name)
        drawn.append(curve.ravel())
    _scale(axes, np.concatenate(drawn), quantity)
    if legend and len(curves) > 1:
        axes.legend(loc="upper right" if quantity == "loss" else "lower right", frameon=False, fontsize=8)
    axes.set_ylabel(LABELS[quantity])
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(whole_numbers(5))
    style_axes(axes)
    return axes


def _scale(axes: Axes, drawn: Float[np.ndarray, " _"], quantity: Quantity) -> None:
    """Sets the range of percentages, or a logarithmic axis of a loss."""
    finite = drawn[np.isfinite(drawn)]
    if quantity != "loss":
        axes.set_ylim(min(90, 10 * np.floor(finite.min(initial=90) / 10)), 101)
    elif (finite > 0).any():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(_ShortFormatter(minor_thresholds=(1, 0.4)))  # for ranges within a power of 10


class _ShortFormatter(LogFormatter):
    """Labels the ticks that `LogFormatter` does, with numbers such as 0.65 in place of 7e-01."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:.3g}" if super().__call__(x, pos) else ""
