"""Batches gathered on the device are those that jraph pads on the host, and plans cover a split once."""

import functools

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from graph_strategies import BUCKET, CORNER_CASES, LARGEST, USUAL, graph_lists, make_graph, seeds
from graph_strategies import pad as pad_list
from hypothesis import given, settings
from hypothesis import strategies as st

from jattn.batching import Bucket, bucket_of, gather, pad, plan, put, scatter, shuffled_batches
from jattn.topology import Blocks, Edges, edges

fast = settings(max_examples=20, deadline=None, derandomize=True)


def assert_same_graphs(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


@functools.cache
def split_of(seed):
    """Twelve graphs of 0 to 6 nodes, and the same as one split on the device; every seed's split has the same sizes."""
    sizes = [3, 0, 6, 1, 2, 6, 0, 5, 4, 1, 3, 0]
    graph_list = [make_graph(size, 0.6, 100 * seed + i) for i, size in enumerate(sizes)]
    return graph_list, put(jraph.batch_np(graph_list))


gathered = jax.jit(gather, static_argnums=2)


@fast
@given(seed=st.integers(0, 3), ids=st.lists(st.integers(0, 11), max_size=4, unique=True))
def test_gathering_any_graphs_equals_batching_and_padding_them(seed, ids):
    graph_list, split = split_of(seed)
    batch = gathered(split, jnp.array(ids + [-1] * (BUCKET.graphs - 1 - len(ids)), int), BUCKET)
    chosen = [graph_list[i] for i in ids] or [make_graph(0, 0, 0)]
    expected = pad_list(chosen)
    if ids:
        assert_same_graphs(batch.graph, expected)
    else:
        assert batch.graph.n_node.tolist() == [BUCKET.nodes, 0, 0, 0, 0, 0]
        assert not jraph.get_graph_padding_mask(batch.graph).any()
    nodes = sum(int(graph_list[i].n_node[0]) for i in ids)
    assert batch.graph_ids.tolist() == ids + [12] * (BUCKET.graphs - len(ids))
    total = int(split.graphs.n_node.sum())
    assert (batch.node_ids[nodes:] == total).all()
    for i in ids:
        start = int(split.node_start[i])
        assert set(range(start, start + int(graph_list[i].n_node[0]))) <= set(batch.node_ids[:nodes].tolist())
    assert len(set(batch.node_ids[:nodes].tolist())) == nodes


@pytest.mark.parametrize("graph_list", CORNER_CASES.values(), ids=CORNER_CASES)
def test_gathering_works_for_splits_without_nodes_or_edges(graph_list):
    ids = jnp.pad(jnp.arange(len(graph_list)), (0, BUCKET.graphs - 1 - len(graph_list)), constant_values=-1)
    assert_same_graphs(gather(put(jraph.batch_np(graph_list)), ids, BUCKET).graph, pad_list(graph_list))


@fast
@given(seed=seeds, steps=st.integers(1, 4))
def test_scatter_undoes_gather(seed, steps):
    _, split = split_of(0)
    ids = np.random.default_rng(seed).permutation(12)[: steps * 3].reshape(steps, 3)
    batches = [gathered(split, jnp.asarray(np.pad(row, (0, 2), constant_values=-1)), BUCKET) for row in ids]
    node_ids, graph_ids, attention, label = (
        jnp.stack(x)
        for x in zip(
            *((b.node_ids, b.graph_ids, b.graph.nodes["attention"], b.graph.globals["label"] + 1) for b in batches),
            strict=True,
        )
    )
    chosen = np.isin(np.arange(12), ids)
    expected = np.where(chosen, split.graphs.globals["label"] + 1, 0)
    np.testing.assert_array_equal(scatter(12, graph_ids, label), expected)
    on_nodes = np.where(np.repeat(chosen, split.graphs.n_node), split.graphs.nodes["attention"], 0)
    np.testing.assert_array_equal(scatter(len(on_nodes), node_ids, attention), on_nodes)


def test_with_attention_replaces_the_target_alone():
    _, split = split_of(0)
    target = jnp.arange(len(split.graphs.nodes["attention"]), dtype=jnp.float32)
    other = split.with_attention(target)
    np.testing.assert_array_equal(other.graphs.nodes["attention"], target)
    assert_same_graphs(other.with_attention(split.graphs.nodes["attention"]), split)


@fast
@given(graph_list=graph_lists, seed=seeds)
def test_bucket_of_is_the_smallest_in_multiples_of_8_that_holds_every_batch(graph_list, seed):
    rng = np.random.default_rng(seed)
    batches = np.stack([np.where(rng.random(3) < 0.8, rng.integers(len(graph_list), size=3), -1) for _ in range(2)])
    bucket = bucket_of(jraph.batch_np(graph_list), batches)
    for name in ("nodes", "edges"):
        size = getattr(bucket, name)
        largest = max(sum(int(getattr(graph_list[i], f"n_{name[:-1]}")[0]) for i in row if i >= 0) for row in batches)
        assert size % 8 == 0
        assert largest < size <= largest + 8  # one row at least is left for padding
    assert bucket.graphs == 4
    assert bucket.slots == max([1] + [int(graph_list[i].n_node[0]) for i in batches[batches >= 0]])


@fast
@given(graph_list=graph_lists)
def test_pad_is_that_of_jraph_with_the_smallest_bucket(graph_list):
    graphs = jraph.batch_np(graph_list)
    bucket = bucket_of(graphs, np.arange(len(graph_list)))
    expected = jraph.pad_with_graphs(graphs, bucket.nodes, bucket.edges, bucket.graphs)
    assert_same_graphs(pad(graphs), expected)
    assert_same_graphs(pad(graphs, BUCKET), jax.tree.map(np.asarray, pad_list(graph_list)))


@pytest.mark.parametrize(
    ("bucket", "message"),
    [
        (Bucket(6, 64, 2, 6), "bucket: 6 nodes, but the graphs and their padding need 7"),
        (Bucket(8, 8, 2, 6), "bucket: 8 edges, but the graphs and their padding need"),
        (Bucket(8, 64, 1, 6), "bucket: 1 graphs, but the graphs and their padding need 2"),
        (Bucket(8, 64, 2, 5), "bucket: 5 slots, but the graphs and their padding need 6"),
    ],
)
def test_pad_refuses_a_bucket_that_is_too_small(bucket, message):
    with pytest.raises(ValueError, match=message):
        pad(USUAL, bucket)
    assert pad(USUAL, Bucket(7, 64, 2, 6)).n_node.tolist() == [6, 1]


def as_dense(topology):
    """A of all rows: its columns are what it makes of unit vectors."""
    unit = topology.zero_dropped(jnp.eye(len(topology.graph_of)))
    return topology.to_rows(topology.multiply(topology.to_slots(unit)))


@pytest.mark.parametrize(("slots", "storage"), [(6, Blocks), (128, Blocks), (129, Edges)])
@pytest.mark.parametrize("dense", [True, False])
def test_a_batch_has_the_topology_of_its_graph(slots, storage, dense):
    graph_list, split = split_of(0)
    split = split if dense else split.replace(adjacency=None)
    batch = gathered(split, jnp.array([2, 5, 3, -1, -1]), BUCKET._replace(slots=slots))
    assert isinstance(batch.topology, storage)
    expected = edges(pad_list([graph_list[i] for i in (2, 5, 3)]))
    np.testing.assert_array_equal(batch.topology.kept, expected.kept)
    np.testing.assert_allclose(batch.topology.degrees, expected.degrees, rtol=1e-6)
    np.testing.assert_array_equal(as_dense(batch.topology), as_dense(expected))


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


@fast
@given(
    sizes=st.lists(st.integers(0, 12), max_size=15),
    nodes=st.integers(1, 20),
    slots=st.sampled_from([(), (3,), (2, 5), (5, 100)]),
)
def test_a_plan_covers_every_graph_once_in_classes_of_size_within_its_bound(sizes, nodes, slots):
    graphs = jraph.batch_np([make_graph(n, 0, i) for i, n in enumerate(sizes)] or [make_graph(0, 0, 0)])
    sizes = np.array(sizes or [0])
    planned = list(plan(graphs, nodes, slots))
    flat = np.concatenate([batches[batches >= 0] for _, batches in planned])
    assert sorted(flat.tolist()) == list(range(len(sizes)))
    assert (np.diff(sizes[flat]) >= 0).all()
    classes = []
    for bucket, batches in planned:
        assert bucket == bucket_of(graphs, batches)
        members = batches[batches >= 0]
        (place,) = set(np.searchsorted(slots, sizes[members]).tolist())
        classes.append(place)
        for row in batches:
            real = row[row >= 0]
            assert len(real)
            assert (row[len(real) :] == -1).all()
            assert sizes[real].sum() <= nodes or len(real) == 1 or sizes[real[:-1]].sum() == 0
    assert classes == sorted(set(classes))
    assert max(bucket.slots for bucket, _ in planned) <= max(LARGEST, 12)
