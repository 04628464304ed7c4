"""COLORS: what the generator promises, and that the published file is read as the same kind of data."""

import numpy as np
import pytest

from jattn.datasets import generate_colors, published_colors
from jattn.graphs import check

SPLITS = ["train", "validation", "orig", "large", "largec"]


@pytest.fixture(scope="module")
def splits():
    return generate_colors()


def labels(split):
    return split.globals["label"]


def rows_of_graphs(split):
    """Features and edges of each graph, nodes counted from 0 in each; edges sorted."""
    nodes, edges = np.cumsum(split.n_node), np.cumsum(split.n_edge)
    for x, s, r, first in zip(
        np.split(split.nodes["features"], nodes[:-1]),
        np.split(split.senders, edges[:-1]),
        np.split(split.receivers, edges[:-1]),
        nodes - split.n_node,
        strict=True,
    ):
        order = np.lexsort((r, s))
        yield x, s[order] - first, r[order] - first


def keys(split):
    return [(len(x), x.tobytes(), s.tobytes(), r.tobytes()) for x, s, r in rows_of_graphs(split)]


def same(a, b):
    return keys(a) == keys(b) and np.array_equal(a.nodes["attention"], b.nodes["attention"])


@pytest.fixture(scope="module", params=["generated", "published"])
def either(request):
    if request.param == "generated":
        return request.getfixturevalue("splits")
    return published_colors(request.getfixturevalue("shared") / "data")


@pytest.mark.parametrize("count", [0, 1])
def test_empty_and_one_element_splits(count):
    for split in generate_colors(train=count, validation=count, test=count).values():
        check(split)
        assert split.n_node.shape == labels(split).shape == (count,)
        assert split.nodes["features"].shape == (split.n_node.sum(), 4)


def test_a_graph_may_have_one_node():
    for split in generate_colors(train=2, validation=0, test=0, small_nodes=(1, 1)).values():
        check(split)
        assert not split.n_edge.any()


def test_splits_keep_the_rules_of_colors(either):
    assert list(either) == SPLITS
    assert [len(split.n_node) for split in either.values()] == [500, 2500, 2500, 2500, 2500]
    for name, split in either.items():
        check(split)
        x, attention = split.nodes["features"], split.nodes["attention"]
        assert (x.dtype, x.shape[1]) == (np.uint8, 4)
        assert {a.dtype for a in (attention, split.edges)} == {np.dtype(np.float32)}
        indices = (split.senders, split.receivers, split.n_node, split.n_edge, labels(split))
        assert {a.dtype for a in indices} == {np.dtype(np.int32)}
        assert (split.edges == 1).all() and (split.senders != split.receivers).all()
        low, high = (26, 200) if name.startswith("large") else (4, 25)
        assert (split.n_node.min(), split.n_node.max()) == (low, high)
        extra = split.n_edge // 2 - split.n_node  # floor(N u)
        assert (extra < split.n_node).all()
        assert (extra[split.n_node > 4] >= 0).all()
        np.testing.assert_array_equal(attention, x[:, 1])
        graph = np.repeat(np.arange(len(split.n_node)), split.n_node)
        np.testing.assert_array_equal(np.bincount(graph, attention, len(split.n_node)), labels(split))
        if name == "largec":
            assert (x[attention == 1] == [0, 1, 0, 0]).all()
            assert 0.49 < x[attention == 0][:, [0, 2, 3]].mean() < 0.51
        else:
            assert (x.sum(axis=1) == 1).all() and not x[:, 3].any()


def test_no_graph_is_there_twice_within_or_across_splits(either):
    found = [key for split in either.values() for key in keys(split)]
    assert len(set(found)) == len(found) == 10_500


def test_sizes_labels_and_edges_are_uniform():
    split = generate_colors(train=20_000, validation=0, test=0)["train"]
    sizes = np.bincount(split.n_node)[4:]
    assert abs(sizes / 20_000 - 1 / 22).max() < 0.007  # over 4.5 standard deviations
    for nodes in (7, 10, 25):
        of_size = labels(split)[split.n_node == nodes]
        share = np.bincount(of_size, minlength=11)[: min(nodes, 10) + 1] / len(of_size)
        assert abs(share - 1 / len(share)).max() < 0.05
    per_node = split.n_edge / 2 / split.n_node
    assert abs(per_node[split.n_node > 10].mean() - 1.5 + 0.5 * np.mean(1 / np.arange(11, 26))) < 0.01


