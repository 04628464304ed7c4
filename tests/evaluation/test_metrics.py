"""Accuracy, attention AUC and cosine similarity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from jattn.evaluation import (
    accuracy,
    attention_auc,
    cosine_similarity,
    matthews_correlation,
    regression_errors,
)


def column(*values):
    return np.array(values, np.float32)[:, None]


def test_regression_is_right_where_the_output_rounds_to_the_label_halves_to_even():
    assert accuracy(column(0.5, 1.5, 2.5, 3.5), np.array([0, 2, 2, 4]), "regression") == 100
    assert accuracy(column(0.5, 1.5, 2.5, 3.5), np.array([1, 1, 3, 3]), "regression") == 0
    assert accuracy(column(0.49, -0.2, 7.3, 8.0), np.array([0, 0, 7, 9]), "regression") == 75


def test_classification_is_right_where_the_largest_logit_is_the_labels():
    logits = np.array([[1, 2, 0], [3, -1, 2], [0, 0, 1]], np.float32)
    assert accuracy(logits, np.array([1, 0, 0]), "classification") == pytest.approx(200 / 3)


@pytest.mark.parametrize(("task", "outputs"), [("regression", 1), ("classification", 3)])
def test_accuracy_of_no_graphs_is_nan(task, outputs):
    assert np.isnan(accuracy(np.zeros((0, outputs), np.float32), np.zeros(0, int), task))


nodes = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5]), st.booleans()), min_size=0, max_size=12)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(nodes=nodes, masked=st.booleans())
def test_auc_is_the_share_of_pairs_in_order_ties_counting_half(nodes, masked):
    attention, target, present = (np.array(x) for x in zip(*nodes, strict=True)) if nodes else (np.zeros(0),) * 3
    attention, target, present = attention / 8, target.astype(float), present.astype(bool)
    seen = present if masked else np.ones(len(nodes), bool)
    pairs = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a in attention[seen & (target > 0)]
        for b in attention[seen & (target == 0)]
    ]
    auc = attention_auc(attention, target, present if masked else None)
    assert auc == pytest.approx(100 * np.mean(pairs)) if pairs else np.isnan(auc)


@pytest.mark.parametrize("target", [[], [0.0, 0.0], [0.5, 0.5]])
def test_auc_of_a_single_class_is_nan_without_a_warning(target):
    target = np.array(target)
    assert np.isnan(attention_auc(np.linspace(0, 1, len(target)), target))


def test_cosine_similarity_knows_parallel_opposite_and_orthogonal_vectors():
    a = np.array([3.0, 4.0, 0.0])
    assert cosine_similarity(a, 2 * a) == pytest.approx(1)
    assert cosine_similarity(a, -a) == pytest.approx(-1)
    assert cosine_similarity(a, np.array([0.0, 0.0, 5.0])) == 0
    assert cosine_similarity(a, np.array([1.0, 0.0, 0.0])) == pytest.approx(0.6)


def test_cosine_similarity_with_a_zero_vector_is_0():
    assert cosine_similarity(np.zeros(3), np.ones(3)) == 0
    assert cosine_similarity(np.zeros(0), np.zeros(0)) == 0


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_outputs_that_are_not_finite_are_wrong(task):
    outputs = np.array([[0.0, -1.0], [np.nan, np.nan], [np.inf, np.nan]])[:, : 1 if task == "regression" else 2]
    assert accuracy(outputs, np.zeros(3, int), task) == pytest.approx(100 / 3)


def test_errors_of_a_regression_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    label = rng.normal(3, 2, 50).astype(np.float32)
    prediction = label + rng.normal(0, 0.5, 50).astype(np.float32)
    errors = regression_errors(column(*prediction), label)
    assert errors.mae == pytest.approx(mean_absolute_error(label, prediction))
    assert errors.rmse == pytest.approx(root_mean_squared_error(label, prediction))
    assert errors.r2 == pytest.approx(r2_score(label, prediction), rel=1e-5)
    assert np.isnan(regression_errors(column(1, 2), np.array([2.5, 2.5])).r2)
    assert np.isnan(regression_errors(np.zeros((0, 1), np.float32), np.zeros(0))).all()


def test_accuracy_of_real_valued_labels_is_refused():
    with pytest.raises(ValueError, match="label: accuracy is of integers; for real-valued labels"):
        accuracy(column(0.4, 1.6), np.array([0.4, 1.6]), "regression")


def test_auc_of_numbers_that_are_not_finite_is_nan_or_refused():
    assert np.isnan(attention_auc(np.array([np.inf, 1, 0]), np.array([1.0, 0, 0])))
    with pytest.raises(ValueError, match=r"target\[0\] is nan"):
        attention_auc(np.array([0.3, 1, 0]), np.array([np.nan, 0, 1]))


def test_auc_takes_lists_and_masks_of_booleans_alone(unchecked_types):
    attention, target = [0.1, 0.9, 0.8, 0.2, 0.7, 0.3], [1, 0, 0, 0, 1, 0]
    present = [1, 1, 0, 1, 1, 1]
    assert attention_auc(attention, target, np.array(present, bool)) == pytest.approx(100 / 3)
    assert attention_auc(attention, target, [bool(here) for here in present]) == pytest.approx(100 / 3)
    for mask in (present, np.array(present), np.array([0, 1, 3]), np.ones(5, bool)):
        with pytest.raises(ValueError, match="node_mask: expected a mask of booleans, one per node"):
            attention_auc(np.array(attention), np.array(target), mask)
    with pytest.raises(ValueError, match=r"attention: expected one number per target \(6,\), got shape \(5,\)"):
        attention_auc(attention[:5], target)


def test_metrics_take_lists_of_numbers(unchecked_types):
    assert accuracy([[0.4], [1.6]], [0, 2], "regression") == 100
    assert accuracy([[0, 1], [2, 1]], [1, 0], "classification") == 100
    assert regression_errors([[1], [3]], [1, 2]).mae == 0.5
    assert attention_auc([0.7, 0.3], [1, 0]) == 100
    assert cosine_similarity([3, 4], [6, 8]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda: accuracy([[1.0], [2.0, 3.0]], [0, 1], "regression"), "prediction: expected an array of real numbers"),
        (lambda: accuracy([[1.0], [2.0]], ["0", "1"], "regression"), "label: expected an array of real numbers"),
        (lambda: accuracy([[1j], [2j]], [0, 1], "regression"), "prediction: expected an array of real numbers"),
        (lambda: accuracy([1.0, 2.0], [0, 1], "regression"), r"prediction: expected shape \[graphs, 1\], got \(2,\)"),
        (lambda: accuracy([[1.0, 2.0]], [-1], "classification"), "label: -1 to -1, but the prediction has classes 0"),
        (lambda: accuracy([[1.0, 2.0]], [2], "classification"), "label: 2 to 2, but the prediction has classes 0 to 1"),
        (lambda: accuracy([[1.0, 2.0]], [0.5], "classification"), "label: accuracy is of integers"),
        (lambda: accuracy([[1.0, 2.0]], [np.nan], "classification"), "label: accuracy is of integers"),
        (lambda: regression_errors([[1.0]], [1j]), "label: expected an array of real numbers"),
        (lambda: attention_auc([1j, 0], [0, 1]), "attention: expected an array of real numbers, got complex128"),
        (lambda: cosine_similarity([1.0, 2.0], [1.0]), "a and b: expected two vectors of the same length"),
    ],
)
def test_metrics_refuse_what_they_cannot_score(score, message, unchecked_types):
    with pytest.raises(ValueError, match=message):
        score()


def test_one_class_among_the_masked_nodes_is_nan_without_a_warning():
    assert np.isnan(attention_auc([0.1, 0.9, 0.5], [1.0, 1.0, 0.0], np.array([True, True, False])))
    assert accuracy([[1.0], [2.0]], [1, 1], "regression") == 50
    assert accuracy([[1.0], [2.0]], [0, 0], "classification") == 100


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=30))
def test_matthews_correlation_of_two_classes_is_that_of_their_four_counts(pairs):
    label, predicted = map(np.array, zip(*pairs, strict=True))
    positive, negative = (predicted == 1), (predicted == 0)
    tp, fp = (positive & (label == 1)).sum(), (positive & (label == 0)).sum()
    fn, tn = (negative & (label == 1)).sum(), (negative & (label == 0)).sum()
    norm = np.sqrt(float((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
    expected = 100 * (tp * tn - fp * fn) / norm if norm else 0.0
    assert matthews_correlation(np.eye(2)[predicted], label) == pytest.approx(expected)


def test_matthews_correlation_at_its_ends():
    logits = np.eye(3)[[0, 1, 2, 1]]
    assert matthews_correlation(logits, [0, 1, 2, 1]) == pytest.approx(100)
    assert matthews_correlation(logits[:, [1, 0]][:2], [0, 1]) == pytest.approx(-100)
    assert matthews_correlation(np.zeros((3, 2)), [0, 1, 0]) == 0  # always class 0
    assert matthews_correlation(np.full((3, 2), np.nan), [0, 1, 0]) == 0
    assert np.isnan(matthews_correlation(np.zeros((0, 2)), []))
    with pytest.raises(ValueError, match="label: 0 to 2, but the prediction has classes 0 to 1"):
        matthews_correlation(np.zeros((2, 2)), [0, 2])
