"""Sample graphs of a run: which ones are kept, and that they have what networks said of them."""

import jraph
import numpy as np
import pytest

from experiments.run import samples
from experiments.run.samples import NodeView, evenly_by_size, read_samples, write_samples
from jattn.graphs import Proximity, from_arrays
from jattn.training import Predictions


def path_graph(count, label=0):
    ends = np.arange(count - 1)
    senders, receivers = np.concatenate([ends, ends + 1]), np.concatenate([ends + 1, ends])
    return from_arrays(np.zeros((count, 1)), senders, receivers, label=label)


def predictions_of(subsets, output, seed=0):
    nodes, rng = int(sum(subset.n_node.sum() for subset in subsets.values())), np.random.default_rng(seed)
    attention = rng.random((1, nodes)).astype(np.float32)
    return Predictions(np.asarray(output, np.float32)[None], (attention,), (attention > 0.5,))


def test_half_of_each_subset_are_wrong_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "GRAPHS", 16)
    subsets = {"orig": jraph.batch_np([path_graph(1 + i % 5) for i in range(40)])}
    subsets["large"] = jraph.batch_np([path_graph(9) for _ in range(20)])
    output = np.where(np.arange(60) % 4 == 0, 1.0, 0.2)[:, None]  # a quarter is wrong
    write_samples(tmp_path, subsets, predictions_of(subsets, output), "regression", (1, 9))
    found = read_samples(tmp_path)
    assert [(~found["correct"][found["subset"] == i]).sum() for i in (0, 1)] == [4, 4]
    assert [found["correct"][found["subset"] == i].sum() for i in (0, 1)] == [4, 4]
    assert (found["tested"].tolist(), found["correct_of_tested"].tolist()) == ([40, 20], [30, 15])
    assert found["subsets"].tolist() == ["orig", "large"]
    np.testing.assert_allclose(found["error"], np.where(found["correct"], 0.2, 1.0))


def test_right_ones_fill_the_place_of_wrong_ones_that_are_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "GRAPHS", 8)
    subsets = {"test": jraph.batch_np([path_graph(3) for _ in range(20)])}
    output = np.zeros((20, 1))
    output[7] = 2
    write_samples(tmp_path, subsets, predictions_of(subsets, output), "regression", (1, 9))
    correct = read_samples(tmp_path)["correct"]
    assert (len(correct), correct.sum()) == (8, 7)


def test_large_graphs_and_those_not_tested_are_left_out_and_all_of_them_have_room(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "NODES", 60)
    sizes = [samples.MAX_NODES + 1, *range(1, 31)]
    subsets = {"test": jraph.batch_np([path_graph(size) for size in sizes])}
    tested = np.arange(31) != 30
    write_samples(tmp_path, subsets, predictions_of(subsets, np.zeros((31, 1))), "regression", (1, 9), tested)
    n_node = read_samples(tmp_path)["n_node"]
    assert 2 <= len(n_node) < 29
    assert n_node.max() < 30
    assert n_node.sum() <= 60


def test_a_sample_has_its_own_nodes_and_edges(tmp_path):
    subsets = {"test": jraph.batch_np([path_graph(4, 1), path_graph(2, 0), path_graph(3, 1)])}
    output = np.array([[0.0, 2.0], [0.0, 1.0], [0.0, np.nan]])
    predictions = predictions_of(subsets, output)
    write_samples(tmp_path, subsets, predictions, "classification", (1, 9))
    found = read_samples(tmp_path)
    assert (found["n_node"].tolist(), found["number"].tolist()) == ([2, 3, 4], [1, 2, 0])
    assert found["edges"].tolist() == [[0, 1], [0, 1], [1, 2], [0, 1], [1, 2], [2, 3]]
    assert found["correct"].tolist() == [False, False, True]
    assert found["error"][[0, 2]] == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(2))])
    order = [4, 5, 6, 7, 8, 0, 1, 2, 3]
    np.testing.assert_array_equal(found["attention"][:, 0], predictions.attention[0][0, order])
    np.testing.assert_array_equal(found["node_mask"][:, 0], predictions.node_masks[0][0, order])
    assert np.isfinite(found["position"]).all()


def test_images_have_their_own_positions_and_no_edges(tmp_path):
    subsets = {"test": jraph.batch_np([path_graph(2), path_graph(3)])._replace(edges=Proximity(1.0))}

    def view(graphs):
        nodes = np.arange(int(graphs.n_node.sum()))
        return NodeView(np.stack([nodes, -nodes], 1), nodes[:, None] / 10)

    write_samples(tmp_path, subsets, predictions_of(subsets, np.zeros((2, 1))), "regression", (1, 9), view=view)
    found = read_samples(tmp_path)
    assert found["position"].tolist() == [[i, -i] for i in range(5)]
    assert found["channels"][:, 0] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert len(found["edges"]) == 0


def test_networks_without_attention_have_samples_too(tmp_path):
    subsets = {"test": jraph.batch_np([path_graph(2)])}
    write_samples(tmp_path, subsets, Predictions(np.zeros((1, 1, 1)), (), ()), "regression", (1, 9))
    assert read_samples(tmp_path)["attention"].shape == (2, 0)


def test_evenly_spaced_graphs_include_the_smallest_and_the_largest():
    n_node = np.array([5, 1, 4, 2, 3])
    assert n_node[evenly_by_size(np.arange(5), n_node, 3)].tolist() == [1, 3, 5]
    assert n_node[evenly_by_size(np.arange(5), n_node, 9)].tolist() == [1, 2, 3, 4, 5]
    assert evenly_by_size(np.zeros(0, int), n_node, 3).tolist() == []
