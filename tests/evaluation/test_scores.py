"""Scores: parts that make up a subset, each with the accuracy of its own graphs; what is kept and what is predicted."""

import jraph
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jattn.evaluation import evaluate, join, mean_std
from jattn.evaluation._scores import MAX_LABELS, MAX_RANGES
from jattn.graphs import from_arrays, select_graphs
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
    scores = evaluate(predictions, subsets, "regression")
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
    for name, of_subset in evaluate(predicted(subsets, 3, rng), subsets, "regression").items():
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
    return evaluate(predicted(subsets, 2, rng), subsets, "regression")["test"][by]


def test_labels_ascend_and_are_those_that_occur():
    assert [part["label"] for part in parts_of([3] * 5, [7, 2, 2, 0, 7], "by_label")] == [0, 2, 7]


def test_too_many_labels_are_not_parted():
    assert len(parts_of([3] * MAX_LABELS, range(MAX_LABELS), "by_label")) == MAX_LABELS
    assert parts_of([3] * (MAX_LABELS + 1), range(MAX_LABELS + 1), "by_label") == []


@pytest.mark.parametrize(
    ("sizes", "ranges"),
    [
        ([5], [[5, 5]]),
        ([5] * 30, [[5, 5]]),
        ([9, 4, 30], [[4, 4], [9, 9], [30, 30]]),
        ([5] * 99 + [200], [[5, 200]]),
        (range(1, 2 * MAX_RANGES + 1), [[n, n + 1] for n in range(1, 2 * MAX_RANGES, 2)]),
    ],
    ids=["one graph", "one size", "few graphs", "a common size", "even"],
)
def test_ranges_of_nodes_end_at_sizes_that_occur(sizes, ranges):
    assert [part["nodes"] for part in parts_of(sizes, [1] * len(sizes), "by_nodes")] == ranges


def test_ranges_hold_about_as_many_graphs_each():
    sizes = np.random.default_rng(3).permutation(1000)
    count = [part["graphs"] for part in parts_of(sizes, [0] * 1000, "by_nodes")]
    assert count == [125] * MAX_RANGES


def test_classes_are_labels_too():
    subsets = {"test": subset([2, 3, 4], [0, 1, 1])}
    logits = np.array([[[2, 1], [0, 1], [3, 1]]], np.float32)
    by_label = evaluate(Predictions(logits, (), ()), subsets, "classification")["test"]["by_label"]
    assert [(part["label"], part["accuracy"]["mean"]) for part in by_label] == [(0, 100), (1, 50)]


FIGURES = ("accuracy", "balanced_accuracy", "matthews_correlation", "majority_accuracy")
LISTS = ("nodes_kept", "graphs_emptied", "predicted", "attention_auc")


def classified(rng, subsets, seeds, classes=3):
    """Logits of three classes, and attention of two pooling layers, the second of nodes that the first has kept."""
    sizes = join(subsets).n_node
    shape = seeds, int(sizes.sum())
    first = rng.random(shape) < 0.4
    alpha = rng.random((2, *shape)).astype(np.float32)
    logits = rng.normal(size=(seeds, len(sizes), classes)).astype(np.float32)
    return Predictions(logits, tuple(alpha), (first, first & (rng.random(shape) < 0.5)))


def with_target(rng, sizes, labels):
    graphs = subset(sizes, labels)
    graphs.nodes["attention"][:] = rng.random(len(graphs.nodes["attention"])) < 0.3
    return graphs


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_each_seed_is_scored_on_its_own_graphs(seed, seeds):
    """The scores of several seeds are those of each alone, on a split of just the graphs that count for it."""
    rng = np.random.default_rng(seed)
    subsets = {name: with_target(rng, rng.integers(0, 9, 12), rng.integers(0, 3, 12)) for name in ("a", "b")}
    predictions, counted = classified(rng, subsets, seeds), rng.random((seeds, 24)) < 0.6
    scores = evaluate(predictions, subsets, "classification", counted)
    nodes = np.repeat(counted, join(subsets).n_node, axis=1)
    for i, (single, own_nodes) in enumerate(zip(counted, nodes, strict=True)):
        halves = {"a": single[:12], "b": single[12:]}
        if not all(half.any() for half in halves.values()):
            continue
        alone = evaluate(
            Predictions(
                predictions.prediction[i : i + 1, single],
                tuple(alpha[i : i + 1, own_nodes] for alpha in predictions.attention),
                tuple(kept[i : i + 1, own_nodes] for kept in predictions.node_masks),
            ),
            {name: select_graphs(graphs, np.flatnonzero(halves[name])) for name, graphs in subsets.items()},
            "classification",
        )
        for name in (*subsets, "all"):
            for figure in FIGURES:
                assert scores[name][figure]["values"][i] == pytest.approx(alone[name][figure]["values"][0], nan_ok=True)
            for figure in LISTS:
                there, here = ([score["values"] for score in score[name][figure]] for score in (alone, scores))
                if there:  # else the graphs of this seed have no target
                    assert [values[i] for values in here] == pytest.approx([values[0] for values in there], nan_ok=True)


