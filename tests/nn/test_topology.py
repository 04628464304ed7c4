"""Chebyshev terms, degrees, blocks and pooling rules against formulas written out on small graphs."""

import chex
import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from cases import slow
from graph_strategies import BUCKET, EMPTY, ONE_NODE, USUAL, make_graph, pad, rows

from jattn.graphs import from_dense
from jattn.nn import ChebyGINConv, Network, Threshold, TopK, block_topology, chebyshev_terms, sparse_topology
from jattn.nn._chebyshev import chebyshev_filter

STORAGES = {"edges": sparse_topology, "blocks": lambda graph: block_topology(graph, len(graph.nodes["features"]))}
each_storage = pytest.mark.parametrize("storage", STORAGES)

PATH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], float)
ADJACENCIES = {
    "path": PATH,
    "weighted path": np.array([[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]]),
    "path with a self-loop": PATH + np.diag([0, 0, 1.5]),
    "no edges": np.zeros((3, 3)),
}
X = np.array([[1.0, -2.0, 0.1], [0.5, 3.0, -0.4], [-1.0, 0.25, 2.0]])


def expected_terms(adjacency, x, order):
    if order == 1:
        with_loops = adjacency + np.eye(len(adjacency))
        scale = np.diag(1 / np.sqrt(with_loops.sum(1) + 1e-5))
        return [scale @ with_loops @ scale @ x]
    scale = np.diag(1 / np.sqrt(adjacency.sum(1) + 1e-5))
    laplacian = -scale @ adjacency @ scale
    terms = [x, laplacian @ x]
    while len(terms) < order:
        terms.append(2 * laplacian @ terms[-1] - terms[-2])
    return terms


@each_storage
@pytest.mark.parametrize("order", range(1, 6))
@pytest.mark.parametrize("name", ADJACENCIES)
def test_chebyshev_terms_are_those_of_the_dense_formula(name, order, storage):
    graph = pad([USUAL, from_dense(X, ADJACENCIES[name], label=0)])
    x = jnp.pad(jnp.asarray(X), ((6, BUCKET.nodes - 9), (0, 0)))
    terms = jnp.stack(chebyshev_terms(x, STORAGES[storage](graph), order), 1)
    expected = np.stack(expected_terms(ADJACENCIES[name], X, order), 1)
    assert terms.shape == (BUCKET.nodes, order, 3)
    np.testing.assert_allclose(terms[6:9], expected, rtol=1e-5, atol=1e-5)
    assert not terms[9:].any()


@each_storage
@pytest.mark.parametrize("order", range(1, 6))
def test_chebyshev_terms_after_a_drop_are_those_of_the_smaller_matrix(order, storage):
    adjacency, kept = ADJACENCIES["weighted path"], np.array([True, True, False])
    graph = pad([from_dense(X, adjacency)])
    x = jnp.pad(jnp.asarray(X), ((0, BUCKET.nodes - 3), (0, 0)))
    topology = STORAGES[storage](graph).subgraph(rows([], kept))
    terms = jnp.stack(chebyshev_terms(topology.mask_nodes(x), topology, order), 1)
    expected = np.stack(expected_terms(adjacency[:2, :2], X[:2], order), 1)
    np.testing.assert_allclose(terms[:2], expected, rtol=1e-5, atol=1e-5)
    assert not terms[2:].any()


def test_the_terms_of_a_path_of_three_are_the_ones_computed_by_hand():
    graph = pad([from_dense([[1.0], [0.0], [0.0]], PATH)])
    terms = jnp.stack(chebyshev_terms(graph.nodes["features"], sparse_topology(graph), 4), 1)[:3, :, 0]
    half = 1 / np.sqrt(2)
    by_hand = [[1, 0, 0], [0, -half, 0], [0, 0, 1], [0, -half, 0]]  # T_0 ... T_3 of L with -1 / sqrt(2) along the path
    np.testing.assert_allclose(terms.T, by_hand, atol=1e-4)


