"""Attention is a softmax over a graph's kept nodes, and its loss a divergence: both written out."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graph_strategies import (
    BUCKET,
    NO_TARGET,
    ONE_NODE,
    USUAL,
    graph_lists,
    make_graph,
    node_count,
    pad,
    rows,
    seeds,
    split_nodes,
)
from hypothesis import given
from hypothesis import strategies as st
from programs import STORAGES, each_storage, fast, random_mask

from jattn.graphs import from_arrays
from jattn.nn import (
    AttentionPooling,
    AttentionPoolingConfig,
    PoolingResult,
    ScorerConfig,
    Threshold,
    sparse_topology,
)
from jattn.training import attention_loss, task_loss

ISOLATED_PAIR = make_graph(2, 0, 8)


@functools.cache
def softmax_of(storage):
    return jax.jit(lambda graph, scores, kept: STORAGES[storage](graph).subgraph(kept).softmax(scores))


@each_storage
@fast
@given(graph_list=graph_lists, seed=seeds, scale=st.sampled_from([1.0, 1e4]))
def test_attention_sums_to_one_over_the_kept_nodes_of_each_graph(storage, graph_list, seed, scale):
    mask = random_mask(graph_list, seed)
    scores = np.random.default_rng(seed).uniform(-8, 8, BUCKET.nodes).astype(np.float32) * np.float32(scale)
    alpha = np.asarray(softmax_of(storage)(pad(graph_list), scores, rows(graph_list, mask)))
    assert np.isfinite(alpha).all()
    assert (alpha >= 0).all()
    assert not alpha[: len(mask)][~mask].any()
    assert not alpha[len(mask) :].any()
    clipped = split_nodes(graph_list, np.clip(scores, -60, 60).astype(np.float64))
    groups = (split_nodes(graph_list, alpha), split_nodes(graph_list, mask), clipped)
    for of_graph, kept, score in zip(*groups, strict=True):
        total = np.exp(score)[kept].sum()
        assert abs(of_graph.sum() - total / (total + 1e-7)) < 1e-5


@each_storage
def test_scores_far_beyond_60_are_clamped_and_finite_with_their_gradients(storage):
    scores = np.array([1e4, -1e4, 60, 0, -60, 1e4], np.float32)
    graph = pad([USUAL])
    padded = jnp.pad(scores, (0, BUCKET.nodes - 6), constant_values=1e4)
    alpha = STORAGES[storage](graph).softmax(padded)
    np.testing.assert_allclose(alpha[:6], np.array([1, 0, 1, 0, 0, 1]) / 3, atol=1e-6)
    gradient = jax.grad(lambda s: STORAGES[storage](graph).softmax(s)[3])(padded)
    assert np.isfinite(gradient).all()


@each_storage
def test_a_graph_of_very_low_scores_has_little_attention_rather_than_nan(storage):
    alpha = STORAGES[storage](pad([USUAL])).softmax(jnp.full(BUCKET.nodes, -1e4))
    np.testing.assert_allclose(alpha[:6], np.exp(-60) / (6 * np.exp(-60) + 1e-7), rtol=1e-5)


@each_storage
def test_attention_loss_is_zero_with_zero_gradient_where_there_is_no_target(storage):
    graph = pad([NO_TARGET, ONE_NODE])
    topology = STORAGES[storage](graph)

    def loss(scores, target):
        return attention_loss(
            PoolingResult(topology.softmax(scores), topology.node_mask, topology.node_mask), target, topology
        )

    scores = jnp.linspace(-3, 3, BUCKET.nodes)
    value, gradient = jax.value_and_grad(loss)(scores, jnp.zeros(BUCKET.nodes))
    assert value == 0
    assert not gradient.any()
    assert loss(scores, jnp.arange(BUCKET.nodes) % 2.0) > 0


@each_storage
def test_attention_loss_is_the_divergence_written_out(storage):
    graph_list = [USUAL, NO_TARGET, ISOLATED_PAIR]
    topology = STORAGES[storage](pad(graph_list))
    present = topology.node_mask & (jnp.arange(BUCKET.nodes) != 1)
    alpha = topology.subgraph(present).softmax(jnp.linspace(-3, 3, BUCKET.nodes))
    target = jnp.where(jnp.arange(BUCKET.nodes) < node_count(graph_list), jnp.arange(BUCKET.nodes) % 3.0, 0)
    divergences = []
    for a, t, here in zip(*(split_nodes(graph_list, x) for x in (alpha, target, present)), strict=True):
        a, t = a[here].astype(float), t[here] / t[here].sum()
        positive = t > 0
        divergences.append((t[positive] * (np.log(t[positive]) - np.log(a[positive] + 1e-14))).sum() / here.sum())
    value = attention_loss(PoolingResult(alpha, present, present), target, topology)
    np.testing.assert_allclose(value, np.mean(divergences), rtol=1e-5)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_losses_of_the_parts_of_a_batch_over_one_count_add_up_to_that_of_the_batch(task):
    def losses(graph_list, count=None):
        graph = pad(graph_list)
        topology = sparse_topology(graph)
        outputs = topology.max(topology.mask_nodes(jnp.abs(graph.nodes["features"])))
        prediction = outputs[:, :1] if task == "regression" else outputs
        pooled = PoolingResult(topology.softmax(graph.nodes["features"][:, 0]), topology.node_mask, topology.node_mask)
        by_task = task_loss(prediction, graph.globals["label"], topology.graph_mask, task, count)
        return np.array([by_task, attention_loss(pooled, graph.nodes["attention"], topology, count)])

    one, several = [USUAL], [make_graph(4, 0.5, 9), NO_TARGET, ISOLATED_PAIR]
    whole = losses([*one, *several])
    assert (whole > 0).all()
    np.testing.assert_allclose(losses(one, jnp.int32(4)) + losses(several, jnp.int32(4)), whole, rtol=1e-5)


@pytest.mark.parametrize("softmax", ["clamped", "sink"])
def test_renormalized_attention_does_not_feel_how_many_nodes_were_dropped(softmax):
    config = AttentionPoolingConfig(Threshold(0.05), ScorerConfig("linear"), softmax=softmax, renormalize=True)
    params = {"params": {"scorer": {"projection": {"kernel": jnp.array([[4.0], [-1.0]])}}}}
    pool = AttentionPooling(config)

    def pooled(dropped):
        """Features of 2 nodes that are kept, beside others that are not."""
        x = jnp.asarray([[1.0, 0.0], [1.1, 0.0]] + [[0.0, 1.0]] * dropped)
        x = jnp.pad(x, ((0, BUCKET.nodes - len(x)), (0, 0)))
        topology = sparse_topology(pad([make_graph(2 + dropped, 0, 1)]))
        z, reduced, result = pool.apply(params, x, topology)
        return z[:2], reduced.node_mask, result.attention

    few, mask, attention = pooled(1)
    assert mask.sum() == 2
    many, mask, weaker = pooled(9)
    assert mask.sum() == 2
    assert (weaker[:2] < attention[:2] - 1e-4).all()
    np.testing.assert_allclose(many, few, rtol=1e-5)
    np.testing.assert_allclose(few[:, 0] / jnp.array([1.0, 1.1]), jax.nn.softmax(jnp.array([4.0, 4.4])), rtol=1e-5)


def test_renormalized_attention_of_an_emptied_graph_is_0_with_a_finite_gradient():
    config = AttentionPoolingConfig(Threshold(0.9), ScorerConfig("linear"), softmax="sink", renormalize=True)
    x, topology = jnp.ones((BUCKET.nodes, 2)), sparse_topology(pad([USUAL]))

    def loss(kernel):
        params = {"params": {"scorer": {"projection": {"kernel": kernel}}}}
        return AttentionPooling(config).apply(params, x, topology)[0].sum()

    value, gradient = jax.value_and_grad(loss)(jnp.zeros((2, 1)))
    assert value == 0
    assert np.isfinite(gradient).all()


@fast
@given(st.integers(1, 3), st.integers(1, 3), seeds, st.booleans())
def test_relative_attention_of_a_repeated_graph_is_that_of_the_graph(nodes, copies, seed, renormalize):
    """Copies of all nodes in one graph have the same features after pooling, and the same of them are kept."""
    config = AttentionPoolingConfig(Threshold(0.7), ScorerConfig("linear"), renormalize=renormalize, relative=True)
    x = np.random.default_rng(seed).uniform(-2, 2, (nodes, 3)).astype(np.float32)
    params = {"params": {"scorer": {"projection": {"kernel": jnp.array([[1.0], [-1.0], [0.5]])}}}}

    def pooled(times):
        graph = pad([from_arrays(np.tile(x, (times, 1)), [], [])])
        z, reduced, _ = AttentionPooling(config).apply(params, graph.nodes["features"], sparse_topology(graph))
        return z[:nodes], reduced.node_mask[:nodes]

    (once, mask), (several, same_mask) = pooled(1), pooled(copies)
    weights = np.asarray(jax.nn.softmax(x @ np.array([1.0, -1.0, 0.5])) * nodes)
    if np.abs(weights - 0.7).min() > 1e-4:
        assert mask.tolist() == same_mask.tolist() == (weights > 0.7).tolist()
        np.testing.assert_allclose(several, once, rtol=1e-4, atol=1e-5)
    if not renormalize:
        np.testing.assert_allclose(once, np.where(mask[:, None], weights[:, None] * x, 0), rtol=1e-4, atol=1e-5)
