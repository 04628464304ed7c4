"""DiffPool: four nodes by hand, its loss without an N x N matrix, and what is refused. Properties are tested beside
those of other networks, in test_invariance.py and test_masking.py."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graph_strategies import CORNER_CASES, USUAL, graph_lists, make_graph, pad, remove, rows, seeds, split_nodes
from hypothesis import given
from programs import NETWORKS, STORAGES, assert_close, each_storage, fast, gather_small, pack_small, random_mask

from jattn.attribution._whole_split import _large_and_sparse
from jattn.graphs import Proximity, from_arrays, list_edges
from jattn.nn import (
    AttentionPoolingConfig,
    DiffPoolConfig,
    Network,
    ScorerConfig,
    Threshold,
    block_topology,
    cluster_assignment,
    sparse_topology,
)
from jattn.nn._diffpool import dense_diff_pool

CLUSTERS = 3
ATTENTION = AttentionPoolingConfig(Threshold(0.1), ScorerConfig())
clustered = jax.jit(dense_diff_pool)


@functools.cache
def clustered_of(storage):
    """(graph, rows to keep, scores) -> what `cluster` gives."""

    @jax.jit
    def run(graph, kept, scores):
        topology = STORAGES[storage](graph).subgraph(kept)
        return dense_diff_pool(topology.mask_nodes(graph.nodes["features"]), scores, topology)

    return run


@each_storage
def test_four_nodes_are_pooled_as_by_hand(storage):
    """A path 0 - 1 - 2 - 3, its middle edge of weight 2; nodes 0 and 1 are of the first cluster, 3 of the second."""
    path = from_arrays(
        [[1, 0], [2, 1], [4, 0], [0, 8]], [0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2], weights=[1, 1, 2, 2, 1, 1]
    )
    graph = pad([path])
    s = np.array([[1, 0], [1, 0], [0.25, 0.75], [0, 1]])
    scores = jnp.zeros((len(graph.nodes["features"]), 2)).at[:4].set(np.log(np.maximum(s, 1e-30)))
    x, topology, loss = clustered(graph.nodes["features"], scores, STORAGES[storage](graph))
    half = dense_diff_pool(graph.nodes["features"], scores, STORAGES[storage](graph), entropy_weight=0.5)

    np.testing.assert_allclose(x[:2], [[4, 1], [3, 8]], atol=1e-6)
    # Within the first cluster: 2 x 1 from edge 0-1, 2 x 2 x 0.25 from 1-2. Between: 2 x 0.75 from 1-2, 0.25 from 2-3.
    adjacency = [[3.0, 1.75], [1.75, 1.5]]
    np.testing.assert_allclose(topology.adjacency[0], adjacency, atol=1e-6)
    np.testing.assert_allclose(topology.degrees[:2], [4.75, 3.25], atol=1e-6)
    assert topology.node_mask.tolist() == [True] * 2 + [False] * (len(topology.node_mask) - 2)
    # S S^T is 1 on the diagonal but for 0.625 at node 2, and 1, 0.25, 0.25, 0.75 at pairs 01, 02, 12, 23.
    differences = 3 * 1**2 + 0.625**2 + 2 * ((1 - 1) ** 2 + 0.25**2 + (2 - 0.25) ** 2 + (1 - 0.75) ** 2)
    entropy = -0.25 * np.log(0.25) - 0.75 * np.log(0.75)
    np.testing.assert_allclose(loss[0], np.sqrt(differences) / 4 + entropy / 4, atol=1e-6)
    np.testing.assert_allclose(half[2][0], np.sqrt(differences) / 4 + 0.5 * entropy / 4, atol=1e-6)


def plain(graph, s):
    """The same from dense matrices of one graph, in float64."""
    n, s, x = len(s), s.astype(np.float64), graph.nodes["features"].astype(np.float64)
    a = np.zeros((n, n))
    a[graph.receivers, graph.senders] = graph.edges
    entropy = -(s * np.log(s)).sum()
    return s.T @ x, s.T @ a @ s, (np.linalg.norm(a - s @ s.T) + entropy) / max(n, 1)


def softmax(scores):
    return np.asarray(jax.nn.softmax(jnp.asarray(scores)))


@each_storage
@fast
@given(graph_list=graph_lists, seed=seeds)
def test_it_is_the_equations_on_dense_matrices(storage, graph_list, seed):
    graph, mask = pad(graph_list), random_mask(graph_list, seed)
    scores = np.random.default_rng(seed).normal(0, 2, (len(graph.nodes["features"]), CLUSTERS)).astype(np.float32)
    x, pooled, loss = clustered_of(storage)(graph, rows(graph_list, mask), scores)
    of_graphs = zip(graph_list, split_nodes(graph_list, mask), split_nodes(graph_list, scores), strict=True)
    for i, (one, kept, of_nodes) in enumerate(of_graphs):
        expected_x, expected_a, expected_loss = plain(remove(one, kept), softmax(of_nodes[kept]))
        assert_close(x[i * CLUSTERS : (i + 1) * CLUSTERS], expected_x)
        assert_close(pooled.adjacency[i], expected_a)
        assert_close(loss[i], expected_loss)
        assert bool(pooled.node_mask[i * CLUSTERS]) == kept.any()


@pytest.mark.slow
def test_complete_graphs_by_their_weights_rule_are_pooled_like_listed_ones():
    rule = Proximity(0.5)
    one = make_graph(5, 0, 3)
    position = np.random.default_rng(0).random((5, 2)).astype(np.float32)
    by_rule = one._replace(nodes={**one.nodes, "position": position}, edges=rule)
    x, listed = jnp.asarray(one.nodes["features"]), jax.tree.map(jnp.asarray, list_edges(by_rule))
    by_rule = jax.tree.map(jnp.asarray, by_rule)
    scores = jnp.asarray(np.random.default_rng(1).normal(size=(5, CLUSTERS)), jnp.float32)
    real = jnp.ones(1, bool)
    results = (
        clustered(x, scores, topology) for topology in (block_topology(by_rule, 5, real), sparse_topology(listed, real))
    )
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        assert_close(a, b)


@jax.jit
@functools.partial(jax.grad, argnums=(0, 1))
def gradient_of_everything(x, scores, graph):
    x, pooled, loss = dense_diff_pool(x, scores, sparse_topology(graph))
    return x.sum() + pooled.adjacency.sum() + pooled.normalized()(x).sum() + loss.sum(where=pooled.graph_mask)


@pytest.mark.parametrize("score", [0.0, 5000.0])
@pytest.mark.parametrize("graph_list", CORNER_CASES.values(), ids=CORNER_CASES)
def test_gradients_are_finite_where_the_root_and_the_logarithm_are_not(graph_list, score):
    """Hard assignments (a logarithm of 0 beside a 0), and A = S S^T, where the root has no derivative."""
    itself = from_arrays(np.ones((1, 3)), [0], [0], label=0)
    graph = pad([*graph_list[:3], itself])
    scores = jnp.zeros((len(graph.nodes["features"]), CLUSTERS)).at[:, 0].set(score)
    for gradient in gradient_of_everything(graph.nodes["features"], scores, graph):
        assert np.isfinite(gradient).all()


@each_storage
def test_graphs_laid_out_apart_have_the_products_and_derivatives_of_sums_over_segments(storage):
    split, ids = pack_small([*CORNER_CASES["all of these"][:3], USUAL])
    topology = gather_small(split, jnp.asarray(ids), storage).topology
    rng, nodes = np.random.default_rng(0), len(topology.node_mask)
    s, x = (topology.mask_nodes(jnp.asarray(rng.normal(size=(nodes, n)), jnp.float32)) for n in (2, 5))

    def run(s, x, largest):
        return jnp.sin(topology.replace(max_nodes=largest).outer_sum(s, x)).sum()

    apart, in_segments = (jax.value_and_grad(run, argnums=(0, 1))(s, x, largest) for largest in (6, 10**6))
    assert_close(apart[0], in_segments[0])
    for a, b in zip(apart[1], in_segments[1], strict=True):
        assert_close(topology.mask_nodes(a), topology.mask_nodes(b))


@pytest.mark.slow
def test_it_may_follow_attention_and_another_of_its_kind():
    network = Network((5, 4, 4), outputs=3, poolings=(ATTENTION, DiffPoolConfig(3), DiffPoolConfig(2)))
    graph = pad([USUAL])
    output = network.apply(network.init(jax.random.key(0), graph), graph)
    assert len(output.poolings) == 1
    assert [loss.shape for loss in output.auxiliary] == [(len(graph.n_node),)] * 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DiffPoolConfig(0), "clusters: 0 is not allowed, expected at least 1"),
        (lambda: DiffPoolConfig(entropy_weight=-1), "entropy_weight: -1.0 is not allowed, expected at least 0"),
        (lambda: Network(poolings=(DiffPoolConfig(), ATTENTION)), r"poolings\[1\]: after DiffPool nodes are clusters"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_auxiliary_loss_of_a_network_has_the_weight_of_its_entropy():
    graph = jax.device_put(pad([make_graph(5, 0.5, 0)]))
    networks = [Network(filters=(4, 4), poolings=(None, DiffPoolConfig(3, weight))) for weight in (0.0, 1.0, 3.0)]
    params = networks[0].init(jax.random.key(0), graph)["params"]
    none, one, three = (network.apply({"params": params}, graph).auxiliary[0][0] for network in networks)
    assert one > none
    assert_close(three - none, 3 * (one - none))


def test_leave_one_out_never_takes_subgraphs_for_it():
    graphs = make_graph(300, 0.01, 0)
    assert len(_large_and_sparse(NETWORKS["gcn"], graphs))
    assert not len(_large_and_sparse(NETWORKS["diffpool"], graphs))


def test_the_assignment_of_clusters_is_that_of_the_first_diffpool():
    graph = jax.device_put(pad([make_graph(5, 0.5, 0)]))
    network = Network(filters=(4, 4, 4), poolings=(None, DiffPoolConfig(3), DiffPoolConfig(2)))
    params = network.init(jax.random.key(0), graph)["params"]
    scores = cluster_assignment(network, params, graph)
    assert scores.shape == (len(graph.nodes["features"]), 3)
    assert_close(scores[:5].sum(1), np.ones(5))
    assert len(np.unique(np.asarray(scores[:5]).round(5), axis=0)) > 1

    bias = jnp.array([0.0, 3.0, 0.0])
    params["pool_1"]["assignment"] = jax.tree.map(
        lambda array: bias if array.shape == (3,) else jnp.zeros_like(array), params["pool_1"]["assignment"]
    )
    assert_close(cluster_assignment(network, params, graph)[:5], np.tile(jax.nn.softmax(bias), (5, 1)))


def test_a_network_without_diffpool_has_no_assignment():
    graph = jax.device_put(pad([make_graph(2, 1.0, 0)]))
    network = Network(filters=(4, 4))
    params = network.init(jax.random.key(0), graph)["params"]
    with pytest.raises(ValueError, match=r"network: its poolings are .*, expected a DiffPoolConfig"):
        cluster_assignment(network, params, graph)
