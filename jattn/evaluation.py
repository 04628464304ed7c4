"""Scores of many seeds on the subsets of a test set."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jraph
import numpy as np
from jaxtyping import Bool, Int, Num
from jraph import GraphsTuple

from jattn.losses import Task
from jattn.metrics import accuracy, attention_auc
from jattn.training import AnyArray, Predictions

MOST_LABELS = 20  # of a subset whose accuracy is given by label
MOST_RANGES = 8  # of numbers of nodes


def join(subsets: Mapping[str, GraphsTuple]) -> GraphsTuple:
    """All subsets as one host-side split, in their order."""
    return jraph.batch_np(list(subsets.values()))


def score(
    predictions: Predictions,
    subsets: Mapping[str, GraphsTuple],
    task: Task,
) -> dict[str, Any]:
    """Accuracy and attention AUC of every subset and of all together, in per cent.

    For each subset, accuracy is also given by label and against size: what counts is how it holds up on larger graphs.

    Args:
      predictions: of `join(subsets)`, arrays [seeds, ...].
      subsets: host-side splits with their true labels and attention.
      task: what is predicted.

    Returns:
      For each subset and "all": {"accuracy": spread, "graphs": n, "attention_auc": [spread of each pooling layer]},
      where a spread is that of `spread`. The first layer's AUC is over all nodes, a later one's over those still kept.
      A subset also has, in ascending order and without empty ones,
      "by_label": [{"label": k, "accuracy": spread, "graphs": n}, ...], empty where there are over `MOST_LABELS` labels,
      "by_nodes": [{"nodes": [least, most], "accuracy": spread, "graphs": n}, ...], ranges of about as many graphs each.
    """
    graphs = join(subsets)
    label, truth = graphs.globals["label"], graphs.nodes["attention"]
    ranges = _ranges(subsets)

    def right(chosen: slice | Int[np.ndarray, "chosen"]) -> dict[str, Any]:
        values = [accuracy(of_seed[chosen], label[chosen], task) for of_seed in predictions.prediction]
        return {"accuracy": spread(values), "graphs": len(label[chosen])}

    with ThreadPoolExecutor() as threads:  # sorting, which is most of an AUC, lets other threads run

        def auc(alpha: AnyArray, mask: AnyArray, nodes: slice) -> dict[str, Any]:
            return spread(list(threads.map(lambda a, m: attention_auc(a[nodes], truth[nodes], m[nodes]), alpha, mask)))

        scores = {
            name: {
                **right(of_graphs),
                "attention_auc": [
                    auc(*layer, nodes) for layer in zip(predictions.attention, present(predictions), strict=True)
                ],
            }
            for name, (of_graphs, nodes) in [*ranges.items(), ("all", (slice(None), slice(None)))]
        }
    for name, (of_graphs, _) in ranges.items():
        labels, n_node = label[of_graphs], graphs.n_node[of_graphs]
        distinct = np.unique(labels)
        distinct = distinct if len(distinct) <= MOST_LABELS else distinct[:0]
        scores[name]["by_label"] = [
            {"label": k.item(), **right(of_graphs.start + part)}
            for k, part in zip(distinct, _parts(labels, distinct), strict=True)
        ]
        scores[name]["by_nodes"] = [
            {"nodes": [int(n_node[part].min()), int(n_node[part].max())], **right(of_graphs.start + part)}
            for part in _parts(n_node, _size_starts(n_node))
        ]
    return scores


def present(predictions: Predictions) -> list[Bool[np.ndarray, "seeds nodes"]]:
    """The nodes that entered each pooling layer: all, then those that the one before kept."""
    layers = [np.asarray(kept) for kept in predictions.kept]
    return [np.ones_like(kept) for kept in layers[:1]] + layers[:-1]


def spread(values: list[float]) -> dict[str, Any]:
    """{"mean", "std" (ddof 0), "values"} of one number a seed; mean and std are NaN unless all are finite."""
    numbers = np.asarray(values, float)
    numbers = numbers if np.isfinite(numbers).all() else np.full_like(numbers, np.nan)
    return {"mean": float(numbers.mean()), "std": float(numbers.std()), "values": [float(v) for v in values]}


def _ranges(subsets: Mapping[str, GraphsTuple]) -> dict[str, tuple[slice, slice]]:
    """The graphs and the nodes of each subset in `join(subsets)`."""
    ranges, graph, node = {}, 0, 0
    for name, subset in subsets.items():
        end_graph, end_node = graph + len(subset.n_node), node + int(np.sum(subset.n_node))
        ranges[name] = slice(graph, end_graph), slice(node, end_node)
        graph, node = end_graph, end_node
    return ranges


def _parts(values: Num[np.ndarray, "values"], starts: Num[np.ndarray, "parts"]) -> list[Int[np.ndarray, "part"]]:
    """Indices of the values from each start up to the next one; starts ascend."""
    of_value = np.searchsorted(starts, values, side="right") - 1
    return [np.flatnonzero(of_value == i) for i in range(len(starts))]


def _size_starts(n_node: Int[np.ndarray, "graphs"]) -> Int[np.ndarray, "starts"]:
    """Least nodes of each range; sizes that many graphs share leave fewer ranges."""
    step = max(-(-len(n_node) // MOST_RANGES), 1)
    return np.unique(np.sort(n_node)[::step])
