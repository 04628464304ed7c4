"""Choosing graphs: by number, by size and in folds, each graph whole and none twice."""

import itertools
import zipfile

import jax
import jraph
import numpy as np
import pytest
from graph_strategies import EMPTY, NO_EDGES, USUAL, graph_lists, make_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from jattn.batching import shuffled_batches
from jattn.datasets import fold_ids, folds, read_tu, size_shift_ids, size_split_ids, size_splits, tu_graphs
from jattn.graphs import Proximity, check, select_graphs


def numbered(sizes):
    """Graphs of the given sizes, each labeled with its number."""
    graphs = jraph.batch_np([make_graph(size, 0.5, i) for i, size in enumerate(sizes)])
    return graphs._replace(globals={"label": np.arange(len(sizes), dtype=np.int32)})


def numbers(graphs):
    return graphs.globals["label"].tolist()


def same(a, b):
    leaves, others = jax.tree.leaves(a), jax.tree.leaves(b)
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(leaves, others, strict=True))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(graph_lists, st.data())
def test_selected_graphs_are_those_of_the_list(graph_list, data):
    ids = data.draw(st.lists(st.integers(0, len(graph_list) - 1), min_size=1, max_size=6))
    chosen = select_graphs(jraph.batch_np(graph_list), np.array(ids))
    check(chosen)
    assert same(chosen, jraph.batch_np([graph_list[i] for i in ids]))


def test_none_may_be_selected():
    chosen = select_graphs(jraph.batch_np([USUAL, EMPTY, NO_EDGES]), np.zeros(0, int))
    check(chosen)
    assert chosen.nodes["features"].shape == (0, 3)
    assert len(chosen.n_node) == len(chosen.senders) == 0


def test_weights_by_proximity_stay_a_rule():
    graphs = jraph.batch_np([make_graph(size, 0, size) for size in (2, 0, 3)])
    position = np.arange(10, dtype=np.float32).reshape(5, 2)
    graphs = graphs._replace(edges=Proximity(0.1), nodes={**graphs.nodes, "position": position})
    chosen = select_graphs(graphs, np.array([2, 0]))
    check(chosen)
    assert chosen.edges == Proximity(0.1)
    np.testing.assert_array_equal(chosen.nodes["position"], position[[2, 3, 4, 0, 1]])


@pytest.mark.parametrize("wrong", [-1, 3])
def test_a_number_out_of_range_is_named(wrong):
    with pytest.raises(ValueError, match=f"ids: {wrong} is out of range: there are 3 graphs"):
        select_graphs(numbered([1, 2, 3]), np.array([0, wrong]))


SIZES = [5, 2, 9, 1, 3, 7, 2, 4, 4, 4, 8]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 100))
def test_training_graphs_are_small_ones_and_all_others_are_tested(largest, most, seed):
    graphs = numbered(SIZES)
    splits = size_splits(graphs, largest, most, seed)
    assert list(splits) == ["train", "test"]
    small = [i for i, size in enumerate(SIZES) if size <= largest]
    train, test = numbers(splits["train"]), numbers(splits["test"])
    assert set(train) <= set(small)
    assert len(train) == min(most, len(small))
    assert test == [i for i in range(len(SIZES)) if i not in train]
    assert same(splits["train"], select_graphs(graphs, np.array(train)))
    assert same(splits["test"], select_graphs(graphs, np.array(test)))


def test_another_seed_draws_others_where_not_all_are_taken():
    graphs = numbered(SIZES)
    drawn = [numbers(size_splits(graphs, 4, 5, seed)["train"]) for seed in (0, 0, 2)]
    assert drawn[0] == drawn[1]
    assert set(drawn[0]) != set(drawn[2])
    drawn = [numbers(size_splits(graphs, 4, seed=seed)["train"]) for seed in (0, 1)]
    assert drawn[0] != drawn[1]
    assert sorted(drawn[0]) == sorted(drawn[1]) == [1, 3, 4, 6, 7, 8, 9]


def test_an_empty_split_is_an_error():
    graphs = numbered(SIZES)
    with pytest.raises(ValueError, match="no graph to train on has at most 0 nodes; of 11 graphs the smallest has 1"):
        size_splits(graphs, 0)
    with pytest.raises(ValueError, match="no graph to train on has at most 9 nodes; there are no graphs"):
        size_splits(select_graphs(graphs, np.zeros(0, int)), 9)
    with pytest.raises(ValueError, match="all 11 graphs have at most 9 nodes and are trained on, none is left to test"):
        size_splits(graphs, 9)
    with pytest.raises(ValueError, match="max_train_graphs: 0 is not allowed, expected at least 1"):
        size_splits(graphs, 4, 0)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(2, len(SIZES)), st.integers(0, 100))
