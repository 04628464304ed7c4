"""Curves of training: loss, accuracy or attention AUC by epoch."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Num
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter
from numpy.typing import ArrayLike

from jattn.plots._style import CURVES, by_seed, current_axes, style_axes, whole_numbers

Quantity = Literal["loss", "accuracy", "attention_auc"]
LABELS: Mapping[str, str] = {"loss": "loss", "accuracy": "accuracy (%)", "attention_auc": "attention AUC (%)"}
FEW = 20  # epochs; fewer have a dot each


def training_curves(
    epochs: Sequence[int] | Num[np.ndarray, " epochs"],
    values: ArrayLike | Mapping[str, ArrayLike],
    quantity: Quantity = "loss",
    *,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Draws a quantity by epoch: the mean over seeds, and each seed faintly.

    Args:
      epochs: the epochs, in order.
      values: [epochs] or [epochs, seeds], per cent unless it is a loss; or such arrays by name, as of pooling layers or
        runs. NaN leaves a gap.
      quantity: what it is. A loss has a logarithmic axis if any is positive.
      ax: where to draw. Default: pyplot's current axes.
      legend: whether to add a legend if there are several names.

    Returns:
      The axes.

    Raises:
      ValueError: `quantity` is not known, or an array does not have one row per epoch.

    >>> from matplotlib.figure import Figure
    >>> axes = training_curves([1, 2], [[4.0, 2.0], [1.0, 1.0]], "loss", ax=Figure().subplots())
    >>> axes.get_ylabel(), axes.lines[-1].get_ydata()
    ('loss', array([3., 1.]))
    """
    if quantity not in LABELS:
        raise ValueError(f"quantity: expected one of {', '.join(get_args(Quantity))}, got {quantity!r}")
    curves = (
        {name: by_seed(f"values[{name!r}]", array, len(epochs)) for name, array in values.items()}
        if isinstance(values, Mapping)
        else {"": by_seed("values", values, len(epochs))}
    )
    axes = current_axes(ax)
    for i, (name, curve) in enumerate(curves.items()):
        color = CURVES[i % len(CURVES)]
        if curve.shape[1] > 1:
            axes.plot(epochs, curve, color=color, alpha=0.3, linewidth=0.7)
        marker = "." if len(epochs) < FEW else ""
        axes.plot(epochs, curve.mean(1), color=color, linewidth=1.5, marker=marker, label=name)
    _scale(axes, np.concatenate([np.zeros(0), *(curve.ravel() for curve in curves.values())]), quantity)
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
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))  # for ranges within a power of 10
