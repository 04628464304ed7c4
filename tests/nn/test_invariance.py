"""Order, padding, batch mates, blocks and storage never change a result, and nothing is ever infinite."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import slow
from graph_strategies import (
    BUCKET,
    CORNER_CASES,
    LARGER_BUCKET,
    NO_TARGET,
    ONE_NODE,
    USUAL,
    graph_lists,
    node_count,
    pad,
    permute,
    rows,
    seeds,
    split_nodes,
)
from hypothesis import assume, example, given
from programs import (
    NETWORKS,
    SLOW,
    STORAGES,
    assert_close,
    assert_same_result,
    each_network,
    each_storage,
    fast,
    is_decided,
    packed_program,
    params_of,
    program,
    random_mask,
)

from jattn.nn import PoolingResult


@each_storage
@each_network
@fast
@given(graph_list=graph_lists, seed=seeds)
def test_permuting_nodes_permutes_attention_and_keeps_predictions(name, storage, graph_list, seed):
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(g.nodes["features"])) for g in graph_list]
    run = program(name, storage)
    before = run(pad(graph_list))
    assume(name == "ground_truth" or is_decided(graph_list, before[0][1].poolings))
    after = run(pad([permute(g, order) for g, order in zip(graph_list, orders, strict=True)]))
    assert_same_result(after, before, len(graph_list))
    for a, b in zip(after[0][1].poolings, before[0][1].poolings, strict=True):
        for field in PoolingResult._fields:
            pairs = zip(*(split_nodes(graph_list, getattr(x, field)) for x in (a, b)), orders, strict=True)
            for permuted, original, order in pairs:
                assert_close(permuted.astype(float), original[order].astype(float))


@each_storage
@each_network
@fast
@given(graph_list=graph_lists)
def test_padding_bucket_and_batch_mates_never_change_a_prediction(name, storage, graph_list):
    run = program(name, storage)
    _, together = run(pad(graph_list))[0]
    assume(name == "ground_truth" or is_decided(graph_list, together.poolings))
    mates = [NO_TARGET, *reversed(graph_list), ONE_NODE]
    _, elsewhere = run(pad(mates, LARGER_BUCKET))[0]
    assert_close(elsewhere.prediction[1 : 1 + len(graph_list)][::-1], together.prediction[: len(graph_list)])
    for here, there in zip(together.poolings, elsewhere.poolings, strict=True):
        for field in PoolingResult._fields:
            moved = split_nodes(mates, getattr(there, field))[1:-1][::-1]
            for a, b in zip(split_nodes(graph_list, getattr(here, field)), moved, strict=True):
                assert_close(b.astype(float), a.astype(float))


@each_network
@fast
@given(graph_list=graph_lists, seed=seeds)
def test_edges_and_blocks_agree_in_outputs_and_gradients(name, graph_list, seed):
    graph, mask = pad(graph_list), rows(graph_list, random_mask(graph_list, seed))
    by_edges, by_blocks = (program(name, storage)(graph, mask) for storage in STORAGES)
    assume(name == "ground_truth" or is_decided(graph_list, by_edges[0][1].poolings))
    assert_same_result(by_blocks, by_edges, len(graph_list))
    for a, b in zip(by_edges[0][1].poolings, by_blocks[0][1].poolings, strict=True):
        assert_close(a.attention, b.attention)
        np.testing.assert_array_equal(a.node_mask_in, b.node_mask_in)
        np.testing.assert_array_equal(a.node_mask, b.node_mask)


@each_storage
@each_network
@fast
@example(graph_list=CORNER_CASES["all of these"], seed=0)
@example(graph_list=CORNER_CASES["empty"], seed=0)
@given(graph_list=graph_lists, seed=seeds)
def test_packing_graphs_into_several_blocks_changes_no_result(name, storage, graph_list, seed):
    graph, mask = pad(graph_list), rows(graph_list, random_mask(graph_list, seed))
    whole, packed = program(name, "edges")(graph, mask), packed_program(name, storage)(graph_list, mask)
    assume(name == "ground_truth" or is_decided(graph_list, whole[0][1].poolings))
    assert_same_result(packed, whole, len(graph_list))
    for a, b in zip(packed[0][1].poolings, whole[0][1].poolings, strict=True):
        assert_close(a.attention, b.attention)
        np.testing.assert_array_equal(a.node_mask_in, b.node_mask_in)
        np.testing.assert_array_equal(a.node_mask, b.node_mask)


@functools.cache
def derivatives_by_features_and_weights(storage):
    """Of a ChebyNet's outputs, by the input features and the edge weights: both storages have VJPs of their own."""

    params = params_of("chebynet")

    def run(features, weights, graph):
        graph = graph._replace(nodes={**graph.nodes, "features": features}, edges=weights)
        output = NETWORKS["chebynet"].apply({"params": params}, graph, STORAGES[storage](graph))
        return jnp.sum(jnp.sin(output.prediction)[:4])

    return jax.jit(jax.grad(run, argnums=(0, 1)))


