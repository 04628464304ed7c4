"""Graphs to classify: inputs are one-hot labels or degrees, attributes where asked for, and classes count from 0."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tu_files import TOY, write

from jattn.datasets import TUData, read_tu, tu_graphs
from jattn.graphs import check


@pytest.fixture
def toy(tmp_path):
    return read_tu(write(tmp_path, TOY))


def test_labels_are_one_hot_over_their_whole_range(toy):
    graphs = tu_graphs(toy)
    check(graphs)
    x = np.asarray(graphs.nodes["features"])
    assert x.dtype == np.uint8
    assert x.shape == (6, 5)  # labels 0 to 4, of which 3 does not occur
    np.testing.assert_array_equal(x.argmax(axis=1), [0, 4, 0, 1, 1, 2])
    assert (x.sum(axis=1) == 1).all()
    assert graphs.nodes["attention"].tolist() == [0] * 6
    assert graphs.n_edge.tolist() == [4, 0, 3]


def test_classes_count_from_zero_in_the_order_of_labels(toy):
    graphs = tu_graphs(toy._replace(graph_labels=np.array([7, -1, 3], np.int32)))
    assert graphs.globals["label"].dtype == np.int32
    assert graphs.globals["label"].tolist() == [2, 0, 1]


def test_without_labels_the_degree_is_the_input_and_a_loop_counts_once(toy):
    x = np.asarray(tu_graphs(toy._replace(node_labels=None)).nodes["features"])
    assert x.dtype == np.uint8
    assert x.tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_without_edges_too(toy):
    none = np.zeros(0, np.int32)
    x = np.asarray(tu_graphs(toy._replace(node_labels=None, senders=none, receivers=none)).nodes["features"])
    assert x.tolist() == [[1]] * 6


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 8), st.integers(-5, 300))
def test_each_column_of_labels_has_its_own_range(seed, columns, values, least):
    data = random_labels(seed, columns, values, least)
    expected = [label[:, None] == np.arange(label.min(), label.max() + 1) for label in data.node_labels.T]
    np.testing.assert_array_equal(tu_graphs(data).nodes["features"], np.concatenate(expected, axis=1))


def random_labels(seed, columns, values, least):
    labels = np.random.default_rng(seed).integers(least, least + values, (20, columns)).astype(np.int32)
    none, n_node = np.zeros(0, np.int32), np.array([20], np.int32)
    return TUData("RANDOM", none, none, n_node, np.array([1], np.int32), None, labels, None)


def test_attributes_are_standardised_and_only_read_where_asked_for(toy):
    attributes = np.array([[1e6, 3], [1e6 + 1, 3], [1e6 + 2, 3], [1e6, 3], [1e6, 3], [1e6, 3]], np.float32)
    graphs = tu_graphs(toy._replace(node_attributes=attributes), attributes=True)
    check(graphs)
    x = np.asarray(graphs.nodes["features"])
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x[:, :5], np.asarray(tu_graphs(toy).nodes["features"]))
    np.testing.assert_allclose(x[:, 5], (attributes[:, 0] - (1e6 + 0.5)) / np.sqrt(3.5 / 6), rtol=1e-6)
    assert x[:, 6].tolist() == [0] * 6  # as all nodes are alike


def test_attributes_stand_beside_degrees_too(toy):
    assert tu_graphs(toy._replace(node_labels=None), attributes=True).nodes["features"].shape == (6, 3 + 2)


def test_what_is_missing_is_named(toy):
    with pytest.raises(ValueError, match=r"TOY has no graph labels \(no TOY_graph_labels.txt\): there are no classes"):
        tu_graphs(toy._replace(graph_labels=None))
    with pytest.raises(ValueError, match=r"TOY has no node attributes \(no TOY_node_attributes.txt\)"):
        tu_graphs(toy._replace(node_attributes=None), attributes=True)


@pytest.mark.parametrize(("name", "classes", "columns"), [("PROTEINS", [663, 450], 3), ("DD", [691, 487], 89)])
def test_published_data_sets_have_the_known_inputs(shared, name, classes, columns):
    data = read_tu(shared / "data", name)
    graphs = tu_graphs(data)
    check(graphs)
    assert np.bincount(graphs.globals["label"]).tolist() == classes
    x = np.asarray(graphs.nodes["features"])
    assert x.shape == (data.n_node.sum(), columns)
    np.testing.assert_array_equal(x.argmax(axis=1), data.node_labels[:, 0] - data.node_labels.min())
    assert (x.sum(axis=1) == 1).all()
    if name == "PROTEINS":
        x = np.asarray(tu_graphs(data, attributes=True).nodes["features"])
        assert x.shape == (43_471, 4)
        np.testing.assert_allclose([x[:, 3].mean(), x[:, 3].std()], [0, 1], atol=1e-4)


def test_labels_too_far_apart_for_one_hot_features_are_an_error(toy):
    data = toy._replace(node_labels=np.where(np.arange(len(toy.node_labels)) == 0, 10**9, 0)[:, None].astype(np.int32))
    with pytest.raises(ValueError, match="node labels or degrees from 0 to 1000000000 make 1000000001 columns"):
        tu_graphs(data)


def test_graphs_of_one_class_are_a_warning(toy):
    with pytest.warns(UserWarning, match="TOY: all graphs have the same class, 3"):
        graphs = tu_graphs(toy._replace(graph_labels=np.array([3, 3, 3], np.int32)))
    assert graphs.globals["label"].tolist() == [0, 0, 0]
