"""Attention over superpixels, as a matplotlib `Figure`: input, target attention and attention of images.

After the qualitative figure of Knyazev et al. 2019.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Real
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from jattn.plots._colors import DROPPED, TARGET
from jattn.plots._style import NotebookFigure, attention_colors, draw_attention_bar

PANEL = 1.05  # inches
BORDER, WRONG = "0.5", TARGET
HATCHED: dict[str, Any] = {"facecolor": "white", "edgecolor": to_rgba(DROPPED, 0.7), "hatch": "/////", "linewidth": 0}


class ImageAttention(NamedTuple):
    """One variant of an image's graph, such as a noisy one, with attention and prediction for it.

    Attributes:
      channels: intensities from 0 to 1 of 1 channel (gray) or 3 (red, green, blue); values outside are clipped.
      attention: alpha of one pooling layer.
      node_mask: the nodes that this layer kept.
      predicted: the predicted class.
    """

    channels: Float[np.ndarray, "nodes channels"]
    attention: Float[np.ndarray, " nodes"]
    node_mask: Bool[np.ndarray, " nodes"]
    predicted: int


class SegmentedImage(NamedTuple):
    """An image to draw.

    Attributes:
      segments: the superpixel of each pixel; node i of the graph is superpixel i.
      target: target attention; 0 everywhere if there is none.
      label: the true class.
      variants: variants of the graph by the names to show, at least one.
      title: put above the label.
    """

    segments: Int[np.ndarray, "height width"]
    target: Float[np.ndarray, " nodes"]
    label: int
    variants: Mapping[str, ImageAttention]
    title: str = ""


def attention_on_images(images: Sequence[SegmentedImage]) -> Figure:
    """Draws images as superpixels, one per row: target attention, then the input and the attention of each variant.

    Attention and target are colored relative to the largest of their graph; NaN counts as 0. Dropped superpixels are
    hatched. A wrong prediction has a cross and a colored frame around its attention.

    Args:
      images: at least one, with variants of the same names. Sizes may differ.

    Returns:
      The figure: its panels row by row, then a color bar. Without any target attention there are no target panels.

    Raises:
      ValueError: there are no images, names of variants differ, or an array does not have one entry per superpixel.

    >>> variant = ImageAttention(np.array([[0.2], [0.8]]), np.array([0.1, 0.9]), np.array([False, True]), predicted=3)
    >>> row = SegmentedImage(np.array([[0, 1]]), target=np.array([0.0, 1.0]), label=3, variants={"clean": variant})
    >>> [axes.get_title() for axes in attention_on_images([row]).axes[:3]]
    ['target', 'input', 'attention']
    """
    if not images:
        raise ValueError("images: expected at least one, got none")
    names = list(images[0].variants)
    for i, image in enumerate(images):
        _expect_image(image, names, f"images[{i}]")
    has_target = any(np.nan_to_num(image.target).any() for image in images)
    texts = [f"{image.title}\nlabel {image.label}".lstrip() for image in images]
    figure, rows = _panels(images, texts, has_target, len(names))
    for image, text, panels in zip(images, texts, rows, strict=True):
        panels[0].set_ylabel(text, fontsize=9, rotation=0, ha="right", va="center", labelpad=6)
        if has_target:
            fill_superpixels(panels[0], image.segments, attention_colors(image.target))
        for name, channels, attention in zip(names, panels[has_target::2], panels[has_target + 1 :: 2], strict=True):
            _draw_variant(channels, attention, image, image.variants[name])
    _draw_headings(rows[0], names, has_target)
    _draw_legend(figure)
    return figure


def _panels(
    images: Sequence[SegmentedImage], texts: Sequence[str], has_target: bool, variants: int
) -> tuple[Figure, list[list[Axes]]]:
    """A figure and its panels, row by row."""
    # In inches, panels and gaps in turn; the color bar and the legend are below the panels.
    widths = ([PANEL, 0.2] * has_target + [PANEL, 0.06, PANEL, 0.2] * variants)[:-1]
    heights = [size for image in images for size in (PANEL * _aspect_ratio(image.segments), 0.27)]
    left, bottom = 0.2 + 0.08 * max(len(line) for text in texts for line in text.split("\n")), 0.75
    right, top = left + sum(widths), bottom + sum(heights)
    width, height = max(right + 0.1, 3.5), top + 0.5
    figure = NotebookFigure(figsize=(width, height), dpi=160)
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
    columns = range(0, len(widths), 2)
    return figure, [[figure.add_subplot(grid[2 * row, column]) for column in columns] for row in range(len(images))]


def _draw_headings(panels: Sequence[Axes], names: Sequence[str], has_target: bool) -> None:
    """Titles of the columns and names of the variants, over the first row."""
    titles = ["target"] * has_target + ["input", "attention"] * len(names)
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=9, pad=4)
    style: dict[str, Any] = {"fontsize": 11, "fontweight": "bold", "textcoords": "offset points"}
    for axes, name in zip(panels[has_target::2], names, strict=True):
        axes.annotate(name, (0, 1), (0, 18), xycoords="axes fraction", **style)


def _expect_image(image: SegmentedImage, names: Sequence[str], argument: str) -> None:
    """Raises `ValueError`, naming the argument, unless all arrays of an image fit together."""
    segments = image.segments
    if segments.ndim != 2 or not segments.size:
        raise ValueError(f"{argument}.segments: expected [height, width], got {list(segments.shape)}")
    if segments.min() < 0:
        raise ValueError(f"{argument}.segments: expected superpixels counted from 0, got {segments.min()}")
    if not names or set(image.variants) != set(names):
        raise ValueError(f"{argument}.variants: expected {names or 'at least one'}, got {list(image.variants)}")
    count = int(segments.max()) + 1
    shapes = {"target": image.target.shape}
    for name, variant in image.variants.items():
        fields = ("channels", "attention", "node_mask")
        shapes |= {f"variants[{name!r}].{field}": getattr(variant, field).shape for field in fields}
    for field, shape in shapes.items():
        allowed = [(count, 1), (count, 3)] if field.endswith("channels") else [(count,)]
        if shape not in allowed:
            expected = " or ".join(str(list(one)) for one in allowed)
            raise ValueError(f"{argument}.{field}: expected {expected} for {count} superpixels, got {list(shape)}")


def _aspect_ratio(segments: Int[np.ndarray, "height width"]) -> float:
    height, width = segments.shape
    return min(max(height / width, 0.3), 3)


def _draw_variant(channels: Axes, attention: Axes, image: SegmentedImage, variant: ImageAttention) -> None:
    rgb = np.broadcast_to(np.clip(np.nan_to_num(variant.channels), 0, 1), (len(variant.channels), 3))
    fill_superpixels(channels, image.segments, rgb)
    colors = attention_colors(variant.attention)
    colors[~variant.node_mask, 3] = 0  # shows the hatching behind
    attention.patch.set(**HATCHED)
    fill_superpixels(attention, image.segments, colors)
    correct = variant.predicted == image.label
    answer = f"predicted {variant.predicted}" + ("" if correct else " ✗")
    attention.set_xlabel(answer, fontsize=9, labelpad=3, color="black" if correct else WRONG)
    if not correct:
        attention.spines[:].set(edgecolor=WRONG, linewidth=1.8)


def fill_superpixels(
    axes: Axes, segments: Int[np.ndarray, "height width"], colors: Real[np.ndarray, "nodes channels"]
) -> None:
    """Draws superpixels in their colors, with thin lines between them."""
    axes.imshow(colors[segments], interpolation="nearest")
    y, x = np.nonzero(segments[:, 1:] != segments[:, :-1])
    upright = np.stack([x + 0.5, y - 0.5, x + 0.5, y + 0.5], 1)
    y, x = np.nonzero(segments[1:] != segments[:-1])
    level = np.stack([x - 0.5, y + 0.5, x + 0.5, y + 0.5], 1)
    lines = [*np.concatenate([upright, level]).reshape(-1, 2, 2)]  # two ends each, x and y
    axes.add_collection(LineCollection(lines, colors=BORDER, linewidths=0.35, capstyle="projecting"), autolim=False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(edgecolor=BORDER, linewidth=0.6)


def _draw_legend(figure: Figure) -> None:
    """Color bar and legend, in the lowest 0.75 inches."""
    height = figure.get_figheight()
    axes = figure.add_axes((0.25, 0.63 / height, 0.5, 0.1 / height))
    draw_attention_bar(figure, labelpad=2, cax=axes, orientation="horizontal")
    handles = [
        Patch(**HATCHED, label="dropped"),
        Patch(facecolor="none", edgecolor=WRONG, linewidth=1.8, label="wrong prediction"),
    ]
    figure.legend(handles=handles, loc="lower center", borderaxespad=0, ncols=2, frameon=False, fontsize=9)