@fast
@given(graph_list=graph_lists)
def test_edges_and_blocks_agree_in_derivatives_by_features_and_weights(graph_list):
    graph = pad(graph_list)
    assume(is_decided(graph_list, program("chebynet", "edges")(graph)[0][1].poolings))
    by_edges, by_blocks = (
        derivatives_by_features_and_weights(storage)(graph.nodes["features"], graph.edges, graph)
        for storage in STORAGES
    )
    for of_edges, of_blocks, sides in zip(by_edges, by_blocks, (None, reverse_of(graph)), strict=True):
        if sides is not None:  # an undirected edge has one weight: only the sum over its directions has a meaning
            of_edges, of_blocks = of_edges + of_edges[sides], of_blocks + of_blocks[sides]
        assert_close(of_blocks, of_edges, 1e-4)


def reverse_of(graph):
    """The place of each edge's reverse; padding edges, all between the same two nodes, are their own."""
    pairs = list(zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True))
    place = {pair: i for i, pair in enumerate(pairs)}
    return np.array([place[r, s] if s != r else i for i, (s, r) in enumerate(pairs)])


@each_storage
@pytest.mark.parametrize("name", [slow(name) if name in SLOW else name for name in NETWORKS])
@pytest.mark.parametrize("corner", CORNER_CASES)
def test_outputs_and_gradients_are_finite_in_every_corner(corner, name, storage):
    graph_list = CORNER_CASES[corner]
    (loss, output), gradient = program(name, storage)(pad(graph_list))
    assert output.prediction.shape == (BUCKET.graphs, 3)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((loss, output, gradient)))


@each_storage
@each_network
@pytest.mark.parametrize("value", [1e30, np.inf, -np.inf, np.nan])
def test_nothing_that_stands_in_padding_changes_anything(value, name, storage):
    graph_list = CORNER_CASES["all of these"]
    graph = pad(graph_list)
    nodes, edge_rows = node_count(graph_list), sum(len(g.edges) for g in graph_list)
    spoilt = graph._replace(
        nodes={name: x.at[nodes:].set(value) for name, x in graph.nodes.items()},
        edges=graph.edges.at[edge_rows:].set(value),
    )
    run = program(name, storage)
    (loss, output), gradient = run(graph)
    (spoilt_loss, spoilt_output), spoilt_gradient = run(spoilt)
    assert np.isfinite(spoilt_loss)
    chex.assert_trees_all_equal(spoilt_output, output)
    chex.assert_trees_all_equal((spoilt_loss, spoilt_gradient), (loss, gradient))


@each_network
def test_every_weight_of_the_networks_tested_here_has_a_gradient(name):
    _, gradient = program(name, "edges")(pad([USUAL]))
    without = [path for path, leaf in jax.tree_util.tree_leaves_with_path(gradient) if np.abs(leaf).max() == 0]
    # A softmax does not feel the last bias of a scorer.
    assert all("scorer" in jax.tree_util.keystr(path) and path[-1].key == "bias" for path in without)
