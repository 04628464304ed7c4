"""Attention on the nodes of graphs, as a matplotlib `Figure` without pyplot's global state."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Num
from jraph import GraphsTuple
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from jattn.graphs import Proximity
from jattn.io import write_atomically
from jattn.plots._colors import DROPPED, TARGET
from jattn.plots._layout import stress_layout
from jattn.plots._style import ATTENTION, NotebookFigure, attention_colors, draw_attention_bar, relative_to_largest

EDGE = "#8c8c8c"
DRAWN = 10  # graphs, where none are named


def attention_on_graphs(
    graphs: GraphsTuple,
    attention: Float[np.ndarray, " nodes"],
    node_mask: Bool[np.ndarray, " nodes"] | None = None,
    prediction: Num[np.ndarray, " graphs"] | None = None,
    *,
    ids: Sequence[int] | None = None,
    titles: Sequence[str] = (),
    position: Float[np.ndarray, "nodes 2"] | None = None,
) -> Figure:
    """Draws some graphs of a split, with nodes colored by attention relative to the largest of their graph.

    Nodes with target attention have a ring; dropped nodes are small and hollow. Heavier edges are darker.

    Args:
      graphs: the split, on the host.
      attention: alpha of one pooling layer.
      node_mask: the nodes that this layer kept. Default: all.
      prediction: a number or a class for each graph, for the titles, which have labels too if the graphs do.
      ids: indices of the graphs to draw, at least one. Default: the first ten, or all if there are fewer.
      titles: a name for each of them, put before the text of the panel's title.
      position: positions of the nodes, x to the right and y upwards. Default: a layout from the edges.

    Returns:
      The figure: one panel per graph, then a color bar.

    Raises:
      ValueError: there are no ids or one is out of range, an array has the wrong shape, edges are not listed, or titles
        and ids differ in number.

    >>> from jattn import from_arrays
    >>> graph = from_arrays([[1.0], [2.0]], senders=[0, 1], receivers=[1, 0], label=0)
    >>> figure = attention_on_graphs(graph, np.array([0.9, 0.1]), prediction=np.array([1.0]))
    >>> print(figure.axes[0].get_title())
    2 nodes
    label 0, predicted 1
    """
    ids = range(min(len(graphs.n_node), DRAWN)) if ids is None else ids
    node_mask = np.ones(int(np.sum(graphs.n_node)), bool) if node_mask is None else node_mask
    _expect_graphs(graphs, ids, titles)
    _expect_shapes(graphs, attention=attention, node_mask=node_mask, prediction=prediction, position=position)
    figure, panels = _panels(len(ids))
    node, edge = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in (graphs.n_node, graphs.n_edge))
    for axes, name, i in zip(panels, titles or [""] * len(ids), ids, strict=False):
        nodes, edges = slice(node[i], node[i + 1]), slice(edge[i], edge[i + 1])
        ends = np.stack([graphs.senders[edges], graphs.receivers[edges]], 1) - node[i]
        xy = stress_layout(int(graphs.n_node[i]), ends) if position is None else position[nodes]
        target = graphs.nodes["attention"][nodes] > 0
        colors = attention_colors(attention[nodes])
        draw_graph(axes, xy, ends, graphs.edges[edges], colors, node_mask[nodes], target)
        axes.set_title(_title(name, graphs, i, prediction), fontsize=9)
    _draw_key(figure, rings=bool((graphs.nodes["attention"] > 0).any()))
    return figure


def _panels(count: int) -> tuple[Figure, Any]:
    """A figure with panels for so many graphs and a color bar."""
    columns = min(count, 5)
    rows = -(-count // columns)
    figure = NotebookFigure(figsize=(0.9 + 2.1 * max(columns, 2), 0.5 + 2.5 * rows), dpi=130)
    figure.set_layout_engine(ConstrainedLayoutEngine(wspace=0.08))
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels:
        axes.set_axis_off()
    draw_attention_bar(figure, ax=panels, shrink=0.7, pad=0.01, aspect=25 * max(rows / 2, 0.6))
    return figure, panels


def _title(name: str, graphs: GraphsTuple, i: int, prediction: Num[np.ndarray, " graphs"] | None) -> str:
    size = f"{graphs.n_node[i]} {'node' if graphs.n_node[i] == 1 else 'nodes'}"
    answer = [f"label {_number(graphs.globals['label'][i])}"] if "label" in graphs.globals else []
    answer += [] if prediction is None else [f"predicted {_number(prediction[i])}"]
    return "\n".join([f"{name}: {size}" if name else size, ", ".join(answer)]).rstrip()


def _expect_graphs(graphs: GraphsTuple, ids: Sequence[int], titles: Sequence[str]) -> None:
    total = len(graphs.n_node)
    if not len(ids) or not all(0 <= i < total for i in ids):
        raise ValueError(f"ids: expected at least one graph, each from 0 to {total - 1}, got {list(ids)}")
    if len(titles) not in (0, len(ids)):
        raise ValueError(f"titles: expected none or {len(ids)}, one per graph, got {len(titles)}")
    if isinstance(graphs.edges, Proximity):
        raise ValueError("graphs: their edges are not listed; `list_edges(graphs)` lists them")


def _expect_shapes(graphs: GraphsTuple, **arrays: np.ndarray | None) -> None:
    """Raises `ValueError` for an array, by name, that is not [nodes], or [graphs] or [nodes, 2] for some names."""
    nodes, count = int(np.sum(graphs.n_node)), len(graphs.n_node)
    expected = {"prediction": ("[graphs]", (count,)), "position": ("[nodes, 2]", (nodes, 2))}
    for name, array in arrays.items():
        words, shape = expected.get(name, ("[nodes]", (nodes,)))
        if array is not None and np.shape(array) != shape:
            raise ValueError(f"{name}: expected {words} = {shape}, got {np.shape(array)}")


def _draw_key(figure: Figure, rings: bool) -> None:
    """A legend of the marks of nodes, and of rings if there are any."""
    styles: dict[str, dict[str, Any]] = {
        "kept": {"markersize": 7, "color": ATTENTION(0.6)},
        "dropped": {"markersize": 4, "markerfacecolor": "white", "markeredgecolor": DROPPED},
    }
    if rings:
        ring = {"markersize": 9, "fillstyle": "none", "color": TARGET, "markeredgewidth": 1.5}
        styles["has target attention"] = ring
    handles = [Line2D([], [], marker="o", linestyle="", label=label, **style) for label, style in styles.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def draw_graph(
    axes: Axes,
    position: Float[np.ndarray, "nodes 2"],
    ends: Int[np.ndarray, "edges 2"],
    weights: Float[np.ndarray, " edges"],
    colors: Float[np.ndarray, "nodes channels"],
    node_mask: Bool[np.ndarray, " nodes"],
    ringed: Bool[np.ndarray, " nodes"],
) -> None:
    """Draws one graph: nodes in their colors, small and hollow where the mask is False, with rings around some."""
    area = np.clip(2500 / max(len(colors), 1), 14, 70)
    forward = ends[:, 0] < ends[:, 1]  # each edge in one of its two directions
    ends, weights = ends[forward], weights[forward]
    opacity = 0.7 * relative_to_largest(weights) * np.where(node_mask[ends].all(1), 1, 0.4)
    axes.add_collection(LineCollection(position[ends], colors=[(EDGE, a) for a in opacity], linewidths=0.6, zorder=1))
    styles: list[tuple[Any, dict[str, Any]]] = [
        (~node_mask, {"s": 0.3 * area, "c": "white", "edgecolors": DROPPED, "linewidths": 0.6}),
        (node_mask, {"s": area, "c": colors[node_mask], "edgecolors": "0.35", "linewidths": 0.4}),
        (ringed, {"s": 1.7 * area, "c": "none", "edgecolors": TARGET, "linewidths": 1.2}),
    ]
    for zorder, (nodes, style) in enumerate(styles, 2):
        # Not clipped: equal scales may take the margins away, and a node at the border would be cut.
        axes.scatter(*position[nodes].T, zorder=zorder, clip_on=False, **style)
    axes.margins(0.08)
    axes.set_aspect("equal", adjustable="datalim")


def _number(value: Any) -> str:
    return f"{round(float(value), 2) + 0.0:g}"  # + 0.0: no "-0"


def save(figure: Figure, path: str | Path) -> None:
    """Writes a figure to a file, atomically, in the format of its suffix (PNG if it has none).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Figure(figsize=(1, 1)), Path(folder) / "empty.png")
    ...     [path.name for path in Path(folder).iterdir()]
    ['empty.png']
    """
    path = Path(path)
    write_atomically(path, lambda temporary: figure.savefig(temporary, format=path.suffix[1:] or "png"))
