"""Dropping nodes by a mask is the same as removing them, down to graphs that lose them all."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graph_strategies import (
    NO_TARGET,
    USUAL,
    graph_lists,
    make_graph,
    node_count,
    pad,
    remove,
    rows,
    seeds,
    split_nodes,
)
from hypothesis import assume, given
from programs import (
    NETWORKS,
    STORAGES,
    assert_close,
    assert_same_result,
    each_network,
    each_storage,
    fast,
    is_decided,
    params_of,
    program,
    random_mask,
)

from jattn.batching import drop_nodes
from jattn.nn import AttentionPoolingConfig, Network, PoolingResult, Threshold, TopK

REST = Network((5, 4), order=3, readout="mean", outputs=3)
dropped = jax.jit(drop_nodes)


@each_storage
@each_network
@fast
@given(graph_list=graph_lists, seed=seeds)
def test_masking_equals_removal(name, storage, graph_list, seed):
    mask = random_mask(graph_list, seed)
    reduced = [remove(g, m) for g, m in zip(graph_list, split_nodes(graph_list, mask), strict=True)]
    run = program(name, storage)
    masked, removed = run(pad(graph_list), rows(graph_list, mask)), run(pad(reduced))
    assume(name == "ground_truth" or is_decided(reduced, removed[0][1].poolings))
    assert_same_result(masked, removed, len(graph_list))
    for by_mask, by_removal in zip(masked[0][1].poolings, removed[0][1].poolings, strict=True):
        for field in PoolingResult._fields:
            values = np.asarray(getattr(by_mask, field))
            assert_close(
                values[: len(mask)][mask].astype(float), getattr(by_removal, field)[: mask.sum()].astype(float)
            )
            assert not values[len(mask) :].any()
            assert not values[: len(mask)][~mask].any()


@each_storage
@pytest.mark.parametrize("rule", [Threshold(0.15), TopK(0.6)])
@fast
@given(graph_list=graph_lists)
def test_pooling_equals_the_rest_of_the_network_on_the_reduced_graph(rule, storage, graph_list):
    prediction, pooled, params = pooled_at_the_input(rule, storage)(pad(graph_list))
    n = node_count(graph_list)
    kept, alpha = np.asarray(pooled.node_mask)[:n], np.asarray(pooled.attention)[:n]
    reduced = [
        remove(g._replace(nodes={**g.nodes, "features": g.nodes["features"] * a[:, None]}), k)
        for g, a, k in zip(graph_list, split_nodes(graph_list, alpha), split_nodes(graph_list, kept), strict=True)
    ]
    assert_close(prediction[: len(graph_list)], without_pooling(storage)(params, pad(reduced))[: len(graph_list)])


@functools.cache
def pooled_at_the_input(rule, storage):
    network = REST.clone(poolings=(AttentionPoolingConfig(rule),))
    params = network.init(jax.random.key(2), pad([USUAL]))["params"]

    @jax.jit
    def run(graph):
        output = network.apply({"params": params}, graph, STORAGES[storage](graph))
        return output.prediction, output.poolings[0]

    return lambda graph: (*run(graph), {name: params[name] for name in ("conv_0", "conv_1", "output")})


@functools.cache
def without_pooling(storage):
    return jax.jit(lambda params, graph: REST.apply({"params": params}, graph, STORAGES[storage](graph)).prediction)


@each_network
@fast
@given(graph_list=graph_lists, seed=seeds)
def test_dropping_nodes_from_the_graph_equals_masking_them(name, graph_list, seed):
    graph, mask = pad(graph_list), rows(graph_list, random_mask(graph_list, seed))
    run = program(name, "edges")
    by_mask, by_graph = run(graph, mask), run(dropped(graph, mask))
    assume(name == "ground_truth" or is_decided(graph_list, by_mask[0][1].poolings))
    assert_same_result(by_graph, by_mask, len(graph_list))


@fast
@given(graph_list=graph_lists, seed=seeds)
def test_dropping_nodes_leaves_exactly_the_reduced_graphs(graph_list, seed):
    mask = random_mask(graph_list, seed)
    actual = dropped(pad(graph_list), rows(graph_list, mask))
    expected = pad([remove(g, m) for g, m in zip(graph_list, split_nodes(graph_list, mask), strict=True)])
    np.testing.assert_array_equal(actual.n_node, expected.n_node)
    np.testing.assert_array_equal(actual.n_edge, expected.n_edge)
    nodes, edge_rows = int(mask.sum()), int(expected.n_edge[: len(graph_list)].sum())
    for name in ("features", "attention"):
        np.testing.assert_array_equal(actual.nodes[name][:nodes], expected.nodes[name][:nodes])
    for field in ("senders", "receivers", "edges"):
        np.testing.assert_array_equal(getattr(actual, field)[:edge_rows], getattr(expected, field)[:edge_rows])
    assert (actual.senders[edge_rows:] >= nodes).all()
    assert (actual.receivers[edge_rows:] >= nodes).all()


@each_storage
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("gone", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_graph_that_lost_every_node_keeps_its_row_and_leaves_the_others_alone(gone, name, storage):
    graph_list = [USUAL, NO_TARGET, make_graph(4, 0.5, 6)]
    mask = np.concatenate([np.full(len(g.nodes["features"]), i not in gone) for i, g in enumerate(graph_list)])
    run = program(name, storage)
    (loss, output), gradient = run(pad(graph_list), rows(graph_list, mask))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((loss, output, gradient)))
    _, whole = run(pad(graph_list))[0]
    head, network = params_of(name)["output"], NETWORKS[name]
    empty = (network.scale_readout(jnp.zeros((1, network.filters[-1]))) @ head["kernel"] + head["bias"])[0]
    for i in range(3):
        assert_close(output.prediction[i], empty if i in gone else whole.prediction[i])


@each_storage
@fast
@given(graph_list=graph_lists)
def test_a_threshold_of_one_drops_every_node_and_every_graph_keeps_its_row(storage, graph_list):
    (loss, output), gradient = program("nothing kept", storage)(pad(graph_list))
    assert not output.poolings[0].node_mask.any()
    expected = np.tile(params_of("nothing kept")["output"]["bias"], (len(graph_list), 1))
    assert_close(output.prediction[: len(graph_list)], expected)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((loss, output, gradient)))


@each_storage
@pytest.mark.parametrize("value", [1e30, np.inf, np.nan])
def test_nothing_that_stands_in_dropped_rows_changes_anything(value, storage):
    graph_list = [USUAL, NO_TARGET]
    mask = random_mask(graph_list, 3)
    graph, kept = pad(graph_list), rows(graph_list, mask)
    spoilt = graph._replace(nodes={name: jnp.where(_over(kept, x), x, value) for name, x in graph.nodes.items()})
    run = program("chebynet", storage)
    chex.assert_trees_all_equal(run(spoilt, kept), run(graph, kept))


def _over(mask, x):
    return mask.reshape(mask.shape + (1,) * (x.ndim - 1))
