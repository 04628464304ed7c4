"""Scores of many seeds on the subsets of a test set."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jraph
import numpy as np
from jaxtyping import Bool, Float, Int, Num
from jraph import GraphsTuple

from jattn._options import expect_mask
from jattn.evaluation._metrics import (
    RegressionErrors,
    accuracy,
    are_counts,
    attention_auc,
    matthews_correlation,
    predicted_classes,
    regression_errors,
)
from jattn.graphs import labels
from jattn.training import Predictions
from jattn.types import AnyArray, Task

MAX_LABELS = 20  # of a subset whose accuracy is given by label
MAX_RANGES = 8  # of numbers of nodes


def join(subsets: Mapping[str, GraphsTuple]) -> GraphsTuple:
    """All subsets as one host-side split, in their order.

    >>> from jattn import from_arrays
    >>> subsets = {"small": from_arrays([[1.0]], [], []), "large": from_arrays([[1.0], [2.0]], [], [])}
    >>> join(subsets).n_node.tolist()
    [1, 2]
    """
    return jraph.batch_np(list(subsets.values()))


def evaluate(
    predictions: Predictions,
    subsets: Mapping[str, GraphsTuple],
    task: Task,
    test_mask: Bool[np.ndarray, "seeds graphs"] | None = None,
) -> dict[str, Any]:
    """Accuracy, attention AUC and nodes kept by pooling, for each subset and for all together, in per cent.

    Args:
      predictions: for `join(subsets)`, arrays [seeds, ...].
      subsets: host-side splits with their true labels and attention.
      task: what is predicted.
      test_mask: the graphs of `join(subsets)` on which each seed is tested. Default: all.

    Returns:
      For each subset and for "all", where each score is a `mean_std`:
      {"accuracy": score; for a regression whose labels are not all integers, here and below, in its place
       "mae", "rmse" and "r2": scores of `regression_errors` in units of the label,
       "graphs": number of graphs, the mean over seeds,
       "attention_auc": [score of each pooling layer], over all nodes for the first layer, over nodes still kept for
         later ones; empty if no node of any subset has target attention,
       "nodes_kept": [score of each pooling layer], the share of all nodes that it keeps,
       "graphs_emptied": [score of each pooling layer], the share of graphs of which it keeps no node,
       and for classification "balanced_accuracy": score, the mean of the accuracies of the classes that occur,
       "matthews_correlation": score,
       "majority_accuracy": score of always predicting the largest class,
       "predicted": [score of each class], the share of graphs for which it is predicted}.
      A subset also has, in ascending order and without empty ones,
      "by_label": [{"label": k, "accuracy": score, "graphs": n}, ...], empty if there are over `MAX_LABELS` labels,
      "by_nodes": [{"nodes": [fewest, most], "accuracy": score, "graphs": n}, ...], ranges of about as many graphs each.

    >>> from jattn import from_arrays
    >>> subset = jraph.batch_np([from_arrays([[1.0]], [], [], label=label) for label in (0, 1)])
    >>> predictions = Predictions(np.array([[[2.0, 0.0], [1.0, 0.0]]]), attention=(), node_masks=())
    >>> evaluate(predictions, {"test": subset}, "classification")["test"]["accuracy"]
    {'mean': 50.0, 'std': 0.0, 'values': [50.0]}
    """
    graphs = join(subsets)
    label, n_node = labels(graphs), graphs.n_node
    test_mask = np.ones((len(predictions.prediction), len(label)), bool) if test_mask is None else test_mask
    for i, mask in enumerate(test_mask):
        expect_mask(f"test_mask[{i}]", mask, len(label), "graph")
    test_set = _TestSet(predictions.prediction, label, n_node, task, test_mask)
    ranges = _ranges(subsets)
    aucs = _attention_aucs(predictions, graphs, test_mask, ranges)
    nodes_kept = [_nodes_kept(np.asarray(mask), n_node) for mask in predictions.node_masks]  # each [seeds, graphs]
    emptied = [(count == 0) & (n_node > 0) for count in nodes_kept]
    scores: dict[str, dict[str, Any]] = {}
    for name, (graph_range, _) in ranges.items():
        chosen = np.arange(len(label))[graph_range]
        ids = test_set.ids(chosen)
        scores[name] = test_set.score(chosen) | {
            "attention_auc": aucs[name],
            "nodes_kept": [_percentage(count, n_node, ids) for count in nodes_kept],
            "graphs_emptied": [_percentage(mask, np.ones_like(n_node), ids) for mask in emptied],
        }
        if task == "classification":
            scores[name] |= test_set.score_classes(chosen)
        if name != "all":
            scores[name] |= test_set.score_by_label(chosen) | test_set.score_by_nodes(chosen)
    return scores


class _TestSet(NamedTuple):
    """Predictions for all graphs of all subsets, and the graphs on which each seed is tested."""

    prediction: Float[AnyArray, "seeds graphs outputs"]
    label: Num[np.ndarray, " graphs"]
    n_node: Int[np.ndarray, " graphs"]
    task: Task
    test_mask: Bool[np.ndarray, "seeds graphs"]

    def ids(self, chosen: Int[np.ndarray, " chosen"]) -> list[Int[np.ndarray, " _"]]:
        """The chosen graphs on which each seed is tested."""
        return [chosen[mask[chosen]] for mask in self.test_mask]

    def score(self, chosen: Int[np.ndarray, " chosen"]) -> dict[str, Any]:
        """Accuracy or regression errors on the chosen graphs, and the number of graphs."""
        ids = self.ids(chosen)
        pairs = [(prediction[i], self.label[i]) for prediction, i in zip(self.prediction, ids, strict=True)]
        graphs = {"graphs": round(np.mean([len(i) for i in ids]))}
        if self.task == "classification" or are_counts(self.label):
            return {"accuracy": mean_std([accuracy(*pair, self.task) for pair in pairs])} | graphs
        errors = np.array([regression_errors(*pair) for pair in pairs])  # [seeds, errors]
        names = RegressionErrors._fields
        return {name: mean_std(values.tolist()) for name, values in zip(names, errors.T, strict=True)} | graphs

    def score_classes(self, chosen: Int[np.ndarray, " chosen"]) -> dict[str, Any]:
        """Scores that tell a good classifier from one that always predicts the largest class."""
        ids = self.ids(chosen)
        logits = [np.asarray(prediction)[i] for prediction, i in zip(self.prediction, ids, strict=True)]
        predicted = [predicted_classes(x) for x in logits]
        labels = [self.label[i] for i in ids]
        recalls = [
            [100 * float(np.mean(classes[label == k] == k)) for k in np.unique(label)]
            for classes, label in zip(predicted, labels, strict=True)
        ]
        majorities = [np.bincount(label.astype(int), minlength=1).argmax() for label in labels]
        return {
            "balanced_accuracy": mean_std([_mean(recall) for recall in recalls]),
            "matthews_correlation": mean_std(list(map(matthews_correlation, logits, labels))),
            "majority_accuracy": mean_std(
                [_mean(100.0 * (label == majority)) for label, majority in zip(labels, majorities, strict=True)]
            ),
            "predicted": [
                mean_std([_mean(100.0 * (classes == k)) for classes in predicted])
                for k in range(self.prediction.shape[-1])
            ],
        }

    def score_by_label(self, chosen: Int[np.ndarray, " chosen"]) -> dict[str, Any]:
        """Scores of the chosen graphs of each label, unless there are too many labels."""
        labels = self.label[chosen]
        distinct = np.unique(labels)
        if len(distinct) > MAX_LABELS or not are_counts(labels):
            return {"by_label": []}
        return {"by_label": [{"label": k.item(), **self.score(chosen[labels == k])} for k in distinct]}

    def score_by_nodes(self, chosen: Int[np.ndarray, " chosen"]) -> dict[str, Any]:
        """Scores of the chosen graphs of each range of numbers of nodes."""
        sizes = self.n_node[chosen]
        step = max(-(-len(sizes) // MAX_RANGES), 1)
        starts = np.unique(np.sort(sizes)[::step])  # fewer ranges if many graphs share a size
        size_range = np.searchsorted(starts, sizes, side="right") - 1
        parts = [np.flatnonzero(size_range == i) for i in range(len(starts))]
        return {
            "by_nodes": [
                {"nodes": [int(sizes[part].min()), int(sizes[part].max())], **self.score(chosen[part])}
                for part in parts
            ]
        }


def _attention_aucs(
    predictions: Predictions,
    graphs: GraphsTuple,
    test_mask: Bool[np.ndarray, "seeds graphs"],
    ranges: Mapping[str, tuple[slice, slice]],
) -> dict[str, list[dict[str, Any]]]:
    """Attention AUC of every pooling layer, by range of nodes; empty lists if no node has target attention."""
    target = graphs.nodes["attention"]
    if not (target > 0).any():
        return {name: [] for name in ranges}
    tested = np.repeat(test_mask, graphs.n_node, axis=1)
    masks = [mask & tested for mask in entered_masks(predictions)]
    layers = [(np.asarray(alpha), mask) for alpha, mask in zip(predictions.attention, masks, strict=True)]
    with ThreadPoolExecutor() as threads:  # most of an AUC is sorting, during which other threads run

        def auc(alpha: AnyArray, mask: AnyArray, nodes: slice) -> dict[str, Any]:
            values = threads.map(lambda a, m: attention_auc(a[nodes], target[nodes], m[nodes]), alpha, mask)
            return mean_std(list(values))

        return {name: [auc(*layer, nodes) for layer in layers] for name, (_, nodes) in ranges.items()}


def _nodes_kept(
    node_mask: Bool[np.ndarray, "seeds nodes"], n_node: Int[np.ndarray, " graphs"]
) -> Int[np.ndarray, "seeds graphs"]:
    """Number of nodes of each graph in a mask."""
    cumulative = np.pad(np.cumsum(node_mask, axis=1, dtype=np.int32), ((0, 0), (1, 0)))
    end = np.cumsum(n_node)
    return cumulative[:, end] - cumulative[:, end - n_node]


def _percentage(
    part: Num[np.ndarray, "seeds graphs"] | Bool[np.ndarray, "seeds graphs"],
    whole: Num[np.ndarray, " graphs"],
    ids: Sequence[Int[np.ndarray, " _"]],
) -> dict[str, Any]:
    """Sum of `part` as a percentage of the sum of `whole`, over the graphs of each seed."""
    sums = [(counts[i].sum(), whole[i].sum()) for counts, i in zip(part, ids, strict=True)]
    return mean_std([100 * float(a / b) if b else float("nan") for a, b in sums])


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def entered_masks(predictions: Predictions) -> list[Bool[np.ndarray, "seeds nodes"]]:
    """Masks of the nodes that entered each pooling layer: all, then those that the layer before kept."""
    layers = [np.asarray(mask) for mask in predictions.node_masks]
    return [np.ones_like(mask) for mask in layers[:1]] + layers[:-1]


def mean_std(values: Sequence[float]) -> dict[str, Any]:
    """Mean and standard deviation (ddof 0) of one number per seed; both are NaN unless all numbers are finite.

    >>> mean_std([90.0, 100.0])
    {'mean': 95.0, 'std': 5.0, 'values': [90.0, 100.0]}
    """
    numbers = np.asarray(values, float)
    if not numbers.size or not np.isfinite(numbers).all():
        return {"mean": float("nan"), "std": float("nan"), "values": numbers.tolist()}
    return {"mean": float(numbers.mean()), "std": float(numbers.std()), "values": numbers.tolist()}


def _ranges(subsets: Mapping[str, GraphsTuple]) -> dict[str, tuple[slice, slice]]:
    """The graphs and the nodes of each subset in `join(subsets)`, and of "all"."""
    ranges, graph, node = {}, 0, 0
    for name, subset in subsets.items():
        end_graph, end_node = graph + len(subset.n_node), node + int(np.sum(subset.n_node))
        ranges[name] = slice(graph, end_graph), slice(node, end_node)
        graph, node = end_graph, end_node
    return {**ranges, "all": (slice(0, graph), slice(0, node))}
