"""Pictures of attention over superpixels: what a network saw, what it should have attended to and what it attended to.

After the qualitative figure of Knyazev et al. 2019; pyplot's global state is left alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Real
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from jattn.plots._graphs import ATTENTION, DROPPED, TARGET

PANEL = 1.05  # inches
BORDER, WRONG = "0.5", TARGET
HATCHED: dict[str, Any] = {"facecolor": "white", "edgecolor": to_rgba(DROPPED, 0.7), "hatch": "/////", "linewidth": 0}


class ImageVariant(NamedTuple):
    """One version of an image's graph, such as a noisy one, and what a network makes of it.

    Attributes:
      channels: intensities from 0 to 1 of 1 channel (gray) or 3 (red, green, blue); others are clipped.
      attention: alpha of one pooling layer.
      kept: nodes which that layer kept.
      predicted: class.
    """

    channels: Float[np.ndarray, "nodes channels"]
    attention: Float[np.ndarray, " nodes"]
    kept: Bool[np.ndarray, " nodes"]
    predicted: int


class ImageRow(NamedTuple):
    """An image to draw.

    Attributes:
      segments: the superpixel of each pixel; node i of the graph is superpixel i.
      target: target attention, 0 all over where there is none.
      label: class.
      views: versions of the graph by the names to show, at least one.
      title: put above the label.
    """

    segments: Int[np.ndarray, "height width"]
    target: Float[np.ndarray, " nodes"]
    label: int
    views: Mapping[str, ImageVariant]
    title: str = ""


def superpixel_figure(images: Sequence[ImageRow]) -> Figure:
    """Images as superpixels, a row each: the target attention, then the input and the attention of every view.

    Attention and target are coloured relative to the largest of their graph; NaN counts as 0. Dropped superpixels are
    hatched. A wrong prediction has a cross and, around its attention, a coloured frame.

    Args:
      images: at least one, all with views of the same names. Sizes may differ.

    Returns:
      The figure: its panels row by row, then a colour bar. Where no image has target attention, targets are left out.

    Raises:
      ValueError: there is nothing to draw, names of views differ, or an array has not one entry a superpixel.
    """
    if not images:
        raise ValueError("images: expected at least one, got none")
    names = list(images[0].views)
    for i, image in enumerate(images):
        _expect_drawable(image, names, f"images[{i}]")
    targets = any(np.nan_to_num(image.target).any() for image in images)
    texts = [f"{image.title}\nlabel {image.label}".lstrip() for image in images]
    # In inches, panels and gaps in turn; below the panels are the colour bar and the legend.
    widths = ([PANEL, 0.2] * targets + [PANEL, 0.06, PANEL, 0.2] * len(names))[:-1]
    heights = [size for image in images for size in (PANEL * _aspect_ratio(image.segments), 0.27)]
    left, bottom = 0.2 + 0.08 * max(len(line) for text in texts for line in text.split("\n")), 0.75
    width, height = max(left + sum(widths) + 0.1, 3.5), bottom + sum(heights) + 0.5
    right, top = left + sum(widths), bottom + sum(heights)
    figure = Figure(figsize=(width, height), dpi=160)
    grid = figure.add_gridspec(
        len(heights),
        len(widths),
        height_ratios=heights,
        width_ratios=widths,
        left=left / width,
        right=right / width,
        bottom=bottom / height,
        top=top / height,
        wspace=0,
        hspace=0,
    )
    for row, (image, text) in enumerate(zip(images, texts, strict=True)):
        panels = [figure.add_subplot(grid[2 * row, column]) for column in range(0, len(widths), 2)]
        panels[0].set_ylabel(text, fontsize=9, rotation=0, ha="right", va="center", labelpad=6)
        if targets:
            _fill(panels[0], image.segments, _colors(image.target))
        pairs = list(zip(panels[targets::2], panels[targets + 1 :: 2], strict=True))
        for (channels, attention), name in zip(pairs, names, strict=True):
            _draw_view(channels, attention, image, image.views[name])
        if row == 0:
            for axes, heading in zip(panels, ["target"] * targets + ["input", "attention"] * len(names), strict=True):
                axes.set_title(heading, fontsize=9, pad=4)
            for (channels, _), name in zip(pairs, names, strict=True):
                style: dict[str, Any] = {"fontsize": 11, "fontweight": "bold", "textcoords": "offset points"}
                channels.annotate(name, (0, 1), (0, 18), xycoords="axes fraction", **style)
    _add_legend(figure)
    return figure


def _expect_drawable(image: ImageRow, names: Sequence[str], where: str) -> None:
    """Raises ValueError, naming the argument, unless all the arrays of an image go together."""
    segments = image.segments
    if segments.ndim != 2 or not segments.size:
        raise ValueError(f"{where}.segments: expected [height, width], got {list(segments.shape)}")
    if segments.min() < 0:
        raise ValueError(f"{where}.segments: expected superpixels counted from 0, got {segments.min()}")
    if not names or set(image.views) != set(names):
        raise ValueError(f"{where}.views: expected {names or 'at least one'}, got {list(image.views)}")
    count = int(segments.max()) + 1
    shapes = {"target": image.target.shape}
    for name, view in image.views.items():
        shapes |= {f"views[{name!r}].{key}": getattr(view, key).shape for key in ("channels", "attention", "kept")}
    for of, shape in shapes.items():
        allowed = [(count, 1), (count, 3)] if of.endswith("channels") else [(count,)]
        if shape not in allowed:
            wanted = " or ".join(str(list(one)) for one in allowed)
            raise ValueError(f"{where}.{of}: expected {wanted} for {count} superpixels, got {list(shape)}")


def _aspect_ratio(segments: Int[np.ndarray, "height width"]) -> float:
    height, width = segments.shape
    return min(max(height / width, 0.3), 3)


def _draw_view(channels: Axes, attention: Axes, image: ImageRow, view: ImageVariant) -> None:
    rgb = np.broadcast_to(np.clip(np.nan_to_num(view.channels), 0, 1), (len(view.channels), 3))
    _fill(channels, image.segments, rgb)
    colors = _colors(view.attention)
    colors[~view.kept, 3] = 0  # the hatching behind is seen
    attention.patch.set(**HATCHED)
    _fill(attention, image.segments, colors)
    right = view.predicted == image.label
    answer = f"predicted {view.predicted}" + ("" if right else " ✗")
    attention.set_xlabel(answer, fontsize=9, labelpad=3, color="black" if right else WRONG)
    if not right:
        attention.spines[:].set(edgecolor=WRONG, linewidth=1.8)


def _colors(attention: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, "nodes 4"]:
    attention = np.nan_to_num(attention)
    return ATTENTION(attention / max(attention.max(initial=0), 1e-30))


def _fill(axes: Axes, segments: Int[np.ndarray, "height width"], colors: Real[np.ndarray, "nodes channels"]) -> None:
    """Superpixels in their colours, thin lines between them."""
    axes.imshow(colors[segments], interpolation="nearest")
    y, x = np.nonzero(segments[:, 1:] != segments[:, :-1])
    upright = np.stack([x + 0.5, y - 0.5, x + 0.5, y + 0.5], 1)
    y, x = np.nonzero(segments[1:] != segments[:-1])
    level = np.stack([x - 0.5, y + 0.5, x + 0.5, y + 0.5], 1)
    lines = [*np.concatenate([upright, level]).reshape(-1, 2, 2)]  # of two ends, x and y
    axes.add_collection(LineCollection(lines, colors=BORDER, linewidths=0.35, capstyle="projecting"), autolim=False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(edgecolor=BORDER, linewidth=0.6)


def _add_legend(figure: Figure) -> None:
    """Colour bar and legend, within 0.75 inches from below."""
    height = figure.get_figheight()
    where = figure.add_axes((0.25, 0.63 / height, 0.5, 0.1 / height))
    bar = figure.colorbar(ScalarMappable(cmap=ATTENTION), cax=where, orientation="horizontal")
    bar.set_label("attention / largest of the graph", fontsize=9, labelpad=2)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    handles = [
        Patch(**HATCHED, label="dropped"),
        Patch(facecolor="none", edgecolor=WRONG, linewidth=1.8, label="wrong prediction"),
    ]
    figure.legend(handles=handles, loc="lower center", borderaxespad=0, ncols=2, frameon=False, fontsize=9)
