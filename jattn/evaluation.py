"""Scores of many seeds on the subsets of a test set."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jraph
import numpy as np
from jaxtyping import Bool
from jraph import GraphsTuple

from jattn.losses import Task
from jattn.metrics import accuracy, attention_auc
from jattn.training import AnyArray, Predictions


def join(subsets: Mapping[str, GraphsTuple]) -> GraphsTuple:
    """All subsets as one host-side split, in their order."""
    return jraph.batch_np(list(subsets.values()))


def score(
    predictions: Predictions,
    subsets: Mapping[str, GraphsTuple],
    task: Task,
) -> dict[str, Any]:
    """Accuracy and attention AUC of every subset and of all together, in per cent.

    Args:
      predictions: of `join(subsets)`, arrays [seeds, ...].
      subsets: host-side splits with their true labels and attention.
      task: what is predicted.

    Returns:
      For each subset and "all": {"accuracy": spread, "attention_auc": [spread of each pooling layer], "graphs": n},
      where a spread is that of `spread`. The first layer's AUC is over all nodes, a later one's over those still kept.
    """
    graphs = join(subsets)
    ranges: dict[str, tuple[slice, slice]] = {}
    first_graph = first_node = 0
    for name, subset in subsets.items():
        end_graph, end_node = first_graph + len(subset.n_node), first_node + int(np.sum(subset.n_node))
        ranges[name] = slice(first_graph, end_graph), slice(first_node, end_node)
        first_graph, first_node = end_graph, end_node
    ranges["all"] = slice(None), slice(None)

    label, truth = graphs.globals["label"], graphs.nodes["attention"]
    with ThreadPoolExecutor() as threads:  # sorting, which is most of an AUC, lets other threads run

        def auc(alpha: AnyArray, mask: AnyArray, nodes: slice) -> dict[str, Any]:
            return spread(list(threads.map(lambda a, m: attention_auc(a[nodes], truth[nodes], m[nodes]), alpha, mask)))

        return {
            name: {
                "accuracy": spread([accuracy(p[of_graphs], label[of_graphs], task) for p in predictions.prediction]),
                "attention_auc": [
                    auc(*layer, nodes) for layer in zip(predictions.attention, present(predictions), strict=True)
                ],
                "graphs": len(label[of_graphs]),
            }
            for name, (of_graphs, nodes) in ranges.items()
        }


def present(predictions: Predictions) -> list[Bool[np.ndarray, "seeds nodes"]]:
    """The nodes that entered each pooling layer: all, then those that the one before kept."""
    layers = [np.asarray(kept) for kept in predictions.kept]
    return [np.ones_like(kept) for kept in layers[:1]] + layers[:-1]


def spread(values: list[float]) -> dict[str, Any]:
    """{"mean", "std" (ddof 0), "values"} of one number a seed; mean and std are NaN unless all are finite."""
    numbers = np.asarray(values, float)
    numbers = numbers if np.isfinite(numbers).all() else np.full_like(numbers, np.nan)
    return {"mean": float(numbers.mean()), "std": float(numbers.std()), "values": [float(v) for v in values]}
