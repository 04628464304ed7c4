"""The paper's qualitative figure: test graphs in rows, what networks make of them in columns."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from jattn.plots._colors import DROPPED, TARGET
from jattn.plots._graphs import draw_graph
from jattn.plots._images import HATCHED, WRONG, fill_superpixels
from jattn.plots._style import draw_attention_bar

PANEL = 1.75  # inches
CLUSTERS = np.concatenate([colormaps[name].colors for name in ("Set2", "tab20", "tab20b")])  # type: ignore[attr-defined]


class Panel(NamedTuple):
    """A graph in one column.

    Attributes:
      colors: of each node.
      node_mask: nodes that are not dropped.
      predicted: the prediction; "" if there is none.
      correct: whether it is right.
    """

    colors: Float[np.ndarray, "nodes channels"]
    node_mask: Bool[np.ndarray, " nodes"]
    predicted: str = ""
    correct: bool = True


class Example(NamedTuple):
    """A graph to draw.

    Attributes:
      title: text beside its row.
      label: its label.
      panels: its panels by the heading of their column; all examples have the same.
      target: nodes with target attention, which have rings.
      ends: the nodes of every edge.
      weights: weights of the edges.
      position: positions of the nodes, x to the right and y upwards.
      segments: the superpixel of each pixel if it is an image, which is drawn in place of nodes and edges.
    """

    title: str
    label: str
    panels: Mapping[str, Panel]
    target: Bool[np.ndarray, " nodes"]
    ends: Int[np.ndarray, "edges 2"]
    weights: Float[np.ndarray, " edges"]
    position: Float[np.ndarray, "nodes 2"]
    segments: Int[np.ndarray, "height width"] | None = None


def cluster_colors(clusters: Int[np.ndarray, " nodes"]) -> Float[np.ndarray, "nodes channels"]:
    """Returns a color for each node that tells its cluster from others."""
    return CLUSTERS[clusters % len(CLUSTERS)]


def qualitative_figure(examples: Sequence[Example]) -> Figure:
    """Draws examples in rows, with their label beside them and each network's prediction below its panel.

    Args:
      examples: at least one.
    """
    headings = list(examples[0].panels)
    height = 0.95 + (PANEL + 0.12) * len(examples)
    figure = Figure(figsize=(0.9 + PANEL * len(headings), height), dpi=130, layout="constrained")
    grid = figure.subplots(len(examples), len(headings), squeeze=False)
    for example, row in zip(examples, grid, strict=True):
        for axes, panel in zip(row, example.panels.values(), strict=True):
            _draw_panel(axes, example, panel)
        text = f"{example.title}\nlabel {example.label}"
        row[0].set_ylabel(text, fontsize=9, rotation=0, ha="right", va="center", labelpad=8)
    for axes, heading in zip(grid[0], headings, strict=True):
        axes.set_title(heading, fontsize=9)
    draw_attention_bar(figure, ax=grid, location="bottom", shrink=0.5, aspect=40, pad=0.01)
    _draw_key(figure, examples)
    return figure


def _draw_panel(axes: Axes, example: Example, panel: Panel) -> None:
    axes.set(xticks=[], yticks=[])
    if example.segments is None:
        ringed = example.target
        draw_graph(axes, example.position, example.ends, example.weights, panel.colors, panel.node_mask, ringed)
        axes.spines[:].set_visible(False)
    else:
        opacity = panel.node_mask.astype(float)  # hatching shows through dropped superpixels
        axes.patch.set(**HATCHED)
        fill_superpixels(axes, example.segments, np.column_stack([panel.colors[:, :3], opacity]))
    if panel.predicted:
        text = f"predicted {panel.predicted}" + ("" if panel.correct else " ✗")
        axes.set_xlabel(text, fontsize=9, labelpad=3, color="black" if panel.correct else WRONG)


def _draw_key(figure: Figure, examples: Sequence[Example]) -> None:
    """A legend of the marks that there are: those of nodes, of superpixels, and of predictions."""
    styles: dict[str, dict[str, Any]] = {
        "dropped": {"markersize": 4, "markerfacecolor": "white", "markeredgecolor": DROPPED},
        "has target attention": {"markersize": 9, "fillstyle": "none", "color": TARGET, "markeredgewidth": 1.5},
    }
    handles: list[Artist] = []
    if any(example.segments is None for example in examples):
        handles += [Line2D([], [], marker="o", linestyle="", label=label, **style) for label, style in styles.items()]
    if any(example.segments is not None for example in examples):
        handles.append(Patch(**HATCHED, label="dropped superpixel"))
    handles.append(Line2D([], [], marker="$✗$", linestyle="", color=WRONG, markersize=7, label="wrong prediction"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