@each_storage
@pytest.mark.parametrize("name", ADJACENCIES)
def test_the_scaled_product_is_that_of_the_dense_matrix_over_rows_whose_scale_is_not_0(name, storage):
    around = (6, BUCKET.nodes - 9)
    topology = STORAGES[storage](pad([USUAL, from_dense(X, ADJACENCIES[name], label=0)]))
    scale = np.array([0.5, -2.0, 0.0])
    y = topology.scaled_adjacency(jnp.pad(jnp.asarray(scale), around))(jnp.pad(jnp.asarray(X), (around, (0, 0))))
    expected = np.diag(scale) @ ADJACENCIES[name] @ np.diag(scale) @ X
    np.testing.assert_allclose(y, np.pad(expected, (around, (0, 0))), rtol=1e-5, atol=1e-6)


@each_storage
@pytest.mark.parametrize("name", ADJACENCIES)
def test_degrees_are_sums_of_weights_over_kept_neighbors(name, storage):
    adjacency = ADJACENCIES[name]
    topology = STORAGES[storage](pad([from_dense(X, adjacency)]))
    np.testing.assert_allclose(topology.degrees[:3], adjacency.sum(1), rtol=1e-6)
    np.testing.assert_allclose(topology.subgraph(rows([], [True, False, True])).degrees[:3], [0, 0, adjacency[2, 2]])


@each_storage
@pytest.mark.parametrize("order", range(1, 6))
@pytest.mark.parametrize("name", ADJACENCIES)
def test_sum_aggregation_multiplies_every_term_but_the_features_by_the_degree(name, order, storage):
    adjacency = ADJACENCIES[name]
    graph = pad([from_dense(X, adjacency)])
    convolution = ChebyGINConv(4, order, "sum")
    topology = STORAGES[storage](graph)
    variables = convolution.init(jax.random.key(0), graph.nodes["features"], topology)
    terms = expected_terms(adjacency, X, order)
    degrees = adjacency.sum(1)[:, None]
    terms = [(degrees + 1) * terms[0]] if order == 1 else [terms[0]] + [degrees * term for term in terms[1:]]
    linear = variables["params"]["linear"]
    expected = sum(terms[k] @ linear["kernel"][:, k] for k in range(order)) + linear["bias"]
    actual = convolution.apply(variables, graph.nodes["features"], topology)
    np.testing.assert_allclose(actual[:3], expected, rtol=1e-4, atol=1e-5)
    assert not actual[3:].any()


@each_storage
def test_readouts_run_over_kept_nodes_and_are_0_for_an_empty_graph(storage):
    graph_list = [make_graph(2, 0, 1), make_graph(0, 0, 1), make_graph(3, 0, 2)]
    topology = STORAGES[storage](pad(graph_list)).subgraph(rows([], [True, True, True, False, True]))
    x = topology.mask_nodes(jnp.arange(1.0, BUCKET.nodes + 1)[:, None])
    assert topology.sum(x)[:, 0].tolist() == [3, 0, 8, 0, 0, 0]
    assert topology.mean(x)[:, 0].tolist() == [1.5, 0, 4, 0, 0, 0]
    assert topology.max(x)[:, 0].tolist() == [2, 0, 5, 0, 0, 0]
    assert topology.num_nodes.tolist() == [2, 0, 2, 0, 0, 0]
    assert topology.broadcast_to_nodes(jnp.arange(6.0))[:5].tolist() == [0, 0, 2, 2, 2]


