"""Batches gathered on the device are those that jraph pads on the host, block by block."""

import functools

import chex
import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from graph_strategies import BUCKET, CORNER_CASES, USUAL, graph_lists, make_graph, seeds
from graph_strategies import pad as pad_list
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import changed_costs

from jattn.batching import Bucket, DenseStorage, SparseStorage, device_put, gather, pad, scatter
from jattn.batching import _packing as packing
from jattn.nn import BlockTopology, SparseTopology, sparse_topology

fast = settings(max_examples=20, deadline=None, derandomize=True)


def assert_same_graphs(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    chex.assert_trees_all_equal(actual, expected)


@functools.cache
def split_of(seed):
    """Twelve graphs of 0 to 6 nodes, and the same as one split on the device; every seed's split has the same sizes."""
    sizes = [3, 0, 6, 1, 2, 6, 0, 5, 4, 1, 3, 0]
    graph_list = [make_graph(size, 0.6, 100 * seed + i) for i, size in enumerate(sizes)]
    return graph_list, device_put(jraph.batch_np(graph_list))


gathered = jax.jit(gather, static_argnums=2)


def by_receiver(graph):
    """The same `GraphsTuple` with its edges in the order in which splits have them."""
    order = np.argsort(graph.receivers, kind="stable")
    return graph._replace(senders=graph.senders[order], receivers=graph.receivers[order], edges=graph.edges[order])


def test_padding_of_edges_takes_none_from_a_last_node_where_graphs_fill_all_rows():
    graph_list = [make_graph(6, 1, 0), make_graph(6, 1, 1)]
    bucket = Bucket(nodes=12, edges=80, graphs=3, max_nodes=6, storage=SparseStorage(3, 60))
    batch = gathered(device_put(jraph.batch_np(graph_list)), jnp.array([0, 1, -1]), bucket)
    expected = sparse_topology(pad_list(graph_list, BUCKET))
    np.testing.assert_array_equal(as_dense(batch.topology), as_dense(expected)[:12, :12])


@fast
@given(seed=st.integers(0, 3), ids=st.lists(st.integers(0, 11), max_size=4, unique=True))
def test_gathering_any_graphs_equals_batching_and_padding_them(seed, ids):
    graph_list, split = split_of(seed)
    batch = gathered(split, jnp.array(ids + [-1] * (BUCKET.graphs - 1 - len(ids)), int), BUCKET)
    chosen = [graph_list[i] for i in ids] or [make_graph(0, 0, 0)]
    if ids:
        assert_same_graphs(batch.graph, by_receiver(pad_list(chosen)))
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
    batch = gather(device_put(jraph.batch_np(graph_list)), ids, BUCKET)
    assert_same_graphs(batch.graph, by_receiver(pad_list(graph_list)))


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
@given(graph_list=graph_lists)
def test_pad_is_that_of_jraph_with_the_smallest_bucket(graph_list):
    graphs = jraph.batch_np(graph_list)
    nodes, edge_rows = (-(-(int(np.sum(n)) + 1) // 8) * 8 for n in (graphs.n_node, graphs.n_edge))
    assert_same_graphs(pad(graphs), jraph.pad_with_graphs(graphs, nodes, edge_rows, len(graph_list) + 1))
    assert_same_graphs(pad(graphs, BUCKET), jax.tree.map(np.asarray, pad_list(graph_list)))


@pytest.mark.parametrize(
    ("bucket", "message"),
    [
        (Bucket(6, 64, 2, 6), "bucket: 6 nodes, but the graphs and their padding need 7"),
        (Bucket(8, 8, 2, 6), "bucket: 8 edges, but the graphs and their padding need"),
        (Bucket(8, 64, 1, 6), "bucket: 1 graphs, but the graphs and their padding need 2"),
    ],
)
def test_pad_refuses_a_bucket_that_is_too_small(bucket, message):
    with pytest.raises(ValueError, match=message):
        pad(USUAL, bucket)
    assert pad(USUAL, Bucket(7, 64, 2, 6)).n_node.tolist() == [6, 1]


def as_dense(topology):
    """A of all rows: its columns are what it makes of unit vectors."""
    return topology.scaled_adjacency(topology.node_mask.astype(jnp.float32))(jnp.eye(len(topology.node_graph)))


@pytest.mark.parametrize(
    ("sizes", "storage"),
    [
        ({"block_size": 32, "storage": DenseStorage()}, BlockTopology),
        ({"storage": DenseStorage()}, BlockTopology),
        ({}, SparseTopology),
        ({"storage": SparseStorage(0, 152)}, SparseTopology),
        ({"storage": SparseStorage(2, 60)}, SparseTopology),
        ({"storage": SparseStorage(12, 0)}, SparseTopology),
    ],
)
def test_a_batch_has_the_topology_of_its_graph(sizes, storage):
    graph_list, split = split_of(0)
    batch = gathered(split, jnp.array([2, 5, 3, -1, -1]), BUCKET._replace(**sizes))
    assert isinstance(batch.topology, storage)
    expected = sparse_topology(pad_list([graph_list[i] for i in (2, 5, 3)], BUCKET))
    np.testing.assert_array_equal(batch.topology.node_mask, expected.node_mask)
    np.testing.assert_allclose(batch.topology.degrees, expected.degrees, rtol=1e-6)
    np.testing.assert_array_equal(as_dense(batch.topology), as_dense(expected))


@fast
@given(seed=st.integers(0, 3), ids=st.lists(st.integers(0, 11), min_size=1, max_size=5, unique=True))
@pytest.mark.slow
def test_graphs_in_several_blocks_are_the_same_graphs(seed, ids):
    graph_list, split = split_of(seed)
    bucket = Bucket(nodes=40, edges=152, graphs=10, max_nodes=6, block_size=8)
    with changed_costs(block_limit=bucket.block_size):
        packed, _ = packing.pack(jraph.batch_np(graph_list), np.array([ids]), dense=True)
    batch = gathered(split, np.pad(packed[0, 0], (0, 10 - packed.shape[2]), constant_values=-1), bucket)
    graph = jax.tree.map(np.asarray, batch.graph)
    assert int(graph.n_node.sum()) == bucket.nodes
    assert int(graph.n_edge.sum()) == bucket.edges
    start, edge_start = np.cumsum(graph.n_node) - graph.n_node, np.cumsum(graph.n_edge) - graph.n_edge
    found = []
    for place, i in enumerate(batch.graph_ids.tolist()):
        assert bool(batch.topology.graph_mask[place]) == (i < 12)
        nodes = slice(start[place], start[place] + graph.n_node[place])
        if i == 12:  # padding
            assert not graph.nodes["features"][nodes].any()
            assert not batch.topology.node_mask[nodes].any()
            continue
        found.append(i)
        edge_rows = slice(edge_start[place], edge_start[place] + graph.n_edge[place])
        expected = by_receiver(graph_list[i])
        for name, array in expected.nodes.items():
            np.testing.assert_array_equal(graph.nodes[name][nodes], array)
        np.testing.assert_array_equal(graph.edges[edge_rows], expected.edges)
        np.testing.assert_array_equal(graph.senders[edge_rows] - start[place], expected.senders)
        np.testing.assert_array_equal(graph.receivers[edge_rows] - start[place], expected.receivers)
        assert graph.globals["label"][place] == expected.globals["label"][0]
        if graph.n_node[place]:
            assert start[place] // bucket.block_size == (start[place] + graph.n_node[place] - 1) // bucket.block_size
    assert sorted(found) == sorted(ids)
    np.testing.assert_allclose(
        as_dense(batch.topology), as_dense(sparse_topology(batch.graph, batch.topology.graph_mask)), rtol=1e-6
    )


@pytest.mark.parametrize("sizes", [{"storage": DenseStorage()}, {}, {"storage": SparseStorage(2, 60)}])
def test_a_batch_that_no_padding_closes_is_that_of_its_graphs(sizes):
    graph_list, split = split_of(0)
    ids = jnp.array([2, 5, 3])
    batch = gathered(split, ids, BUCKET._replace(graphs=3, **sizes))
    expected = sparse_topology(pad_list([graph_list[i] for i in (2, 5, 3)], BUCKET))
    np.testing.assert_array_equal(batch.topology.node_mask, expected.node_mask)
    ones = jnp.ones((BUCKET.nodes, 1))
    np.testing.assert_array_equal(batch.topology.sum(ones)[:, 0], batch.graph.n_node)
    np.testing.assert_array_equal(as_dense(batch.topology), as_dense(expected))
    with pytest.raises(ValueError, match="ids: 4 entries, but the bucket has 3 graphs"):
        gather(split, jnp.array([2, 5, 3, -1]), BUCKET._replace(graphs=3))
