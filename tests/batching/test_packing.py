"""Every graph of a batch gets rows of its own in one block; epochs and plans hold every graph once."""

import jraph
import numpy as np
import pytest
from graph_strategies import make_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from jattn.batching import evaluation_batches, pack, shuffled_batches, size_classes
from jattn.batching._packing import MAX_DEVIATION, prediction_classes
from jattn.batching._training_batches import pack_training
from jattn.graphs import Proximity, from_dense

fast = settings(max_examples=40, deadline=None, derandomize=True)
some_sizes = st.lists(st.integers(0, 12), min_size=1, max_size=15)


def graphs_of(sizes):
    """Graphs without edges: how they are packed depends on their sizes."""
    return jraph.batch_np([make_graph(n, 0, i) for i, n in enumerate(sizes)])


def blocks_of(entries):
    """The graphs of each block: every -1 ends one."""
    ends = np.flatnonzero(entries < 0)
    return [part[part >= 0] for part in np.split(entries, ends + 1)]


@fast
@given(sizes=some_sizes, parts=st.integers(1, 3), seed=st.integers(0, 99), dense=st.booleans())
def test_each_graph_has_one_block_with_room_for_it(sizes, parts, seed, dense):
    sizes, rng = np.array(sizes), np.random.default_rng(seed)
    batches = np.where(rng.random((2, 4)) < 0.8, rng.integers(len(sizes), size=(2, 4)), -1)
    ids, bucket = pack(graphs_of(sizes), batches, parts, dense)
    assert bucket.is_dense == dense
    assert ids.shape == (2, parts, bucket.graphs)
    assert bucket.nodes % bucket.block_size == 0
    assert bucket.max_nodes == max([1, *sizes[batches[batches >= 0]].tolist()])
    for of_parts, batch in zip(ids, batches, strict=True):
        placed = of_parts[of_parts >= 0]
        assert sorted(placed.tolist()) == sorted(batch[batch >= 0].tolist())
        for entries in of_parts:
            blocks = blocks_of(entries)
            assert all(sizes[block].sum() <= bucket.block_size for block in blocks)
            assert not any(len(block) for block in blocks[bucket.nodes // bucket.block_size :])


@fast
@given(sizes=st.lists(st.integers(0, 12), min_size=20, max_size=40), parts=st.integers(2, 4))
def test_parts_have_about_as_many_nodes_each(sizes, parts):
    sizes = np.array(sizes)
    ids, _ = pack(graphs_of(sizes), np.arange(len(sizes))[None], parts, dense=False)
    nodes = [sizes[part[part >= 0]].sum() for part in ids[0]]
    assert max(nodes) - min(nodes) <= sizes.max()


def test_a_part_needs_no_more_rows_for_that():
    sizes = np.array([48, 48, 32, 32, 32])  # the emptiest part takes the next: 112 and 80; first fit: 96 and 96
    _, bucket = pack(graphs_of(sizes), np.arange(len(sizes))[None], 2, dense=False)
    assert bucket.nodes == 104


def test_devices_have_about_as_many_nodes_in_all_of_their_chunks():
    sizes = np.arange(100, 900, 100)
    ids, _ = pack_training(graphs_of(sizes), np.arange(len(sizes))[None], parts=2, most_rows=1)
    nodes = np.append(sizes, 0)[ids].sum(-1).reshape(2, -1)
    assert nodes.shape[1] > 1
    assert abs(nodes.sum(1)[0] - nodes.sum(1)[1]) <= 100


def test_the_fullest_blocks_do_not_all_go_to_the_first_part():
    sizes = np.arange(60, 76)  # no two fit into a block
    ids, bucket = pack(graphs_of(sizes), np.arange(len(sizes))[None], 2, dense=True)
    assert bucket.nodes == 8 * bucket.block_size
    first, second = (sizes[part[part >= 0]].sum() for part in ids[0])
    assert first == second


@pytest.mark.parametrize("parts", [1, 2])
def test_sparse_graphs_share_one_block_a_part(parts):
    sizes = np.array([130, 40, 30, 200])
    ids, bucket = pack(graphs_of(sizes), np.arange(4)[None], parts)
    assert not bucket.is_dense
    assert bucket.block_size == bucket.nodes
    assert bucket.nodes <= 1.1 * max(200, sizes.sum() / parts) + 16
    assert all(len(blocks_of(entries)[0]) >= 1 for entries in ids[0])


def test_edges_are_counted_for_the_fullest_part():
    graphs = jraph.batch_np([make_graph(6, 1, i) for i in range(4)])
    ids, bucket = pack(graphs, np.arange(4)[None], 2)
    most = max(int(graphs.n_edge[part[part >= 0]].sum()) for part in ids[0])
    assert most < bucket.edges <= most + 8


@fast
@given(sizes=some_sizes, density=st.sampled_from([0, 0.2, 0.6, 1]), parts=st.integers(1, 3))
def test_there_is_room_for_all_edges_of_sparse_graphs_side_by_side_or_in_the_list(sizes, density, parts):
    graph_list = [make_graph(n, density, i) for i, n in enumerate(sizes)]
    ids, bucket = pack(jraph.batch_np(graph_list), np.arange(len(sizes))[None], parts, dense=False)
    degrees = [np.bincount(graph.receivers, minlength=1) for graph in graph_list]
    others = [
        sum(np.maximum(degrees[i] - bucket.storage.ell_width, 0).sum() for i in part[part >= 0]) for part in ids[0]
    ]
    assert bucket.storage.coo_capacity == max(others)
    assert bucket.storage.ell_width <= max(degree.max() for degree in degrees)


def test_a_hub_does_not_widen_the_table_of_all_nodes():
    hub = np.zeros((100, 100))
    hub[0, 1:] = hub[1:, 0] = 1
    _, bucket = pack(from_dense(np.zeros((100, 1)), hub), np.zeros((1, 1), int))
    assert (bucket.storage.ell_width, bucket.storage.coo_capacity) == (1, 98)


@pytest.mark.parametrize(("density", "dense"), [(0.02, False), (1, True)])
def test_a_is_dense_where_many_nodes_are_joined(density, dense):
    _, bucket = pack(make_graph(60, density, 0), np.zeros((1, 1), int))
    assert bucket.is_dense == dense


def test_density_is_that_of_the_graphs_in_the_batches():
    graphs = jraph.batch_np([make_graph(40, 1, 0), make_graph(60, 0.02, 1)])
    assert [pack(graphs, np.array([[i]])).bucket.is_dense for i in range(2)] == [True, False]


def test_a_batch_of_empty_graphs_or_of_none_is_packed():
    for batch in ([0, 1], [-1, -1]):
        ids, bucket = pack(graphs_of([0, 0]), np.array([batch]))
        assert sorted(ids[ids >= 0].tolist()) == [i for i in batch if i >= 0]
        assert bucket.nodes >= 1


@pytest.mark.slow
def test_small_graphs_fill_what_large_ones_leave():
    sizes = np.random.default_rng(0).integers(4, 26, 3200)
    _, bucket = pack(graphs_of(sizes), shuffled_batches(0, 1, sizes, 32)[0])
    assert bucket.nodes < 1.4 * sizes.mean() * 32  # 25 rows for each of 32 graphs would be 1.7 times


@fast
@given(seed=st.integers(0, 99), epochs=st.integers(0, 3), graphs=st.integers(0, 20), batch=st.integers(1, 7))
def test_shuffled_batches_hold_every_graph_once_an_epoch(seed, epochs, graphs, batch):
    n_node = np.random.default_rng(seed).integers(0, 9, graphs)
    batches = shuffled_batches(seed, epochs, n_node, batch)
    assert batches.shape == (epochs, -(-graphs // batch), batch)
    for epoch in batches:
        flat = epoch.ravel()
        assert sorted(flat[:graphs].tolist()) == list(range(graphs))
        assert (flat[graphs:] == -1).all()
    np.testing.assert_array_equal(batches, shuffled_batches(seed, epochs, n_node, batch))


def test_shuffled_batches_differ_between_epochs_and_seeds():
    n_node = np.arange(40)
    batches = shuffled_batches(0, 2, n_node, 8)
    assert (batches[0] != batches[1]).any()
    assert (batches != shuffled_batches(1, 2, n_node, 8)).any()


def test_no_batch_has_far_more_nodes_than_the_mean():
    n_node = np.random.default_rng(1).integers(4, 26, 6400)
    totals = n_node[shuffled_batches(0, 3, n_node, 32)].sum(-1)
    assert totals.max() <= 32 * n_node.mean() + MAX_DEVIATION * np.sqrt(32) * n_node.std()
    assert totals.std() > 0.7 * np.sqrt(32) * n_node.std()  # else orders would hardly be random


@pytest.mark.parametrize("n_node", [np.full(64, 7), np.r_[np.full(63, 3), 5000], np.zeros(64, int)])
def test_evening_out_comes_to_an_end_where_there_is_nothing_to_even_out(n_node):
    batches = shuffled_batches(0, 2, n_node, 8)
    assert all(sorted(epoch.ravel().tolist()) == list(range(64)) for epoch in batches)


@fast
@given(
    sizes=some_sizes,
    nodes=st.integers(1, 20),
    parts=st.integers(1, 3),
    classes=st.sampled_from([(), (3,), (2, 5), (5, 100)]),
)
def test_a_plan_covers_every_graph_once_in_classes_of_size_within_its_bound(sizes, nodes, parts, classes):
    sizes = np.array(sizes)
    seen, found = [], []
    for ids, bucket in evaluation_batches(graphs_of(sizes), nodes, parts, classes):
        assert ids.shape[0] == parts
        members = ids[ids >= 0]
        seen += members.tolist()
        (place,) = set(np.searchsorted(classes, sizes[members]).tolist())
        found.append(place)
        assert bucket.max_nodes == max(1, sizes[members].max())
        for step in ids.reshape(-1, ids.shape[-1]):
            real = sizes[step[step >= 0]]
            assert real.sum() <= max(nodes, sizes[members].max())
    assert sorted(seen) == list(range(len(sizes)))
    assert found == sorted(set(found))


def test_classes_part_sizes_where_enough_graphs_are_smaller():
    graphs = graphs_of(np.repeat([4, 8, 20], 30))
    assert size_classes(graphs, ratio=1.5, least=20) == (4, 8)
    assert size_classes(graphs, ratio=1.5, least=50) == ()


def test_a_few_very_large_graphs_make_a_class_with_the_next_smaller_ones():
    graphs = graphs_of([4] * 30 + [8] * 30 + [100])
    assert size_classes(graphs, ratio=1.5, least=20) == (4,)


def test_one_program_predicts_sparse_graphs_of_all_sizes():
    """Their rows are packed whatever the sizes; blocks of A fit graphs of one size best."""
    sizes = [4] * 1500 + [40] * 1500
    graphs = graphs_of(sizes)
    assert prediction_classes(graphs) == ()
    ((ids, bucket),) = evaluation_batches(graphs, 1024)
    assert np.sum(sizes) > 0.95 * ids.shape[1] * bucket.nodes
    assert prediction_classes(graphs._replace(edges=Proximity(0.1))) == size_classes(graphs) == (4,)


@pytest.mark.slow
def test_rows_of_test_graphs_of_all_sizes_are_mostly_real():
    sizes = np.r_[np.random.default_rng(0).integers(4, 26, 5000), np.random.default_rng(1).integers(26, 101, 5000)]
    graphs = graphs_of(sizes)
    for ids, bucket in evaluation_batches(graphs, 1024, sizes=size_classes(graphs)):
        rows = ids.shape[0] * ids.shape[1] * bucket.nodes
        assert sizes[ids[ids >= 0]].sum() > rows / 2


def test_complete_graphs_are_not_laid_out_as_sparse_ones():
    graphs = make_graph(5, 1, 0)
    with pytest.raises(ValueError, match="dense: all nodes of these graphs are joined"):
        pack(graphs._replace(edges=Proximity(0.1)), np.zeros((1, 1), int), dense=False)
