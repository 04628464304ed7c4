"""Complete graphs whose weights follow from positions are the same graphs as with every edge listed."""

import functools

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from cases import slow
from graph_strategies import seeds
from hypothesis import given
from hypothesis import strategies as st
from jraph import GraphsTuple
from programs import NETWORKS, assert_close, fast, total_loss

from jattn.attribution import leave_one_out
from jattn.batching import device_put, gather, pack, pad, scatter
from jattn.graphs import Proximity, check, list_edges
from jattn.nn import block_topology, sparse_topology

NODES, GRAPHS = 24, 5  # rows of a padded set of graphs, and graphs of it
SIZES = st.lists(st.integers(0, 6), min_size=1, max_size=3)


NEAR = Proximity(0.4)


def points(sizes, seed, rule=NEAR):
    """Graphs of so many nodes at random places."""
    rng, total = np.random.default_rng(seed), sum(sizes)
    none = np.zeros(0, np.int32)
    return GraphsTuple(
        nodes={
            "features": rng.normal(size=(total, 3)).astype(np.float32),
            "attention": (rng.random(total) * (rng.random(total) < 0.6)).astype(np.float32),
            "position": rng.random((total, 2), np.float32),
        },
        edges=rule,
        senders=none,
        receivers=none,
        globals={"label": rng.integers(0, 3, len(sizes)).astype(np.int32)},
        n_node=np.array(sizes, np.int32),
        n_edge=np.zeros(len(sizes), np.int32),
    )


@pytest.mark.parametrize(("squared", "expected"), [(False, np.exp(-5 / 2)), (True, np.exp(-25 / 2))])
def test_weights_of_two_nodes_are_those_of_their_distance(squared, expected):
    graph = points([2], 0, Proximity(2.0, squared))
    graph.nodes["position"][:] = [[1, 1], [4, 5]]
    topology = block_topology(pad(graph), block_size=8)
    np.testing.assert_allclose(topology.adjacency[0, :2, :2], [[0, expected], [expected, 0]], rtol=3e-6)
    np.testing.assert_allclose(list_edges(graph).edges, [expected] * 2, rtol=3e-6)
    np.testing.assert_allclose(topology.degrees[:2], expected, rtol=3e-6)
    assert not topology.adjacency[0, 2:].any()


@pytest.mark.parametrize("squared", [False, True])
def test_positions_have_finite_gradients_also_where_two_nodes_are_at_one_place(squared):
    graph = pad(points([3, 1], 0, Proximity(2.0, squared)))
    graph.nodes["position"][1] = graph.nodes["position"][0]

    def total(position):
        moved = graph._replace(nodes={**graph.nodes, "position": position})
        return block_topology(moved, block_size=len(position)).degrees.sum()

    gradient = jax.grad(total)(jnp.asarray(graph.nodes["position"]))
    assert np.isfinite(gradient).all()
    assert gradient[:3].any()


@functools.cache
def program(storage):
    @jax.jit
    def run(graph, kept):
        params = NETWORKS["chebygin"].init(jax.random.key(1), graph, storage(graph))["params"]
        return total_loss(params, NETWORKS["chebygin"], graph, storage(graph).subgraph(kept))

    return run


def in_one_block(graph):
    return block_topology(graph, NODES)


@pytest.mark.slow
@fast
@given(SIZES, st.booleans(), seeds)
def test_networks_say_the_same_as_with_every_edge_listed(sizes, squared, seed):
    graph = points(sizes, seed, Proximity(0.4, squared))
    check(graph)
    check(list_edges(graph))
    kept = jnp.asarray(np.random.default_rng(seed).random(NODES) < 0.8)
    actual = program(in_one_block)(jraph.pad_with_graphs(graph, NODES, 1, GRAPHS), kept)
    expected = program(sparse_topology)(jraph.pad_with_graphs(list_edges(graph), NODES, 128, GRAPHS), kept)
    assert_close(actual[0], expected[0])
    assert_close(actual[1].prediction[: len(sizes)], expected[1].prediction[: len(sizes)])


@pytest.mark.parametrize("sizes", [slow([0]), slow([1]), [6, 0, 1, 5, 6, 2, 4, 6], slow([150, 3, 140])])
def test_batches_of_any_size_are_packed_into_blocks(sizes):
    """Where lists of edges would take the place of blocks of over 128 rows, complete graphs keep theirs."""
    graphs = points(sizes, 5)
    packed = pack(graphs, np.arange(len(sizes))[None])
    batch = gather(device_put(graphs), jnp.asarray(packed.ids[0, 0]), packed.bucket)
    degrees = scatter(sum(sizes), batch.node_ids, batch.topology.degrees)
    listed = list_edges(graphs)
    expected = np.zeros(sum(sizes))
    np.add.at(expected, listed.receivers, listed.edges)
    assert packed.bucket.block_size >= max(sizes)
    np.testing.assert_allclose(degrees, expected, rtol=1e-5)


@pytest.mark.slow
def test_leaving_nodes_out_is_the_same_as_with_every_edge_listed():
    graphs = points([5, 6, 1], 3)
    network = NETWORKS["chebygin"]

    def labels(graph, storage):
        graph = jax.tree.map(jnp.asarray, graph)
        params = network.init(jax.random.key(1), graph, storage(graph))["params"]

        def predict(graph, kept):
            return network.apply({"params": params}, graph, storage(graph).subgraph(kept)).prediction

        return leave_one_out(predict, graph, task="classification").attention[:12]

    by_rule = labels(jraph.pad_with_graphs(graphs, NODES, 1, GRAPHS), in_one_block)
    assert_close(by_rule, labels(jraph.pad_with_graphs(list_edges(graphs), NODES, 128, GRAPHS), sparse_topology))


def test_what_is_wrong_is_named():
    graph = points([3, 2], 0)
    with pytest.raises(ValueError, match="width: 0 is not allowed"):
        Proximity(0)
    with pytest.raises(ValueError, match="weights follow from positions; take `block_topology"):
        sparse_topology(pad(graph))
    with pytest.raises(ValueError, match="listed already"):
        list_edges(list_edges(graph))
    with pytest.raises(ValueError, match='need "position"'):
        check(graph._replace(nodes={name: graph.nodes[name] for name in ("features", "attention")}))
    with pytest.raises(ValueError, match=r"position.*one row per node \(5\)"):
        check(graph._replace(nodes={**graph.nodes, "position": graph.nodes["position"][:4]}))
    with pytest.raises(ValueError, match=r"n_edge: 2 edges are listed"):
        check(graph._replace(n_edge=np.array([2, 0], np.int32)))
