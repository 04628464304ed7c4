"""TRIANGLES: what the generator promises. How the published file is read stands in test_tu.py."""

import networkx as nx
import numpy as np
import pytest

from jattn.datasets import generate_triangles
from jattn.graphs import check

SPLITS = ["train", "validation", "orig", "large"]


@pytest.fixture(scope="module")
def splits():
    return generate_triangles(train=1_000, validation=203, test=200)


def labels(split):
    return split.globals["label"]


def parts(split):
    """Number of graphs of each label from 1 to 10."""
    return np.bincount(labels(split), minlength=11)[1:]


def graphs(split):
    """Nodes, sorted edges with nodes counted from 0, and attention of each graph."""
    nodes, edges = np.cumsum(split.n_node), np.cumsum(split.n_edge)
    for n, s, r, attention, first in zip(
        split.n_node.tolist(),
        np.split(split.senders, edges)[:-1],
        np.split(split.receivers, edges)[:-1],
        np.split(split.nodes["attention"], nodes)[:-1],
        nodes - split.n_node,
        strict=True,
    ):
        yield n, sorted(zip((s - first).tolist(), (r - first).tolist(), strict=True)), attention


def keys(split):
    return [(n, tuple(edges)) for n, edges, _ in graphs(split)]


def same(a, b):
    return keys(a) == keys(b) and all(
        np.array_equal(x, y)
        for x, y in ((a.nodes["attention"], b.nodes["attention"]), (labels(a), labels(b)), (a.senders, b.senders))
    )


@pytest.mark.parametrize("count", [0, 1])
def test_empty_and_one_element_splits(count):
    drawn = generate_triangles(train=count, validation=count, test=count)
    assert list(drawn) == SPLITS
    for split in drawn.values():
        check(split)
        assert split.n_node.shape == labels(split).shape == (count,)
        assert len(split.nodes["features"]) == len(split.nodes["attention"]) == split.n_node.sum()


def test_one_split_may_be_empty_beside_others():
    drawn = generate_triangles(train=0, validation=20, test=0)
    assert [len(split.n_node) for split in drawn.values()] == [0, 20, 0, 0]
    assert drawn["train"].nodes["features"].shape == (0, drawn["validation"].nodes["features"].shape[1])


def test_splits_keep_the_rules_of_triangles(splits):
    assert list(splits) == SPLITS
    assert [len(split.n_node) for split in splits.values()] == [1_000, 203, 200, 200]
    for name, split in splits.items():
        check(split)
        assert split.nodes["features"].dtype == np.uint8
        assert {a.dtype for a in (split.nodes["attention"], split.edges)} == {np.dtype(np.float32)}
        indices = (split.senders, split.receivers, split.n_node, split.n_edge, labels(split))
        assert {a.dtype for a in indices} == {np.dtype(np.int32)}
        assert (split.edges == 1).all() and (split.senders != split.receivers).all()
        low, high = (26, 100) if name == "large" else (4, 25)
        assert low <= split.n_node.min() and split.n_node.max() <= high
        for _, edges, _ in graphs(split):
            assert len(set(edges)) == len(edges)
            assert {(r, s) for s, r in edges} == set(edges)


def test_labels_and_attention_are_those_of_recounted_triangles(splits):
    for split in splits.values():
        for (n, edges, attention), label in zip(graphs(split), labels(split), strict=True):
            graph = nx.Graph(edges)
            graph.add_nodes_from(range(n))
            through = nx.triangles(graph)  # a node's triangles
            corners = np.array([through[node] for node in range(n)])
            assert corners.sum() == 3 * label
            np.testing.assert_array_equal(attention, (corners / corners.sum()).astype(np.float32))


def test_nodes_beyond_the_first_64_are_counted_too():
    split = generate_triangles(train=0, validation=0, test=10, large_nodes=(150, 200))["large"]
    for (_, edges, attention), label in zip(graphs(split), labels(split), strict=True):
        through = nx.triangles(nx.Graph(edges))
        assert sum(through.values()) == 3 * label
        assert {node for node, corners in through.items() if corners} == set(np.flatnonzero(attention).tolist())


def test_labels_are_in_equal_parts(splits):
    assert (parts(splits["train"]) == 100).all()
    assert parts(splits["validation"]).tolist() == [21] * 3 + [20] * 7
    assert (parts(splits["orig"]) == 20).all() and (parts(splits["large"]) == 20).all()


@pytest.mark.parametrize("count", [1, 3, 9, 11])
def test_parts_differ_by_at_most_one_graph(count):
    for split in generate_triangles(train=count, validation=count, test=count).values():
        assert parts(split).sum() == count
        assert np.ptp(parts(split)) <= 1


def test_graphs_are_in_random_order(splits):
    label = labels(splits["train"])
    assert abs(np.corrcoef(label, np.arange(1_000))[0, 1]) < 0.13  # over 4 standard deviations
    assert (np.diff(label) < 0).sum() > 350  # 450 expected