@pytest.mark.default_xla
@each_storage
@pytest.mark.parametrize("aggregation", ["mean", "sum"])
@pytest.mark.parametrize("features", [2, 5], ids=["narrower", "wider"])
@pytest.mark.parametrize("order", [1, 2, *map(slow, [3, 4, 5, 6]), 7])
def test_a_filter_is_the_product_of_the_terms_with_its_weights(order, features, aggregation, storage):
    topology = STORAGES[storage](pad([USUAL, make_graph(5, 0.5, 9)])).subgraph(rows([], np.arange(11) % 4 > 0))
    rng = np.random.default_rng(order)
    x = topology.mask_nodes(jnp.asarray(rng.normal(size=(BUCKET.nodes, 3)), jnp.float32))
    kernel = jnp.asarray(rng.normal(size=(3, order, features)), jnp.float32)
    bias = jnp.asarray(rng.normal(size=features), jnp.float32)
    cotangent = jnp.asarray(rng.normal(size=(BUCKET.nodes, features)), jnp.float32)

    def plain(x, kernel, bias):
        terms = chebyshev_terms(x, topology, order, aggregation)
        return topology.mask_nodes(sum(term @ kernel[:, k] for k, term in enumerate(terms)) + bias)

    def filtered(x, kernel, bias):
        return chebyshev_filter(x, kernel, bias, topology, aggregation)

    expected, expected_vjp = jax.vjp(plain, x, kernel, bias)
    actual, vjp = jax.vjp(filtered, x, kernel, bias)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-4)
    (dx, *weights), (expected_dx, *expected_weights) = vjp(cotangent), expected_vjp(cotangent)
    for a, b in zip([topology.mask_nodes(dx), *weights], [expected_dx, *expected_weights], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-4)


def test_blocks_refuse_rows_that_they_do_not_part():
    with pytest.raises(ValueError, match=r"block: 32 rows can't be parted into blocks of 5"):
        block_topology(pad([USUAL]), 5)


CROSSING = pad([make_graph(3, 1, 0), make_graph(6, 1, 0)])  # rows 3 to 8 are one graph


def test_blocks_refuse_an_edge_between_two_of_them():
    with pytest.raises(ValueError, match=r"block: an edge leaves its block of 4 rows"):
        block_topology(CROSSING, 4)


def test_blocks_too_small_inside_jit_give_nan_rather_than_lose_edges():
    def degrees(block):
        return jax.jit(lambda graph: block_topology(graph, block).degrees)(CROSSING)

    assert np.isnan(degrees(4)[:9]).all()
    np.testing.assert_allclose(degrees(16), sparse_topology(CROSSING).degrees, rtol=1e-6)


def topology_of(*sizes, storage="edges"):
    return STORAGES[storage](pad([make_graph(size, 0.5, size) for size in sizes]))


@each_storage
@pytest.mark.parametrize(
    ("size", "ratio", "dropped"),
    [
        (1, 0.5, 0),
        (2, 0.5, 1),
        (3, 0.5, 2),
        (5, 0.5, 2),
        (6, 0.75, 2),
        (6, 0.25, 4),
        (5, 0.9, 0),
        (6, 0.0, 6),
        (6, 1.0, 0),
    ],
)
def test_top_k_rounds_halves_to_even(size, ratio, dropped, storage):
    topology = topology_of(size, storage=storage)
    alpha = topology.softmax(jnp.sin(jnp.arange(BUCKET.nodes) * 2.0))
    kept = np.asarray(TopK(ratio)(alpha, topology))
    assert kept.sum() == size - dropped
    least_first = np.argsort(alpha[:size])
    assert set(np.flatnonzero(kept)) == set(least_first[dropped:].tolist())


@each_storage
def test_of_equal_alphas_top_k_keeps_the_lower_indices_of_each_graph(storage):
    topology = topology_of(4, 6, storage=storage)
    kept = TopK(0.5)(jnp.full(BUCKET.nodes, 0.1), topology)
    assert np.flatnonzero(kept).tolist() == [0, 1, 4, 5, 6]
    alpha = jnp.full(BUCKET.nodes, 0.1).at[3].set(0.2)
    assert np.flatnonzero(TopK(0.5)(alpha, topology)).tolist() == [0, 3, 4, 5, 6]


@each_storage
def test_top_k_counts_the_nodes_still_kept(storage):
    topology = topology_of(6, storage=storage).subgraph(rows([], [False, True, False, True, True, True]))
    kept = TopK(0.5)(jnp.where(topology.node_mask, 0.25, 0.0), topology)
    assert np.flatnonzero(kept).tolist() == [1, 3]


@pytest.mark.parametrize("ratio", [-0.1, 1.1])
def test_top_k_refuses_a_ratio_outside_0_to_1(ratio):
    with pytest.raises(ValueError, match=rf"ratio: {ratio} is not allowed, expected 0 to 1"):
        TopK(ratio)