def test_each_graph_is_validated_on_in_one_fold(k, seed):
    graphs = numbered(SIZES)
    parts = folds(graphs, k, seed)
    assert len(parts) == k
    everything = list(range(len(SIZES)))
    assert sorted(i for _, validation in parts for i in numbers(validation)) == everything
    sizes = [len(validation.n_node) for _, validation in parts]
    assert max(sizes) - min(sizes) <= 1
    for train, validation in parts:
        assert sorted(numbers(train) + numbers(validation)) == everything
        assert same(train, select_graphs(graphs, np.array(numbers(train))))
    assert same(parts, folds(graphs, k, seed))


@pytest.mark.parametrize("k", [-1, 0, 1, 12])
def test_too_few_or_too_many_folds_are_an_error(k):
    with pytest.raises(ValueError, match=f"k: {k} folds of 11 graphs are not possible, expected 2 to 11"):
        folds(numbered(SIZES), k)


def expect_sizes(graphs, largest, qualifying, train, test):
    assert (graphs.n_node <= largest).sum() == qualifying
    splits = size_splits(graphs, largest)
    assert [len(split.n_node) for split in splits.values()] == [train, test]
    for split in splits.values():
        check(split)
    assert splits["train"].n_node.max() <= largest


def test_published_data_sets_split_as_in_the_paper(shared):
    expect_sizes(tu_graphs(read_tu(shared / "data", "PROTEINS")), 25, 548, 500, 613)
    dd = tu_graphs(read_tu(shared / "data", "DD"))
    expect_sizes(dd, 200, 462, 462, 716)
    expect_sizes(dd, 300, 740, 500, 678)


def test_collab_does_too(shared, tmp_path):
    with zipfile.ZipFile(shared / "data" / "COLLAB.zip") as archive:
        for kind in ("graph_indicator", "graph_labels"):
            archive.extract(f"COLLAB/COLLAB_{kind}.txt", tmp_path)
    (tmp_path / "COLLAB" / "COLLAB_A.txt").touch()  # its 24 million edges take ten seconds
    graphs = tu_graphs(read_tu(tmp_path, "COLLAB"))
    assert np.bincount(graphs.globals["label"]).tolist() == [2_600, 775, 1_625]
    expect_sizes(graphs, 35, 681, 500, 4_500)


def test_splits_folds_and_batches_of_one_seed_are_drawn_apart():
    count = 500
    n_node = np.ones(count, int)
    _, folded = fold_ids(count, 2, 0)[0]
    split = size_split_ids(n_node, 1, count // 2, 0)["train"]
    batches = shuffled_batches(0, 1, n_node, count // 2)[0, 0]
    for a, b in itertools.combinations((folded, split, batches), 2):
        assert np.mean(a == b) < 0.05
        assert 0.3 < np.mean(np.isin(a, b)) < 0.7  # half of all graphs in each, by chance the same half


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=40), st.floats(1, 60), st.floats(1, 39))
def test_the_smallest_and_the_largest_graphs(sizes, train_percent, test_percent):
    n_node = np.array(sizes)
    try:
        ids = size_shift_ids(n_node, train_percent, test_percent)
    except ValueError as error:
        assert str(error).startswith("n_node: graphs of ")
        assert np.percentile(n_node, train_percent) >= np.percentile(n_node, 100 - test_percent)
        return
    assert len(ids["train"]) >= len(sizes) * train_percent / 100 - 1
    assert len(ids["test"]) >= len(sizes) * test_percent / 100 - 1
    smallest, largest = n_node[ids["train"]], n_node[ids["test"]]
    assert smallest.max() < largest.min()
    assert np.sort(n_node)[: len(smallest)].tolist() == np.sort(smallest).tolist()
    assert np.sort(n_node)[len(sizes) - len(largest) :].tolist() == np.sort(largest).tolist()


@pytest.mark.parametrize(
    ("sizes", "percents", "message"),
    [
        ([], (50, 10), "n_node: there are no graphs"),
        ([3, 3, 3], (50, 10), "n_node: graphs of 3 nodes are among the smallest 50 % and the largest 10 %"),
        ([3, 9], (0, 10), "train_percent: 0 is not allowed"),
        ([3, 9], (50, 100), "test_percent: 100 is not allowed, expected above 0 and below 100"),
        ([3, 9], (60, 40), "train_percent: 60 and test_percent 40 must have a sum below 100"),
    ],
)
def test_no_smallest_and_largest_graphs(sizes, percents, message):
    with pytest.raises(ValueError, match=message):
        size_shift_ids(np.array(sizes, int), *percents)