def test_no_graph_is_there_twice_within_or_across_splits(splits):
    found = [key for split in splits.values() for key in keys(split)]
    assert len(set(found)) == len(found) == 1_603
    narrow = generate_triangles(train=500, validation=100, test=100, small_nodes=(7, 7), large_nodes=(7, 8))
    found = [key for split in narrow.values() for key in keys(split)]
    assert len(set(found)) == len(found) == 800


def test_smallest_graphs_run_out_and_larger_ones_take_their_place():
    split = generate_triangles(train=3_000, validation=0, test=0, small_nodes=(4, 8))["train"]
    of_four = labels(split)[split.n_node == 4]
    np.testing.assert_array_equal(np.bincount(of_four), [0, 12, 6, 0, 1])  # of 4, 5 and 6 edges; all there are
    assert (parts(split) == 300).all()


def test_graphs_of_a_label_are_those_of_random_graphs_that_have_it():
    split = generate_triangles(train=20_000, validation=0, test=0, small_nodes=(12, 12))["train"]
    rng = np.random.default_rng(0)
    extra = rng.integers(0, 12, 3_000)
    drawn = [nx.gnm_random_graph(12, 12 + int(m), seed=i) for i, m in enumerate(extra)]
    counted = np.array([sum(nx.triangles(graph).values()) // 3 for graph in drawn])
    for label in (1, 3, 5):
        expected, found = extra[counted == label], split.n_edge[labels(split) == label] // 2 - 12
        deviation = expected.std() * (1 / len(expected) + 1 / len(found)) ** 0.5
        assert abs(found.mean() - expected.mean()) < 4.5 * deviation


def test_sizes_and_numbers_of_edges_are_those_of_the_random_graphs(splits):
    for split in splits.values():
        extra = split.n_edge // 2 - split.n_node  # floor(N u)
        assert (extra < split.n_node).all()
        assert (extra[split.n_node > 4] >= 0).all()
    large = generate_triangles(train=0, validation=0, test=4_000)["large"]
    bins = np.bincount((large.n_node - 26) // 15)  # how many triangles there are hardly depends on N there
    assert len(bins) == 5 and abs(bins / 4_000 - 0.2).max() < 0.03
    assert (large.n_node.min(), large.n_node.max()) == (26, 100)


def test_features_are_the_one_hot_degree_up_to_the_highest_of_all_splits(splits):
    degrees = [np.bincount(split.senders, minlength=split.n_node.sum()) for split in splits.values()]
    columns = max(of_split.max() for of_split in degrees) + 1
    for split, of_split in zip(splits.values(), degrees, strict=True):
        np.testing.assert_array_equal(split.nodes["features"], np.eye(columns)[of_split])
    assert len({of_split.max() for of_split in degrees}) > 1


def test_graphs_are_a_function_of_the_seed():
    few, again, other = (generate_triangles(train=50, validation=50, test=50, seed=seed) for seed in (0, 0, 1))
    for name in SPLITS:
        assert same(few[name], again[name])
        assert not same(few[name], other[name])


def test_a_split_does_not_depend_on_the_size_of_later_ones(splits):
    fewer = generate_triangles(train=1_000, validation=203, test=3)
    for name in ("train", "validation"):
        assert same(splits[name], fewer[name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"train": 30, "small_nodes": (3, 4)},
            r"train: 3 graphs of 3 to 4 nodes with label 3 \(triangles\) were asked for, but only 0 were found, and no "
            r"other among the last \d+ random graphs; widen the range of nodes or ask for fewer graphs",
        ),
        ({"train": 1, "small_nodes": (1, 2)}, r"train: 1 graphs of 1 to 2 nodes with label 1 .* only 0 were found"),
        (
            {"train": 0, "validation": 14, "test": 14, "small_nodes": (1, 5), "large_nodes": (4, 4)},
            r"validation: 1 graphs of 1 to 5 nodes with label [6-9] .* only 0 were found",
        ),
        (
            {"train": 1, "validation": 1, "test": 2, "small_nodes": (3, 3)},
            r"validation: 1 graphs of 3 to 3 nodes with label 1 .* only 0 were found",  # train has the only one
        ),
    ],
)
def test_labels_that_no_graph_is_left_for_are_an_error_that_counts_them(arguments, message):
    with pytest.raises(ValueError, match=message):
        generate_triangles(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
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
        generate_triangles(**arguments)


def test_generated_graphs_have_the_columns_that_are_asked_for():
    usual, asked = (generate_triangles(train=10, validation=0, test=10, degree_columns=n)["large"] for n in (None, 4))
    degrees = np.bincount(asked.senders, minlength=asked.n_node.sum())
    np.testing.assert_array_equal(asked.nodes["features"], degrees[:, None] == np.arange(4))
    np.testing.assert_array_equal(usual.nodes["features"][:, :4], asked.nodes["features"])
    with pytest.raises(ValueError, match="degree_columns=0: expected at least 1"):
        generate_triangles(train=1, degree_columns=0)