@each_storage
def test_the_threshold_is_strict(storage):
    topology = topology_of(3, storage=storage)
    alpha = jnp.zeros(BUCKET.nodes).at[:3].set(jnp.array([0.25, np.nextafter(np.float32(0.25), np.float32(1)), 0.2]))
    assert np.flatnonzero(Threshold(0.25)(alpha, topology)).tolist() == [1]


@each_storage
def test_a_threshold_below_0_keeps_no_padding_and_no_node_dropped_before(storage):
    topology = topology_of(3, storage=storage).subgraph(rows([], [True, False, True]))
    assert np.flatnonzero(Threshold(-1.0)(jnp.zeros(BUCKET.nodes), topology)).tolist() == [0, 2]


def test_dropping_everything_then_more_changes_nothing():
    topology = topology_of(3)
    nothing = topology.subgraph(jnp.zeros(BUCKET.nodes, bool))
    assert not nothing.subgraph(jnp.ones(BUCKET.nodes, bool)).node_mask.any()
    assert not nothing.degrees.any()


@each_storage
def test_arrays_of_the_host_make_the_same_topology(storage):
    on_host = jax.tree.map(np.asarray, pad([USUAL]))
    chex.assert_trees_all_equal(STORAGES[storage](on_host), STORAGES[storage](pad([USUAL])))


@each_storage
def test_reductions_are_over_kept_nodes_whatever_other_rows_hold(storage):
    topology = STORAGES[storage](pad([USUAL, make_graph(5, 0.5, 9), EMPTY])).subgraph(rows([], np.arange(11) % 4 > 0))
    kept = np.asarray(topology.node_mask)
    x = jnp.asarray(np.random.default_rng(0).normal(-3, 1, (BUCKET.nodes, 4)), jnp.float32)  # all maxima are negative
    for left in (7.0, jnp.nan, jnp.inf):
        dirty = jnp.where(kept[:, None], x, left)
        for name, of_rows in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
            function = getattr(topology, name)
            actual, gradient = function(dirty), jax.grad(lambda x, f=function: f(x).sum())(dirty)
            for graph, (start, end) in enumerate(((0, 6), (6, 11))):
                single = np.asarray(x[start:end])[kept[start:end]]
                np.testing.assert_allclose(actual[graph], of_rows(single, axis=0), rtol=1e-5)
            assert not np.any(actual[2])  # no nodes
            assert np.isfinite(gradient).all()
            assert not gradient[~kept].any()
        s = jnp.where(kept[:, None], jnp.abs(x[:, :2]), left)
        expected = np.asarray(s[:6])[kept[:6]].T @ np.asarray(x[:6])[kept[:6]]
        np.testing.assert_allclose(topology.outer_sum(s, dirty)[0], expected, rtol=1e-4)


@each_storage
@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
def test_the_readout_of_masked_rows_is_that_of_relu(kind, storage):
    topology = STORAGES[storage](pad([USUAL, make_graph(5, 0.5, 9)])).subgraph(rows([], np.arange(11) % 4 > 0))
    x = topology.mask_nodes(jnp.sin(jnp.arange(BUCKET.nodes * 3.0).reshape(-1, 3)))
    np.testing.assert_allclose(topology.readout(x, kind), getattr(topology, kind)(jax.nn.relu(x)), rtol=1e-6)


def test_log_sum_is_the_logarithm_of_a_sum_and_0_at_the_typical_size():
    graph, networks = (
        pad([USUAL, EMPTY]),
        [Network((3,), readout=kind, typical_nodes=9.0) for kind in ("sum", "log_sum")],
    )
    params = networks[0].init(jax.random.key(0), graph)["params"]
    params["output"] = {"kernel": jnp.eye(3), "bias": jnp.zeros(3)}
    total, log = (network.clone(outputs=3).apply({"params": params}, graph).prediction[:2] for network in networks)
    assert total[0].max() > 0.1
    np.testing.assert_allclose(log, np.log2((1 + total) / 10), rtol=1e-5)
    np.testing.assert_allclose(networks[1].scale_readout(jnp.full((1, 3), 9.0)), 0, atol=1e-6)


