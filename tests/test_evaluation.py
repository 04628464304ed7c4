"""Accuracy by label and by size: parts that make up a subset, each with the accuracy of its own graphs."""

import jraph
import numpy as np
import pytest

from jattn.evaluation import MOST_LABELS, MOST_RANGES, join, score
from jattn.graphs import from_arrays
from jattn.training import Predictions


def subset(sizes, labels):
    """Graphs of these sizes and labels, without edges."""
    return jraph.batch_np(
        [
            from_arrays(np.zeros((n, 1)), [], [], attention=np.zeros(n), label=int(label))
            for n, label in zip(sizes, labels, strict=True)
        ]
    )


def predicted(subsets, seeds, rng):
    """Outputs that round to the label for about 2 graphs in 3, and attention of one pooling layer."""
    label = join(subsets).globals["label"]
    nodes = seeds, int(join(subsets).n_node.sum())
    wrong = rng.random((seeds, len(label))) < 1 / 3
    output = (label + wrong + rng.uniform(-0.4, 0.4, wrong.shape)).astype(np.float32)
    return Predictions(output[..., None], (np.zeros(nodes, np.float32),), (np.ones(nodes, bool),))


def random_subsets(rng):
    return {
        "small": subset(rng.integers(1, 26, 90), rng.integers(0, 4, 90)),
        "large": subset(rng.integers(26, 200, 150), rng.integers(2, 11, 150)),
    }


@pytest.mark.parametrize("seeds", [1, 5])
def test_each_part_has_the_accuracy_of_its_own_graphs(seeds):
    rng = np.random.default_rng(0)
    subsets = random_subsets(rng)
    predictions = predicted(subsets, seeds, rng)
    scores = score(predictions, subsets, "regression")
    first = 0
    for name, graphs in subsets.items():
        label = graphs.globals["label"]
        right = np.round(predictions.prediction[:, first : first + len(label), 0]) == label  # [seeds, graphs]
        first += len(label)
        parts = [(part, label == part["label"]) for part in scores[name]["by_label"]]
        for part in scores[name]["by_nodes"]:
            least, most = part["nodes"]
            parts.append((part, (graphs.n_node >= least) & (graphs.n_node <= most)))
        for part, members in parts:
            values = 100 * right[:, members].mean(1)
            assert part["graphs"] == members.sum() > 0
            assert part["accuracy"]["values"] == pytest.approx(values)
            assert part["accuracy"]["mean"] == pytest.approx(values.mean())
            assert part["accuracy"]["std"] == pytest.approx(values.std())


@pytest.mark.parametrize("by", ["by_label", "by_nodes"])
def test_parts_add_up_to_their_subset(by):
    rng = np.random.default_rng(1)
    subsets = random_subsets(rng)
    for name, of_subset in score(predicted(subsets, 3, rng), subsets, "regression").items():
        if name == "all":
            assert by not in of_subset
            continue
        count = [part["graphs"] for part in of_subset[by]]
        assert sum(count) == of_subset["graphs"]
        values = [part["accuracy"]["values"] for part in of_subset[by]]
        assert np.average(values, axis=0, weights=count) == pytest.approx(of_subset["accuracy"]["values"])


def parts_of(sizes, labels, by):
    rng = np.random.default_rng(2)
    subsets = {"test": subset(sizes, labels)}
    return score(predicted(subsets, 2, rng), subsets, "regression")["test"][by]


def test_labels_ascend_and_are_those_that_occur():
    assert [part["label"] for part in parts_of([3] * 5, [7, 2, 2, 0, 7], "by_label")] == [0, 2, 7]


def test_too_many_labels_are_not_parted():
    assert len(parts_of([3] * MOST_LABELS, range(MOST_LABELS), "by_label")) == MOST_LABELS
    assert parts_of([3] * (MOST_LABELS + 1), range(MOST_LABELS + 1), "by_label") == []


@pytest.mark.parametrize(
    ("sizes", "ranges"),
    [
        ([5], [[5, 5]]),
        ([5] * 30, [[5, 5]]),
        ([9, 4, 30], [[4, 4], [9, 9], [30, 30]]),
        ([5] * 99 + [200], [[5, 200]]),
        (range(1, 2 * MOST_RANGES + 1), [[n, n + 1] for n in range(1, 2 * MOST_RANGES, 2)]),
    ],
    ids=["one graph", "one size", "few graphs", "a common size", "even"],
)
def test_ranges_of_nodes_end_at_sizes_that_occur(sizes, ranges):
    assert [part["nodes"] for part in parts_of(sizes, [1] * len(sizes), "by_nodes")] == ranges


def test_ranges_hold_about_as_many_graphs_each():
    sizes = np.random.default_rng(3).permutation(1000)
    count = [part["graphs"] for part in parts_of(sizes, [0] * 1000, "by_nodes")]
    assert count == [125] * MOST_RANGES


def test_classes_are_labels_too():
    subsets = {"test": subset([2, 3, 4], [0, 1, 1])}
    logits = np.array([[[2, 1], [0, 1], [3, 1]]], np.float32)
    by_label = score(Predictions(logits, (), ()), subsets, "classification")["test"]["by_label"]
    assert [(part["label"], part["accuracy"]["mean"]) for part in by_label] == [(0, 100), (1, 50)]
