"""Sample graphs of a run: the test graphs that its report shows, with the first network's predictions and attention.

`samples.npz` has arrays [graphs, ...], [nodes, ...] of all these graphs one after another, and [edges, ...], each edge
once. Up to half of the graphs of every subset are ones that are predicted wrong. Large graphs are left out, and the
number of graphs is limited, so that a report stays small.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from jaxtyping import Bool, Float, Int
from jraph import GraphsTuple
from scipy.special import softmax

from jattn.evaluation import join
from jattn.evaluation._metrics import is_correct
from jattn.graphs import Proximity
from jattn.io import read_arrays, write_arrays
from jattn.io._files import expect_format
from jattn.plots._layout import stress_layout
from jattn.training import Predictions
from jattn.types import Task

from .folder import RunError

SAMPLES, FORMAT = "samples.npz", 1
GRAPHS, NODES, EDGES = 120, 10_000, 30_000  # at most, of all samples together
MAX_NODES, MAX_EDGES = 300, 2_500  # of one graph
OF_ALL = ("task", "trained", "subsets", "tested", "correct_of_tested")
OF_NODES = ("n_node", "attention", "node_mask", "target", "position", "channels")
OF_GRAPHS = ("n_edge", "edges", "subset", "number", "label", "prediction", "error", "correct")


class NodeView(NamedTuple):
    """What is drawn of the nodes of graphs that are images.

    Attributes:
      position: x to the right and y upwards.
      channels: intensities from 0 to 1, 1 channel (gray) or 3 (red, green, blue).
    """

    position: Float[np.ndarray, "nodes 2"]
    channels: Float[np.ndarray, "nodes channels"]


View = Callable[[GraphsTuple], NodeView]


def write_samples(
    folder: Path,
    subsets: Mapping[str, GraphsTuple],
    predictions: Predictions,
    task: Task,
    trained: tuple[int, int],
    test_mask: Bool[np.ndarray, " graphs"] | None = None,
    view: View | None = None,
) -> None:
    """Writes `samples.npz`, atomically.

    Args:
      folder: the run's.
      subsets: the evaluated subsets, on the host.
      predictions: predictions for `join(subsets)`, arrays [networks, ...]; those of the first network are kept.
      task: what is predicted.
      trained: the smallest and largest number of nodes of a training graph.
      test_mask: the graphs that the first network is tested on; None for all.
      view: positions and colors of nodes; by default positions follow from edges.
    """
    graphs = join(subsets)
    subset = np.repeat(np.arange(len(subsets)), [len(one.n_node) for one in subsets.values()])
    output, label = np.asarray(predictions.prediction[0]), graphs.globals["label"]
    correct = is_correct(output, label, task)
    tested = np.ones(len(label), bool) if test_mask is None else test_mask
    ids = _choose(graphs, subset, correct, tested)
    answers, error = _answers(output, label, task)
    number = np.arange(len(label)) - np.searchsorted(subset, subset)  # within the subset
    edges = _edges(graphs, ids)
    position, channels = _drawn(graphs, ids, edges, view)
    nodes = _nodes(graphs, ids)
    layers = len(predictions.attention)
    arrays = {
        "format": FORMAT,
        "task": task,
        "trained": np.array(trained),
        "subsets": np.array(list(subsets)),
        "tested": np.bincount(subset[tested], minlength=len(subsets)),
        "correct_of_tested": np.bincount(subset[tested & correct], minlength=len(subsets)),
        "attention": np.stack([np.asarray(x[0])[nodes] for x in predictions.attention], 1).astype(np.float32)
        if layers
        else np.zeros((len(nodes), 0), np.float32),
        "node_mask": np.stack([np.asarray(x[0])[nodes] for x in predictions.node_masks], 1)
        if layers
        else np.zeros((len(nodes), 0), bool),
        "target": np.asarray(graphs.nodes["attention"])[nodes].astype(np.float32),
        "position": position.astype(np.float32),
        "channels": channels.astype(np.float32),
        "n_node": graphs.n_node[ids],
        "n_edge": np.array([len(ends) for ends in edges], int),
        "edges": np.concatenate([np.zeros((0, 2), int), *edges]),
        "subset": subset[ids],
        "number": number[ids],
        "label": label[ids],
        "prediction": answers[ids],
        "error": error[ids],
        "correct": correct[ids],
    }
    write_arrays(folder / SAMPLES, arrays)


def read_samples(folder: Path) -> dict[str, np.ndarray] | None:
    """Returns the arrays of `samples.npz`; None if a run has none, as those of older versions.

    Raises:
      RunError: the file is damaged, or of another format.
    """
    file = folder / SAMPLES
    remedy = "remove it, and the report leaves sample graphs out"
    try:
        found = read_arrays(file)
    except FileNotFoundError:
        return None
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        raise RunError(f"{file}: damaged ({error}); {remedy}") from error
    number = found.get("format")
    expect_format(file, None if number is None else int(number), FORMAT, remedy, RunError)
    if missing := {*OF_ALL, *OF_NODES, *OF_GRAPHS} - found.keys():
        raise RunError(f"{file}: it has no {', '.join(sorted(missing))}; {remedy}")
    return found


def evenly_by_size(ids: Int[np.ndarray, " _"], n_node: Int[np.ndarray, " graphs"], count: int) -> Int[np.ndarray, " _"]:
    """Returns so many of some graphs, evenly spaced in order of size; all of them if there are no more."""
    by_size = ids[np.argsort(n_node[ids], kind="stable")]
    return by_size[np.unique(np.linspace(0, len(by_size) - 1, min(count, len(by_size))).round().astype(int))]


def _choose(
    graphs: GraphsTuple,
    subset: Int[np.ndarray, " graphs"],
    correct: Bool[np.ndarray, " graphs"],
    tested: Bool[np.ndarray, " graphs"],
) -> Int[np.ndarray, " chosen"]:
    """The graphs to keep, subset after subset in order of size; a half of each are wrong ones if there are enough."""
    listed = not isinstance(graphs.edges, Proximity)
    n_edge = np.asarray(graphs.n_edge) // 2 if listed else np.zeros_like(graphs.n_node)
    allowed = tested & (graphs.n_node <= MAX_NODES) & (n_edge <= MAX_EDGES)
    subsets, count = np.unique(subset), GRAPHS
    while True:
        each, chosen = max(count // max(len(subsets), 1), 2), [np.zeros(0, int)]
        for one in subsets:
            right, wrong = (np.flatnonzero(allowed & (subset == one) & mask) for mask in (correct, ~correct))
            wrong = evenly_by_size(wrong, graphs.n_node, max(each // 2, each - len(right)))
            right = evenly_by_size(right, graphs.n_node, each - len(wrong))
            both = np.concatenate([right, wrong])
            chosen.append(both[np.argsort(graphs.n_node[both], kind="stable")])
        ids = np.concatenate(chosen)
        if each == 2 or (graphs.n_node[ids].sum() <= NODES and n_edge[ids].sum() <= EDGES):
            return ids
        count = count * 3 // 4


def _answers(output: np.ndarray, label: np.ndarray, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """The prediction of each graph, a number or a class, and its error.

    The error of a number is its distance from the label, that of a class is 1 - the probability of the label.
    """
    if task == "regression":
        return output[:, 0], np.abs(output[:, 0] - label)
    with np.errstate(invalid="ignore"):  # of a network that diverged
        probability = softmax(output, -1)
    return output.argmax(-1), 1 - probability[np.arange(len(label)), label.astype(int)]


def _nodes(graphs: GraphsTuple, ids: Int[np.ndarray, " chosen"]) -> Int[np.ndarray, " nodes"]:
    """The nodes of some graphs, graph after graph."""
    end = np.cumsum(graphs.n_node)
    return np.concatenate([np.zeros(0, int), *(np.arange(end[i] - graphs.n_node[i], end[i]) for i in ids)])


def _edges(graphs: GraphsTuple, ids: Int[np.ndarray, " chosen"]) -> list[Int[np.ndarray, "edges 2"]]:
    """The ends of the edges of some graphs, each edge once; none where edges follow from positions."""
    if isinstance(graphs.edges, Proximity):
        return [np.zeros((0, 2), int) for _ in ids]
    node_end, edge_end, found = np.cumsum(graphs.n_node), np.cumsum(graphs.n_edge), []
    for i in ids:
        edges = slice(edge_end[i] - graphs.n_edge[i], edge_end[i])
        ends = np.stack([graphs.senders[edges], graphs.receivers[edges]], 1) - (node_end[i] - graphs.n_node[i])
        found.append(ends[ends[:, 0] < ends[:, 1]])
    return found


def _drawn(graphs: GraphsTuple, ids: np.ndarray, edges: list[np.ndarray], view: View | None) -> NodeView:
    """Positions of the nodes of some graphs, and their colors if these are images."""
    if view is not None:
        whole, nodes = view(graphs), _nodes(graphs, ids)
        return NodeView(whole.position[nodes], whole.channels[nodes])
    layouts: list[Any] = [np.zeros((0, 2))]
    for i, ends in zip(ids, edges, strict=True):
        layouts.append(stress_layout(int(graphs.n_node[i]), np.concatenate([ends, ends[:, ::-1]])))
    position = np.concatenate(layouts)
    return NodeView(position, np.zeros((len(position), 0)))
