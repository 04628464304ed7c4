"""Cleaned labels of weak supervision keep what matters most."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import fast

from experiments import colors
from experiments.run.labels import Labels, noise_mask
from experiments.run.results import Results

TINY = [
    "--seeds",
    "2",
    "--epochs",
    "2",
    "--teacher-epochs",
    "20",
    "--train-graphs",
    "40",
    "--test-graphs",
    "6",
    "--quiet",
]
sizes = st.lists(st.integers(1, 6), min_size=1, max_size=6)
fractions = st.floats(0.01, 1)


def drawn(n_node, seed, zero_graphs=0.2):
    """Labels as two teachers make them: shares of a graph's change, all 0 in some graphs."""
    rng, n_node = np.random.default_rng(seed), np.array(n_node)
    node_graph = np.repeat(np.arange(len(n_node)), n_node)
    change = rng.lognormal(0, 3, (2, len(node_graph))).astype(np.float32)
    change[:, (rng.random(len(n_node)) < zero_graphs)[node_graph]] = 0
    total = np.stack([np.bincount(node_graph, row, len(n_node)) for row in change]).astype(np.float32)
    return Labels(change / (total[:, node_graph] + np.float32(1e-7)), total), n_node


@fast
@given(n_node=sizes, seed=st.integers(0, 999), fraction=fractions)
def test_the_largest_label_of_a_usual_graph_stays_and_no_removed_one_is_larger_than_a_kept_one(n_node, seed, fraction):
    labels, n_node = drawn(n_node, seed)
    noise = noise_mask(labels, n_node, fraction)
    largest = np.stack([[part.max() for part in np.split(row, np.cumsum(n_node)[:-1])] for row in labels.target])
    usual = largest * labels.total_change >= np.median(largest * labels.total_change, axis=1, keepdims=True)
    starts = np.cumsum(n_node) - n_node
    for teacher, graph in np.argwhere(usual):
        nodes = slice(starts[graph], starts[graph] + n_node[graph])
        removed, target = noise[teacher, nodes], labels.target[teacher, nodes]
        assert not removed[target.argmax()]
        assert target[removed].max(initial=0) <= target[~removed].min()


@fast
@given(n_node=sizes, seed=st.integers(0, 999), fraction=fractions, scale=st.sampled_from([0.125, 8.0]))
def test_neither_the_order_of_nodes_nor_the_scale_of_predictions_matters(n_node, seed, fraction, scale):
    labels, n_node = drawn(n_node, seed)
    noise = noise_mask(labels, n_node, fraction)
    np.testing.assert_array_equal(
        noise_mask(labels._replace(total_change=scale * labels.total_change), n_node, fraction), noise
    )
    reverse = Labels(labels.target[:, ::-1], labels.total_change[:, ::-1])
    np.testing.assert_array_equal(noise_mask(reverse, n_node[::-1], fraction), noise[:, ::-1])


def test_labels_without_any_change_stay_finite_and_graphs_of_noise_lose_their_target():
    labels = Labels(np.zeros((1, 3), np.float32), np.zeros((1, 2), np.float32))
    assert np.isfinite(np.where(noise_mask(labels, np.array([2, 1]), 0.1), 0, labels.target)).all()
    of_noise = Labels(np.float32([[1, 0, 0.9, 0.1, 0.5, 0.5]]), np.float32([[2, 2, 0.01]]))
    assert noise_mask(of_noise, np.array([2, 2, 2]), 0.1)[0, [0, 2]].tolist() == [False, False]
    assert noise_mask(of_noise, np.array([2, 2, 2]), 0.1)[0, 4:].all()


def test_only_the_graphs_that_a_teacher_was_trained_on_say_what_is_usual():
    labels = Labels(np.ones((2, 3), np.float32), np.float32([[100, 100, 1], [100, 100, 1]]))
    n_node, ids = np.array([1, 1, 1]), [np.array([0, 2]), np.array([2])]
    assert noise_mask(labels, n_node, 0.2, ids).tolist() == [[False, False, True], [False, False, False]]


@pytest.mark.slow
def test_a_run_says_what_it_removed(tmp_path, capsys):
    out = tmp_path / "run"
    colors.EXPERIMENT.main(["weak", *TINY[:-1], "--label-fraction", "0.1", "--out", str(out)])
    removed = Results.read(out).labels_removed
    assert f"labels: {removed} % of those above 0 are noise, set to 0" in capsys.readouterr().err
    assert len(removed.values) == 2
    assert 0 < removed.mean < 100


@pytest.mark.parametrize("value", ["-0.1", "1.5", "nan"])
def test_a_fraction_is_between_0_and_1(value, tmp_path, capsys):
    with pytest.raises(SystemExit):
        colors.EXPERIMENT.main(["weak", "--label-fraction", value, "--out", str(tmp_path)])
    assert f"--label-fraction: {float(value)} is not allowed, expected 0 to 1" in capsys.readouterr().err


@pytest.mark.slow
def test_the_preset_robust_counts_among_colors_that_it_never_saw(tmp_path):
    colors.EXPERIMENT.main(
        ["robust", "--seeds", "1", "--test-graphs", "300", "--quiet", "--out", str(tmp_path / "run")]
    )
    subsets = Results.read(tmp_path / "run").subsets
    assert min(subsets["large"].accuracy.values) > 99
    assert min(subsets["largec"].accuracy.values) > 95