def test_every_edge_and_every_place_of_green_is_equally_likely():
    split = generate_colors(train=40_000, validation=0, test=0, small_nodes=(8, 8))["train"]
    edges = np.bincount(split.senders % 8 * 8 + split.receivers % 8, minlength=64).reshape(8, 8)
    share = edges[~np.eye(8, dtype=bool)] / 40_000
    assert abs(share - (8 + 3.5) / 28).max() < 0.012
    green = split.nodes["attention"].reshape(-1, 8).mean(axis=0)
    assert abs(green - 0.5).max() < 0.012


def test_pairs_of_edges_are_as_likely_as_without_replacement():
    split = generate_colors(train=20_000, validation=0, test=0, small_nodes=(6, 6))["train"]
    adjacency = np.zeros((20_000, 6, 6), bool)
    adjacency[split.senders // 6, split.senders % 6, split.receivers % 6] = True
    chosen = adjacency[:, *np.triu_indices(6, 1)].astype(float)
    edges = np.arange(6, 12)
    together = (chosen.T @ chosen / 20_000)[np.triu_indices(15, 1)]
    assert abs(together - np.mean(edges * (edges - 1) / (15 * 14))).max() < 0.017


@pytest.mark.parametrize("dimension", [3, 5, 16])
def test_features_have_a_column_for_each_color_and_one_more(dimension):
    for name, split in generate_colors(dimension, train=100, validation=10, test=100).items():
        x = split.nodes["features"]
        assert x.shape[1] == dimension + 1
        used = x.any(axis=0)
        if name in ("train", "orig"):
            assert used[:-1].all() and not used[-1]
        if name == "largec":
            assert used.all()


def test_other_colors_are_equally_likely(splits):
    x = splits["orig"].nodes["features"]
    assert abs(x[x[:, 1] == 0].mean(axis=0) - [0.5, 0, 0.5, 0]).max() < 0.015


def test_graphs_are_a_function_of_the_seed():
    few, again, other = (generate_colors(train=50, validation=50, test=50, seed=seed) for seed in (0, 0, 1))
    for name in SPLITS:
        assert same(few[name], again[name])
        assert not same(few[name], other[name])


def test_a_split_does_not_depend_on_the_size_of_later_ones(splits):
    fewer = generate_colors(test=3)
    for name in ("train", "validation"):
        assert same(splits[name], fewer[name])


def test_all_graphs_of_four_nodes_can_be_drawn_and_22_are_all_green():
    drawn = generate_colors(train=1_000, validation=782, test=0, small_nodes=(4, 4))
    found = keys(drawn["train"]) + keys(drawn["validation"])
    assert len(set(found)) == 22 * 3**4
    both = np.concatenate([labels(drawn["train"]), labels(drawn["validation"])])
    np.testing.assert_array_equal(np.bincount(both), 22 * np.array([16, 32, 24, 8, 1]))


def test_more_graphs_than_there_are_is_an_error_that_counts_them():
    with pytest.raises(ValueError, match=r"train: 1783 graphs of 4 to 4 nodes .* only 1782 distinct ones are left"):
        generate_colors(train=1_783, validation=0, test=0, small_nodes=(4, 4))
    with pytest.raises(ValueError, match=r"orig: 3 graphs of 4 to 4 nodes .* only 2 distinct ones are left; widen"):
        generate_colors(train=1_000, validation=780, test=3, small_nodes=(4, 4))


def test_largec_leaves_out_what_an_earlier_split_has():
    drawn = generate_colors(train=0, validation=0, test=3, large_nodes=(1, 1))
    assert sorted(drawn["large"].nodes["features"].tolist()) == [[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
    assert not set(keys(drawn["large"])) & set(keys(drawn["largec"]))
    with pytest.raises(ValueError, match=r"large: 4 graphs of 1 to 1 nodes .* only 3 distinct ones"):
        generate_colors(train=0, validation=0, test=4, large_nodes=(1, 1))


def test_other_sizes_take_the_place_of_those_that_ran_out():
    split = generate_colors(train=20_000, validation=0, test=0, small_nodes=(4, 5))["train"]
    assert len(set(keys(split))) == 20_000
    np.testing.assert_array_equal(np.bincount(split.n_node)[4:], [1_782, 18_218])
    assert np.bincount(labels(split))[5] == 637  # sets of 5 to 9 of 10 edges


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dimension": 2}, "dimension=2: expected at least 3 colors"),
        ({"train": -1}, "train=-1: expected a number of graphs, at least 0"),
        ({"validation": -1}, "validation=-1"),
        ({"test": -2}, "test=-2"),
        (
            {"small_nodes": (5, 4)},
            r"small_nodes=\(5, 4\): expected \(fewest, most\) nodes of a graph, 1 <= fewest <= most",
        ),
        ({"large_nodes": (0, 4)}, r"large_nodes=\(0, 4\)"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        generate_colors(**arguments)