def test_the_plain_softmax_is_shift_invariant_and_the_papers_is_not(unchecked_types):
    topology = sparse_topology(pad([USUAL, ONE_NODE, EMPTY])).subgraph(rows([], np.arange(7) != 2))
    scores = jnp.asarray(np.random.default_rng(1).normal(size=BUCKET.nodes) * 3, jnp.float32)
    plain = topology.softmax(scores, "plain")
    for shift in (-500, -20, 1000):
        np.testing.assert_allclose(topology.softmax(scores + shift, "plain"), plain, rtol=1e-3)
    np.testing.assert_allclose(topology.sum(plain)[:2], 1, rtol=1e-6)
    assert not plain[~topology.node_mask].any()
    np.testing.assert_allclose(plain, topology.softmax(scores), rtol=1e-4)
    assert topology.sum(topology.softmax(jnp.full(BUCKET.nodes, -20.0)))[1] < 0.03
    gradient = jax.grad(lambda s: (topology.softmax(s, "plain") * jnp.arange(BUCKET.nodes)).sum())(scores)
    assert np.isfinite(gradient).all()
    assert abs(float(gradient[6])) < 1e-6  # of a node alone in its graph
    emptied = topology.subgraph(jnp.zeros(BUCKET.nodes, bool))
    assert not emptied.softmax(scores, "plain").any()
    with pytest.raises(ValueError, match="softmax: 'soft' is not known"):
        topology.softmax(scores, "soft")


def test_a_sink_is_one_more_node_with_score_0_that_no_node_can_see():
    topology = sparse_topology(pad([USUAL, ONE_NODE, EMPTY])).subgraph(rows([], np.arange(7) != 2))
    scores = jnp.asarray(np.random.default_rng(1).normal(size=BUCKET.nodes) * 3, jnp.float32)
    alpha = np.asarray(topology.softmax(scores, "sink"))
    kept = np.flatnonzero(topology.node_mask[:6])
    expected = np.exp(np.append(np.asarray(scores)[kept], 0.0))
    np.testing.assert_allclose(alpha[kept], expected[:-1] / expected.sum(), rtol=1e-5)
    np.testing.assert_allclose(alpha[6], 1 / (1 + np.exp(-float(scores[6]))), rtol=1e-5)
    assert not alpha[~np.asarray(topology.node_mask)].any()
    gradient = jax.grad(lambda s: topology.softmax(s, "sink")[6])(scores)
    assert gradient[6] > 0.001  # also of a node alone in its graph
    huge = topology.softmax(jnp.full(BUCKET.nodes, 1e4), "sink")
    np.testing.assert_allclose(topology.sum(huge)[:2], 1, rtol=1e-6)


@each_storage
def test_an_unpadded_graph_is_refused(storage):
    for graph in (USUAL, jraph.batch_np([USUAL, ONE_NODE]), jraph.batch_np([USUAL, EMPTY])):
        with pytest.raises(ValueError, match=r"graph: it is not padded: its last graph, of \d nodes, would count as"):
            STORAGES[storage](graph)
        real = jnp.ones(len(graph.n_node), bool)
        told = (
            sparse_topology(graph, real)
            if storage == "edges"
            else block_topology(graph, len(graph.nodes["features"]), real)
        )
        assert told.node_mask.all()


@pytest.mark.parametrize("mask", [np.array([0, 2]), np.ones(3, bool), np.ones(BUCKET.nodes), [True] * BUCKET.nodes])
def test_masks_are_booleans_one_a_row(mask, unchecked_types):
    topology = sparse_topology(pad([USUAL]))
    with pytest.raises(ValueError, match="mask: expected a mask of booleans, one per row of the batch"):
        topology.subgraph(mask)
    with pytest.raises(ValueError, match="graph_mask: expected a mask of booleans, one per graph"):
        sparse_topology(pad([USUAL]), mask)
