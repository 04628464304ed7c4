"""Scores of many seeds on the subsets of a test set."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jraph
import numpy as np
from jaxtyping import Bool, Float, Int, Num
from jraph import GraphsTuple

from jattn._options import expect_mask
from jattn.evaluation._metrics import RegressionErrors, accuracy, are_counts, attention_auc, regression_errors
from jattn.training import AnyArray, Predictions, Task

MOST_LABELS = 20  # of a subset whose accuracy is given by label
MOST_RANGES = 8  # of numbers of nodes


def join(subsets: Mapping[str, GraphsTuple]) -> GraphsTuple:
    """All subsets as one host-side split, in their order."""
    return jraph.batch_np(list(subsets.values()))


def evaluate(
    predictions: Predictions,
    subsets: Mapping[str, GraphsTuple],
    task: Task,
    test_mask: Bool[np.ndarray, "seeds graphs"] | None = None,
) -> dict[str, Any]:
    """Accuracy and attention AUC of every subset and of all together, in per cent, and what pooling keeps.

    For each subset, accuracy is also given by label, where labels are whole numbers, and against size: what counts is
    how it holds up on larger graphs.

    Args:
      predictions: of `join(subsets)`, arrays [seeds, ...].
      subsets: host-side splits with their true labels and attention.
      task: what is predicted.
      test_mask: the graphs of `join(subsets)` that each seed is tested on; all where not given.

    Returns:
      For each subset and "all", where a spread is that of `mean_std`:
      {"accuracy": spread; for a regression whose labels are not all whole numbers, in its place
       "mae", "rmse" and "r2": spreads of `regression_errors`, in units of the label, as in all that follows,
       "graphs": n, the mean over seeds,
       "attention_auc": [spread of each pooling layer], over all nodes for the first layer, over those still kept for a
         later one; empty where no node of any subset has target attention,
       "nodes_kept": [spread of each pooling layer], the share of all nodes that it leaves,
       "graphs_emptied": [the same], the share of graphs that it leaves no node of,
       and for classification
       "balanced_accuracy": spread, the mean of the accuracies of each class that occurs,
       "majority_accuracy": spread, of always predicting the largest class,
       "predicted": [spread of each class], the share of graphs predicted to be of it}.
      A subset also has, in ascending order and without empty ones,
      "by_label": [{"label": k, "accuracy": spread, "graphs": n}, ...], empty where there are over `MOST_LABELS` labels,
      "by_nodes": [{"nodes": [least, most], "accuracy": spread, "graphs": n}, ...], ranges of about as many graphs each.
    """
    graphs = join(subsets)
    label, n_node, output = graphs.globals["label"], graphs.n_node, predictions.prediction
    if test_mask is None:
        test_mask = np.ones((len(output), len(label)), bool)
    for i, of_seed in enumerate(test_mask):
        expect_mask(f"counted[{i}]", of_seed, len(label), "graph")
    has_accuracy = task == "classification" or are_counts(label)
    ranges = _ranges(subsets)

    def own(chosen: Int[np.ndarray, "chosen"]) -> list[Int[np.ndarray, "_"]]:
        return [chosen[of_seed[chosen]] for of_seed in test_mask]

    def right(chosen: Int[np.ndarray, "chosen"]) -> dict[str, Any]:
        ids = own(chosen)
        parts = [(of_seed[i], label[i]) for of_seed, i in zip(output, ids, strict=True)]
        graphs = {"graphs": round(np.mean([len(i) for i in ids]))}
        if has_accuracy:
            return {"accuracy": mean_std([accuracy(*part, task) for part in parts]), **graphs}
        errors = [regression_errors(*part) for part in parts]
        names = RegressionErrors._fields
        return {name: mean_std(list(of)) for name, of in zip(names, zip(*errors, strict=True), strict=True)} | graphs

    aucs = _attention_aucs(predictions, graphs, test_mask, ranges)
    nodes_left = [_nodes_left(np.asarray(kept), n_node) for kept in predictions.node_masks]  # each [seeds, graphs]
    scores: dict[str, dict[str, Any]] = {}
    for name, (of_graphs, _) in ranges.items():
        chosen = np.arange(len(label))[of_graphs]
        ids = own(chosen)
        scores[name] = {
            **right(chosen),
            "attention_auc": aucs[name],
            "nodes_kept": [_percentage(layer, n_node, ids) for layer in nodes_left],
            "graphs_emptied": [
                _percentage((layer == 0) & (n_node > 0), np.ones_like(n_node), ids) for layer in nodes_left
            ],
        }
        if task == "classification":
            scores[name] |= _by_class(output, label, ids)
        if name != "all":
            scores[name] |= _by_label_and_size(label, n_node, chosen, right)
    return scores


def _by_label_and_size(
    label: Num[np.ndarray, " graphs"],
    n_node: Int[np.ndarray, " graphs"],
    chosen: Int[np.ndarray, " chosen"],
    right: Callable[[Int[np.ndarray, " _"]], dict[str, Any]],
) -> dict[str, Any]:
    """What `right` says of the chosen graphs of each label, where labels are not too many, and of ranges of sizes."""
    labels, sizes = label[chosen], n_node[chosen]
    distinct = np.unique(labels)
    distinct = distinct if len(distinct) <= MOST_LABELS and are_counts(labels) else distinct[:0]
    by_label = zip(distinct, _parts(labels, distinct), strict=True)
    by_size = _parts(sizes, _size_starts(sizes))
    return {
        "by_label": [{"label": k.item(), **right(chosen[part])} for k, part in by_label],
        "by_nodes": [
            {"nodes": [int(sizes[part].min()), int(sizes[part].max())], **right(chosen[part])} for part in by_size
        ],
    }


def _attention_aucs(
    predictions: Predictions,
    graphs: GraphsTuple,
    test_mask: Bool[np.ndarray, "seeds graphs"],
    ranges: Mapping[str, tuple[slice, slice]],
) -> dict[str, list[dict[str, Any]]]:
    """For each range of nodes the spread of every pooling layer's AUC; none where no node has target attention."""
    truth = graphs.nodes["attention"]
    if not (truth > 0).any():
        return {name: [] for name in ranges}
    of_counted = np.repeat(test_mask, graphs.n_node, axis=1)
    masks = [mask & of_counted for mask in entered_masks(predictions)]
    layers = [(np.asarray(alpha), mask) for alpha, mask in zip(predictions.attention, masks, strict=True)]
    with ThreadPoolExecutor() as threads:  # sorting, which is most of an AUC, lets other threads run

        def auc(alpha: AnyArray, mask: AnyArray, nodes: slice) -> dict[str, Any]:
            return mean_std(
                list(threads.map(lambda a, m: attention_auc(a[nodes], truth[nodes], m[nodes]), alpha, mask))
            )

        return {name: [auc(*layer, nodes) for layer in layers] for name, (_, nodes) in ranges.items()}


