"""Pictures of a run: training curves, accuracy by size and label, attention on nodes of graphs, and trials of a study.

Functions make a matplotlib `Figure`, which `save` writes; pyplot's global state is left alone.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Num
from jraph import GraphsTuple
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogFormatter, LogLocator, MaxNLocator, NullLocator
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist

from jattn.files import write_atomically
from jattn.proximity import Proximity

CURVES = ("#2a6f97", "#e07a1f", "#4c956c", "#8e5ea2", "#c1436d")  # one a pooling layer or subset
ATTENTION = LinearSegmentedColormap.from_list("attention", ["#e3edf5", "#7fb2d6", "#2a6f97", "#0b2540"])
TARGET, DROPPED, EDGE = "#e4572e", "#a9a9a9", "#8c8c8c"
TRAINED = "0.92"  # the span of sizes trained on
MEASURED = ("trial", "score", "mean", "std", "seconds")  # what a row of a study has besides settings


def training_figure(lines: Sequence[Mapping[str, Any]]) -> Figure:
    """Loss, accuracy and attention AUC by epoch, a row for each stage: mean over seeds, and each seed faintly.

    Args:
      lines: the lines of a run's `metrics.jsonl`. Each has "stage", "epoch", "loss", "accuracy" (per cent) and, where
        it was measured, "attention_auc" (per cent, a list with one entry a pooling layer); a quantity is
        {"mean": number, "values": [one a seed]}, None standing for NaN.

    Returns:
      The figure. A stage without attention AUC has two panels.
    """
    stages = list(dict.fromkeys(line["stage"] for line in lines))
    keys = ["loss", "accuracy"] + ["attention_auc"] * any(line.get("attention_auc") for line in lines)
    figure = Figure(figsize=(3.1 * len(keys), 0.5 + 2.2 * max(len(stages), 1)), dpi=130, layout="constrained")
    grid = figure.add_gridspec(max(len(stages), 1), len(keys))
    for row, stage in enumerate(stages):
        of_stage = [line for line in lines if line["stage"] == stage]
        for column, key in enumerate(keys):
            if any(line.get(key) for line in of_stage):
                axes = figure.add_subplot(grid[row, column])
                _draw_curves(axes, of_stage, key)
                if column == 0:
                    axes.set_title(stage, loc="left", fontsize=11, fontweight="bold")
    seeds = max((len(line["loss"]["values"]) for line in lines), default=1)
    if seeds > 1:
        styles: dict[str, dict[str, Any]] = {
            f"mean of {seeds} seeds": {"linewidth": 1.5},
            "each seed": {"linewidth": 0.7, "alpha": 0.5},
        }
        handles = [Line2D([], [], color=CURVES[0], label=label, **style) for label, style in styles.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _draw_curves(axes: Axes, lines: Sequence[Mapping[str, Any]], key: str) -> None:
    """One quantity of one stage, a colour for each pooling layer; lines that lack it are passed over."""
    present = [(line["epoch"], line[key]) for line in lines if line.get(key)]
    layers = [curve if isinstance(curve, list) else [curve] for _, curve in present]
    epochs = [epoch for epoch, _ in present]
    marker = "." if len(epochs) < 20 else ""
    drawn = [np.zeros(0)]
    for layer in range(max(map(len, layers))):
        color = CURVES[layer % len(CURVES)]
        mean = np.array([curves[layer]["mean"] for curves in layers], float)  # [epochs]; None becomes NaN
        values = np.array([curves[layer]["values"] for curves in layers], float)  # [epochs, seeds]
        if values.shape[1] > 1:
            axes.plot(epochs, values, color=color, alpha=0.3, linewidth=0.7)
        axes.plot(epochs, mean, color=color, linewidth=1.5, marker=marker, label=f"pooling {layer + 1}")
        drawn += [mean, values.ravel()]
    finite = np.concatenate(drawn)
    finite = finite[np.isfinite(finite)]
    if key != "loss":
        axes.set_ylim(min(90, 10 * np.floor(finite.min(initial=90) / 10)), 101)
    elif (finite > 0).any():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))  # for ranges within a power of 10
    if max(map(len, layers)) > 1:
        axes.legend(loc="lower right", frameon=False, fontsize=8)
    axes.set_ylabel({"loss": "loss", "accuracy": "accuracy (%)", "attention_auc": "attention AUC (%)"}[key])
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    _set_style(axes)


def accuracy_figure(subsets: Mapping[str, Mapping[str, Any]], trained: tuple[int, int]) -> Figure:
    """Test accuracy against the number of nodes and against the label: mean and standard deviation over seeds.

    Args:
      subsets: what `evaluation.score` returns, or `results.json` holds, by the names to show; those that lack
        "by_nodes", as "all" does, are not drawn.
      trained: least and most nodes of a training graph, shown as a span.

    Returns:
      The figure. It has no panel of labels where no subset has "by_label".
    """
    subsets = {name: subset for name, subset in subsets.items() if "by_nodes" in subset}
    keys = ["nodes"] + ["label"] * any(subset["by_label"] for subset in subsets.values())
    figure = Figure(figsize=(0.7 + 3.6 * len(keys), 3.6), dpi=130, layout="constrained")
    panels = figure.subplots(1, len(keys), sharey=True, squeeze=False)[0]
    colors = dict(zip(subsets, cycle(CURVES), strict=False))
    for axes, key in zip(panels, keys, strict=True):
        for name, subset in subsets.items():
            _draw_parts(axes, subset[f"by_{key}"], key, colors[name])
        axes.set_xlabel({"nodes": "number of nodes", "label": "label"}[key])
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
        _set_style(axes)
    least, most = trained
    panels[0].axvspan(least - 0.5, most + 0.5, color=TRAINED, linewidth=0, zorder=0)
    sizes = [*trained, *(n for subset in subsets.values() for part in subset["by_nodes"] for n in part["nodes"])]
    if max(sizes) >= 10 * min(sizes) > 0:
        panels[0].set_xscale("log")
        panels[0].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panels[0].xaxis.set_major_formatter("{x:g}")
        panels[0].xaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("accuracy (%)")
    panels[0].set_ylim(-2, 102)  # all of it, so that runs can be compared
    seeds = max((len(subset["accuracy"]["values"]) for subset in subsets.values()), default=1)
    handles: list[Artist] = [
        Line2D([], [], color=color, marker="o", markersize=4, label=name) for name, color in colors.items()
    ]
    if seeds > 1:
        handles.append(Patch(color=CURVES[0], alpha=0.3, linewidth=0, label=f"± std of {seeds} seeds"))
    handles.append(Patch(color=TRAINED, label=f"trained on {least}" + f"-{most}" * (most > least) + " nodes"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3 * len(keys) - 1, frameon=False, fontsize=9)
    return figure


def _draw_parts(axes: Axes, parts: Sequence[Mapping[str, Any]], key: str, color: str) -> None:
    """Accuracy of one subset by label or size, with a band of one standard deviation within 0 to 100 %."""
    x = np.array([np.mean(part[key]) for part in parts])  # of a range, its middle
    accuracy = [part["accuracy"] for part in parts]
    mean, std = (np.array([spread[of] for spread in accuracy], float) for of in ("mean", "std"))  # None becomes NaN
    low, high = np.clip(mean - std, 0, 100), np.clip(mean + std, 0, 100)
    if len(x) == 1:  # too narrow for a band
        axes.vlines(x, low, high, color=color, alpha=0.4, linewidth=2)
    axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
    axes.plot(x, mean, color=color, linewidth=1.5, marker="o", markersize=4)


def _set_style(axes: Axes) -> None:
    axes.tick_params(which="both", labelsize=8)
    axes.grid(color="0.92", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def study_figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """The trials of a study: the score of each and the best so far, then scores against every setting.

    Args:
      rows: a trial each, at least one. All have "trial" (a number), "score", "mean" and "std" (per cent), and the same
        settings, each a number or a word.

    Returns:
      The figure. Settings whose values span a factor of 20 have a logarithmic axis.
    """
    settings = [name for name in rows[0] if name not in MEASURED]
    columns = min(1 + len(settings), 3)
    lines = -(-(1 + len(settings)) // columns)
    figure = Figure(figsize=(3.1 * columns, 0.3 + 2.5 * lines), dpi=130, layout="constrained")
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
    score = np.array([row["score"] for row in rows])
    best = int(score.argmax())
    for axes, name in zip(panels, ["trial", *settings], strict=False):
        values = [row[name] for row in rows]
        if name == "trial":
            axes.plot(values, np.maximum.accumulate(score), color=CURVES[0], linewidth=1, label="best so far")
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        elif not isinstance(values[0], str) and min(values) > 0 and max(values) >= 20 * min(values):
            axes.set_xscale("log")
        axes.scatter(values, score, s=14, color=CURVES[0], alpha=0.7, linewidths=0)
        axes.scatter(values[best : best + 1], score[best : best + 1], s=26, color=CURVES[1], label="best", zorder=3)
        axes.set_xlabel(name.replace("_", " "))
        axes.margins(x=0.08)
        _set_style(axes)
    for axes in panels[1 + len(settings) :]:
        axes.set_axis_off()
    for axes in panels[::columns]:
        axes.set_ylabel("mean - std (%)")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def attention_figure(
    graphs: GraphsTuple,
    prediction: Num[np.ndarray, " graphs"],
    attention: Float[np.ndarray, " nodes"],
    kept: Bool[np.ndarray, " nodes"],
    ids: Sequence[int],
    titles: Sequence[str] = (),
    position: Float[np.ndarray, "nodes 2"] | None = None,
) -> Figure:
    """Some graphs of a split, nodes coloured by attention relative to the largest of their graph.

    Nodes with target attention have a ring, dropped nodes are small and hollow. Heavier edges are darker.

    Args:
      graphs: the split, on the host.
      prediction: a number or a class for each graph.
      attention: alpha of one pooling layer.
      kept: nodes which that layer kept.
      ids: the graphs to draw, at least one.
      titles: a name for each of them, put in front of what the panel's title says anyway.
      position: where to draw the nodes, x to the right and y upwards; found from the edges where not given.

    Returns:
      The figure, one panel a graph and then a colour bar.

    Raises:
      ValueError: there is nothing to draw, an id is out of range, edges are not listed, or there are not as many titles
        as ids.
    """
    total = len(graphs.n_node)
    if not len(ids) or not all(0 <= i < total for i in ids):
        raise ValueError(f"ids: expected at least one graph, each from 0 to {total - 1}, got {list(ids)}")
    if len(titles) not in (0, len(ids)):
        raise ValueError(f"titles: expected none or {len(ids)}, one per graph, got {len(titles)}")
    if isinstance(graphs.edges, Proximity):
        raise ValueError("graphs: their edges follow from positions; `list_edges` lists them")
    columns = min(len(ids), 5)
    rows = -(-len(ids) // columns)
    figure = Figure(figsize=(0.9 + 2.1 * max(columns, 2), 0.5 + 2.5 * rows), dpi=130)
    figure.set_layout_engine(ConstrainedLayoutEngine(wspace=0.08))
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels:
        axes.set_axis_off()
    node, edge = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in (graphs.n_node, graphs.n_edge))
    for axes, name, i in zip(panels, titles or [""] * len(ids), ids, strict=False):
        nodes, edges = slice(node[i], node[i + 1]), slice(edge[i], edge[i + 1])
        ends = np.stack([graphs.senders[edges], graphs.receivers[edges]], 1) - node[i]
        where = _layout(int(graphs.n_node[i]), ends) if position is None else position[nodes]
        target = graphs.nodes["attention"][nodes] > 0
        _draw_graph(axes, where, ends, graphs.edges[edges], attention[nodes], kept[nodes], target)
        size = f"{graphs.n_node[i]} {'node' if graphs.n_node[i] == 1 else 'nodes'}"
        answer = f"label {_number(graphs.globals['label'][i])}, predicted {_number(prediction[i])}"
        axes.set_title(f"{name}: {size}\n{answer}" if name else f"{size}\n{answer}", fontsize=9)
    bar = figure.colorbar(
        ScalarMappable(cmap=ATTENTION), ax=panels, shrink=0.7, pad=0.01, aspect=25 * max(rows / 2, 0.6)
    )
    bar.set_label("attention / largest of the graph", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    _draw_key(figure, rings=bool((graphs.nodes["attention"] > 0).any()))
    return figure


def _draw_key(figure: Figure, rings: bool) -> None:
    """Says what the marks of nodes mean, and rings where there are some."""
    styles: dict[str, dict[str, Any]] = {
        "kept": {"markersize": 7, "color": ATTENTION(0.6)},
        "dropped": {"markersize": 4, "markerfacecolor": "white", "markeredgecolor": DROPPED},
    }
    if rings:
        ring = {"markersize": 9, "fillstyle": "none", "color": TARGET, "markeredgewidth": 1.5}
        styles["has target attention"] = ring
    handles = [Line2D([], [], marker="o", linestyle="", label=label, **style) for label, style in styles.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def _draw_graph(
    axes: Axes,
    position: Float[np.ndarray, "nodes 2"],
    ends: Int[np.ndarray, "edges 2"],
    weights: Float[np.ndarray, " edges"],
    attention: Float[np.ndarray, " nodes"],
    kept: Bool[np.ndarray, " nodes"],
    target: Bool[np.ndarray, " nodes"],
) -> None:
    area = np.clip(2500 / max(len(attention), 1), 14, 70)
    relative = np.nan_to_num(attention) / max(np.nan_to_num(attention).max(initial=0), 1e-30)
    once = ends[:, 0] < ends[:, 1]
    ends, weights = ends[once], weights[once]
    opacity = 0.7 * weights / max(weights.max(initial=0), 1e-30) * np.where(kept[ends].all(1), 1, 0.4)
    axes.add_collection(LineCollection(position[ends], colors=[(EDGE, a) for a in opacity], linewidths=0.6, zorder=1))
    axes.scatter(
        position[~kept, 0], position[~kept, 1], s=0.3 * area, c="white", edgecolors=DROPPED, linewidths=0.6, zorder=2
    )
    color = ATTENTION(relative[kept])
    axes.scatter(position[kept, 0], position[kept, 1], s=area, c=color, edgecolors="0.35", linewidths=0.4, zorder=3)
    axes.scatter(
        position[target, 0], position[target, 1], s=1.7 * area, c="none", edgecolors=TARGET, linewidths=1.2, zorder=4
    )
    axes.margins(0.08)
    axes.set_aspect("equal", adjustable="datalim")


def _layout(count: int, ends: Int[np.ndarray, "edges 2"], steps: int = 100) -> Float[np.ndarray, "nodes 2"]:
    r"""Positions whose distances are near the lengths d of shortest paths: the energy of Kamada and Kawai (1989).

    .. math:: x_i \gets \sum_j w_{ij} (x_j + d_{ij} \frac{x_i - x_j}{|x_i - x_j|}) / \sum_j w_{ij}, \quad w = d^{-2}

    repeated from classical scaling on, a little damped since a pair would swap for ever. A graph of 200 nodes takes
    0.05 s, networkx's `kamada_kawai_layout` 0.4 to 5 s. No `eigh` for the start: on busy cores it takes 1 s.
    """
    if count < 2:
        return np.zeros((count, 2))
    adjacency = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
    d = shortest_path(adjacency, unweighted=True)
    apart = np.isinf(d)
    d[apart] = 1 + 0.7 * d[~apart].max()  # keeps components apart without sending them far away
    gram = -(d**2 - (d**2).mean(0) - (d**2).mean(1, keepdims=True) + (d**2).mean()) / 2
    noise = np.random.default_rng(0).normal(size=(count, 2))
    q = noise
    for _ in range(20):  # its two first eigenvectors
        q, r = np.linalg.qr(gram @ q)
    x = q * np.sqrt(np.abs(np.diag(r))) + 0.05 * noise  # the noise parts nodes with the same neighbours
    w = 1 / (d + np.eye(count)) ** 2 - np.eye(count)
    for _ in range(steps):
        pull = w * d / np.maximum(cdist(x, x), 1e-9)
        wanted = (w @ x + pull.sum(1, keepdims=True) * x - pull @ x) / w.sum(1, keepdims=True)
        x += 0.8 * (wanted - x)
    _, _, turn = np.linalg.svd(x - x.mean(0), full_matrices=False)
    return (x - x.mean(0)) @ turn.T  # the longer side lies flat


def _number(value: Any) -> str:
    return f"{round(float(value), 2) + 0.0:g}"  # + 0.0: no "-0"


def save(figure: Figure, path: Path) -> None:
    """Writes a figure to a file, atomically."""
    write_atomically(path, lambda temporary: figure.savefig(temporary, format=path.suffix[1:] or "png"))