def test_what_is_kept_and_predicted_is_counted():
    subsets = {"test": subset([2, 3, 0, 4], [0, 0, 1, 0])}
    kept = np.array([[1, 0, 0, 0, 0, 1, 1, 1, 0], [0] * 9], bool)
    logits = np.zeros((2, 4, 2), np.float32)
    logits[0, 1:, 1] = 1  # the first seed says 0, 1, 1, 1, the second always 0
    predictions = Predictions(logits, (kept.astype(np.float32),), (kept,))
    scores = evaluate(predictions, subsets, "classification")["test"]
    assert scores["nodes_kept"][0]["values"] == pytest.approx([400 / 9, 0])
    assert scores["graphs_emptied"][0]["values"] == [25, 75]  # what has no nodes anyway is not emptied
    assert scores["accuracy"]["values"] == [50, 75]
    assert scores["balanced_accuracy"]["values"] == pytest.approx([(100 / 3 + 100) / 2, 50])
    assert scores["matthews_correlation"]["values"] == pytest.approx([100 / 3, 0])
    assert scores["majority_accuracy"]["values"] == [75, 75]
    assert [of_class["values"] for of_class in scores["predicted"]] == [[25, 100], [75, 0]]


def test_outputs_that_are_not_finite_are_of_no_class():
    logits = np.full((1, 2, 2), np.nan, np.float32)
    nodes = np.zeros((1, 3), np.float32)
    scores = evaluate(Predictions(logits, (nodes,), (nodes == 0,)), {"a": subset([1, 2], [0, 1])}, "classification")[
        "all"
    ]
    assert [scores[name]["values"] for name in ("accuracy", "balanced_accuracy")] == [[0], [0]]
    assert [of_class["values"] for of_class in scores["predicted"]] == [[0], [0]]


def test_without_any_target_there_is_no_auc_and_with_one_there_is():
    rng = np.random.default_rng(0)
    subsets = {"a": subset([3, 4], [0, 1]), "b": subset([5], [0])}
    predictions = classified(rng, subsets, 2)
    assert all(score["attention_auc"] == [] for score in evaluate(predictions, subsets, "classification").values())
    subsets["b"].nodes["attention"][0] = 1
    scores = evaluate(predictions, subsets, "classification")
    assert len(scores["all"]["attention_auc"]) == 2
    assert np.isnan(scores["a"]["attention_auc"][0]["mean"])  # no positives among these


def test_figures_of_classes_are_those_of_classification_alone():
    rng = np.random.default_rng(0)
    subsets = random_subsets(rng)
    assert "predicted" not in evaluate(predicted(subsets, 1, rng), subsets, "regression")["all"]


def test_real_valued_labels_have_errors_in_place_of_accuracy():
    labels = np.array([0.25, 1.5, 2.0, 3.75])
    subsets = {"a": jraph.batch_np([from_arrays(np.zeros((2, 1)), [], [], label=float(label)) for label in labels])}
    output = np.stack([labels + 0.5, labels]).astype(np.float32)[..., None]
    scores = evaluate(Predictions(output, (), ()), subsets, "regression")
    for of_subset in scores.values():
        assert "accuracy" not in of_subset
        assert of_subset["mae"]["values"] == of_subset["rmse"]["values"] == [0.5, 0]
        assert of_subset["r2"]["values"] == pytest.approx([1 - 0.25 / labels.var(), 1])
    assert scores["a"]["by_label"] == []
    assert scores["a"]["by_nodes"][0]["mae"]["values"] == [0.5, 0]


def test_whole_numbers_have_accuracy_whatever_their_type():
    subsets = {"a": jraph.batch_np([from_arrays(np.zeros((2, 1)), [], [], label=float(label)) for label in (1, 3)])}
    scores = evaluate(Predictions(np.array([[[1.2], [2.0]]], np.float32), (), ()), subsets, "regression")
    assert scores["a"]["accuracy"]["values"] == [50]


def test_what_each_seed_is_scored_on_is_a_mask():
    subsets = {"test": subset([2, 3], [0, 1])}
    predictions = Predictions(np.zeros((1, 2, 2), np.float32), (), ())
    with pytest.raises(ValueError, match=r"test_mask\[0\]: expected a mask of booleans, one per graph"):
        evaluate(predictions, subsets, "classification", np.ones((1, 3), bool))


def test_the_mean_of_no_seeds_is_nan_without_a_warning():
    assert np.isnan(mean_std([])["mean"])
    assert mean_std([])["values"] == []