def _nodes_left(
    kept: Bool[np.ndarray, "seeds nodes"], n_node: Int[np.ndarray, " graphs"]
) -> Int[np.ndarray, "seeds graphs"]:
    """How many nodes of each graph are kept."""
    before = np.pad(np.cumsum(kept, axis=1, dtype=np.int32), ((0, 0), (1, 0)))  # of the first 0, 1, 2, ... nodes
    ends = np.cumsum(n_node)
    return before[:, ends] - before[:, ends - n_node]


def _percentage(
    part: Num[np.ndarray, "seeds graphs"] | Bool[np.ndarray, "seeds graphs"],
    whole: Num[np.ndarray, " graphs"],
    ids: Sequence[Int[np.ndarray, " _"]],
) -> dict[str, Any]:
    """The spread of what part makes of the whole, summed over each seed's own graphs, in per cent."""
    sums = [(of_seed[i].sum(), whole[i].sum()) for of_seed, i in zip(part, ids, strict=True)]
    return mean_std([100 * float(a / b) if b else float("nan") for a, b in sums])


def _by_class(
    output: Float[AnyArray, "seeds graphs classes"],
    label: Num[np.ndarray, " graphs"],
    ids: Sequence[Int[np.ndarray, " _"]],
) -> dict[str, Any]:
    """What tells a good classifier from one that predicts the largest class, on each seed's own graphs."""
    own = [np.asarray(of_seed)[i] for of_seed, i in zip(output, ids, strict=True)]
    predicted = [np.where(np.isfinite(logits).all(-1), logits.argmax(-1), -1) for logits in own]  # -1 is no class
    labels = [label[i] for i in ids]
    recalls = [
        [100 * float(np.mean(said[true == k] == k)) for k in np.unique(true)]
        for said, true in zip(predicted, labels, strict=True)
    ]
    return {
        "balanced_accuracy": mean_std([_mean(of_seed) for of_seed in recalls]),
        "majority_accuracy": mean_std(
            [_mean(100.0 * (true == np.bincount(true.astype(int), minlength=1).argmax())) for true in labels]
        ),
        "predicted": [mean_std([_mean(100.0 * (said == k)) for said in predicted]) for k in range(output.shape[-1])],
    }


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def entered_masks(predictions: Predictions) -> list[Bool[np.ndarray, "seeds nodes"]]:
    """The nodes that entered each pooling layer: all, then those that the one before kept."""
    layers = [np.asarray(kept) for kept in predictions.node_masks]
    return [np.ones_like(kept) for kept in layers[:1]] + layers[:-1]


def mean_std(values: list[float]) -> dict[str, Any]:
    """{"mean", "std" (ddof 0), "values"} of one number a seed; mean and std are NaN unless all are finite."""
    numbers = np.asarray(values, float)
    numbers = numbers if np.isfinite(numbers).all() else np.full_like(numbers, np.nan)
    return {"mean": float(numbers.mean()), "std": float(numbers.std()), "values": [float(v) for v in values]}


def _ranges(subsets: Mapping[str, GraphsTuple]) -> dict[str, tuple[slice, slice]]:
    """The graphs and the nodes of each subset in `join(subsets)`, and of "all"."""
    ranges, graph, node = {}, 0, 0
    for name, subset in subsets.items():
        end_graph, end_node = graph + len(subset.n_node), node + int(np.sum(subset.n_node))
        ranges[name] = slice(graph, end_graph), slice(node, end_node)
        graph, node = end_graph, end_node
    return {**ranges, "all": (slice(0, graph), slice(0, node))}


def _parts(values: Num[np.ndarray, " values"], starts: Num[np.ndarray, " parts"]) -> list[Int[np.ndarray, " part"]]:
    """Indices of the values from each start up to the next one; starts ascend."""
    of_value = np.searchsorted(starts, values, side="right") - 1
    return [np.flatnonzero(of_value == i) for i in range(len(starts))]


def _size_starts(n_node: Int[np.ndarray, " graphs"]) -> Int[np.ndarray, " starts"]:
    """Least nodes of each range; sizes that many graphs share leave fewer ranges."""
    step = max(-(-len(n_node) // MOST_RANGES), 1)
    return np.unique(np.sort(n_node)[::step])
