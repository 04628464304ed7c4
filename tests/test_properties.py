"""What holds for any graphs: masks equal removal, order and padding do not matter, nothing is ever lost or infinite."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilation import jit
from graph_strategies import (
    BUCKET,
    CORNER_CASES,
    LARGER_BUCKET,
    LARGEST,
    NO_TARGET,
    ONE_NODE,
    USUAL,
    graph_lists,
    make_graph,
    node_count,
    pad,
    permute,
    remove,
    rows,
    seeds,
    split_nodes,
)
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from jattn.attention import Scorer
from jattn.batching import drop_nodes
from jattn.leave_one_out import leave_one_out
from jattn.losses import attention_loss, task_loss
from jattn.model import Network
from jattn.pooling import AttentionPooling, Pooled, Threshold, TopK
from jattn.topology import blocks, edges

BY_NETWORK = AttentionPooling(TopK(0.6), Scorer("network", filters=5), "current")
NETWORKS = {
    "gcn": Network((5, 4), order=1, readout="max", outputs=3),
    "gin": Network((5, 4), order=1, aggregation="sum", hidden=6, readout="sum", outputs=3),
    "chebynet": Network(
        (5, 4),
        order=3,
        readout="max",
        outputs=3,
        poolings=(None, AttentionPooling(Threshold(0.15), Scorer("mlp", hidden=6), "previous")),
    ),
    "chebygin": Network(
        (5, 4, 4), order=4, aggregation="sum", hidden=6, outputs=3, poolings=(None, BY_NETWORK, BY_NETWORK)
    ),
    "truth": Network(
        (5, 4), readout="mean", outputs=3, poolings=(None, AttentionPooling(Threshold(0.1), Scorer("truth")))
    ),
    "nothing kept": Network(
        (5, 4), readout="max", outputs=3, poolings=(AttentionPooling(Threshold(1.0), Scorer("linear")),)
    ),
}
POOLING_OR_NOT = ["gcn", "gin", "chebynet", "chebygin", "truth"]
STORAGES = {"edges": edges, "blocks": lambda graph: blocks(graph, LARGEST)}

fast = settings(max_examples=25, deadline=None, derandomize=True)
each_network = pytest.mark.parametrize("name", POOLING_OR_NOT)
each_storage = pytest.mark.parametrize("storage", STORAGES)


@functools.cache
def params_of(name):
    graph = pad([USUAL])
    return jax.jit(lambda: NETWORKS[name].init(jax.random.key(1), graph)["params"])()


def total_loss(params, network, graph, topology):
    output = network.apply({"params": params}, graph, topology)
    loss = task_loss(output.prediction, graph.globals["label"], topology.real, "classification")
    terms = [attention_loss(pooled, graph.nodes["attention"], topology) for pooled in output.poolings]
    return loss + sum(terms), output


@functools.cache
def program(name, storage):
    """(graph, rows to keep) -> (loss, output), gradient; compiled once a bucket."""

    @jit
    def run(params, graph, kept):
        topology = STORAGES[storage](graph).keep(kept)
        return jax.value_and_grad(total_loss, has_aux=True)(params, NETWORKS[name], graph, topology)

    def on_rows(graph, kept=None):
        kept = jnp.ones(len(graph.nodes["attention"]), bool) if kept is None else kept
        return jax.tree.map(np.asarray, run(params_of(name), graph, kept))

    return on_rows


def assert_close(actual, expected, tolerance=2e-5):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    if expected.size:
        assert np.abs(actual - expected).max() <= tolerance * max(1, np.abs(expected).max())


def assert_same_result(actual, expected, graphs):
    """Loss, predictions of the real graphs and gradient of two runs of `program`."""
    ((loss, output), gradient), ((expected_loss, expected_output), expected_gradient) = actual, expected
    assert_close(output.prediction[:graphs], expected_output.prediction[:graphs])
    assert_close(loss, expected_loss)
    jax.tree.map(functools.partial(assert_close, tolerance=1e-4), gradient, expected_gradient)


def is_decided(graph_list, poolings, taus=(0.15, 0.1)):
    """Whether rounding can't change which nodes stay: no alpha near a threshold or, within a graph, near another."""
    for pooled in poolings:
        present = split_nodes(graph_list, pooled.present)
        for alpha, here in zip(split_nodes(graph_list, pooled.attention), present, strict=True):
            alpha = np.sort(alpha[here])
            if (np.diff(alpha) < 1e-5).any() or any((np.abs(alpha - tau) < 1e-5).any() for tau in taus):
                return False
    return True


def random_mask(graph_list, seed):
    return np.random.default_rng(seed).random(node_count(graph_list)) < 0.6


@each_storage
@each_network
@fast
@given(graph_list=graph_lists, seed=seeds)
def test_masking_equals_removal(name, storage, graph_list, seed):
    mask = random_mask(graph_list, seed)
    reduced = [remove(g, m) for g, m in zip(graph_list, split_nodes(graph_list, mask), strict=True)]
    run = program(name, storage)
    masked, removed = run(pad(graph_list), rows(graph_list, mask)), run(pad(reduced))
    assume(name == "truth" or is_decided(reduced, removed[0][1].poolings))
    assert_same_result(masked, removed, len(graph_list))
    for by_mask, by_removal in zip(masked[0][1].poolings, removed[0][1].poolings, strict=True):
        for field in Pooled._fields:
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
    kept, alpha = np.asarray(pooled.kept)[:n], np.asarray(pooled.attention)[:n]
    reduced = [
        remove(g._replace(nodes={**g.nodes, "features": g.nodes["features"] * a[:, None]}), k)
        for g, a, k in zip(graph_list, split_nodes(graph_list, alpha), split_nodes(graph_list, kept), strict=True)
    ]
    assert_close(prediction[: len(graph_list)], without_pooling(storage)(params, pad(reduced))[: len(graph_list)])


ISOLATED_PAIR = make_graph(2, 0, 8)
REST = Network((5, 4), order=3, readout="mean", outputs=3)


@functools.cache
def pooled_at_the_input(rule, storage):
    network = REST.clone(poolings=(AttentionPooling(rule),))
    params = network.init(jax.random.key(2), pad([USUAL]))["params"]

    @jit
    def run(graph):
        output = network.apply({"params": params}, graph, STORAGES[storage](graph))
        return output.prediction, output.poolings[0]

    return lambda graph: (*run(graph), {name: params[name] for name in ("conv_0", "conv_1", "output")})


@functools.cache
def without_pooling(storage):
    return jit(lambda params, graph: REST.apply({"params": params}, graph, STORAGES[storage](graph)).prediction)


dropped = jit(drop_nodes)


@each_network
@fast
@given(graph_list=graph_lists, seed=seeds)
def test_dropping_nodes_from_the_graph_equals_masking_them(name, graph_list, seed):
    graph, mask = pad(graph_list), rows(graph_list, random_mask(graph_list, seed))
    run = program(name, "edges")
    by_mask, by_graph = run(graph, mask), run(dropped(graph, mask))
    assume(name == "truth" or is_decided(graph_list, by_mask[0][1].poolings))
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
@each_network
@fast
@given(graph_list=graph_lists, seed=seeds)
def test_permuting_nodes_permutes_attention_and_keeps_predictions(name, storage, graph_list, seed):
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(g.nodes["features"])) for g in graph_list]
    run = program(name, storage)
    before = run(pad(graph_list))
    assume(name == "truth" or is_decided(graph_list, before[0][1].poolings))
    after = run(pad([permute(g, order) for g, order in zip(graph_list, orders, strict=True)]))
    assert_same_result(after, before, len(graph_list))
    for a, b in zip(after[0][1].poolings, before[0][1].poolings, strict=True):
        for field in Pooled._fields:
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
    assume(name == "truth" or is_decided(graph_list, together.poolings))
    mates = [NO_TARGET, *reversed(graph_list), ONE_NODE]
    _, elsewhere = run(pad(mates, LARGER_BUCKET))[0]
    assert_close(elsewhere.prediction[1 : 1 + len(graph_list)][::-1], together.prediction[: len(graph_list)])
    for here, there in zip(together.poolings, elsewhere.poolings, strict=True):
        for field in Pooled._fields:
            moved = split_nodes(mates, getattr(there, field))[1:-1][::-1]
            for a, b in zip(split_nodes(graph_list, getattr(here, field)), moved, strict=True):
                assert_close(b.astype(float), a.astype(float))


@each_network
@fast
@given(graph_list=graph_lists, seed=seeds)
def test_edges_and_blocks_agree_in_outputs_and_gradients(name, graph_list, seed):
    graph, mask = pad(graph_list), rows(graph_list, random_mask(graph_list, seed))
    by_edges, by_blocks = (program(name, storage)(graph, mask) for storage in STORAGES)
    assume(name == "truth" or is_decided(graph_list, by_edges[0][1].poolings))
    assert_same_result(by_blocks, by_edges, len(graph_list))
    for a, b in zip(by_edges[0][1].poolings, by_blocks[0][1].poolings, strict=True):
        assert_close(a.attention, b.attention)
        np.testing.assert_array_equal(a.present, b.present)
        np.testing.assert_array_equal(a.kept, b.kept)


@functools.cache
def derivatives_by_features_and_weights(storage):
    """Of a ChebyNet's outputs, by the input features and the edge weights: both storages have VJPs of their own."""

    params = params_of("chebynet")

    def run(features, weights, graph):
        graph = graph._replace(nodes={**graph.nodes, "features": features}, edges=weights)
        output = NETWORKS["chebynet"].apply({"params": params}, graph, STORAGES[storage](graph))
        return jnp.sum(jnp.sin(output.prediction)[:4])

    return jit(jax.grad(run, argnums=(0, 1)))


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
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("corner", CORNER_CASES)
def test_outputs_and_gradients_are_finite_in_every_corner(corner, name, storage):
    graph_list = CORNER_CASES[corner]
    (loss, output), gradient = program(name, storage)(pad(graph_list))
    assert output.prediction.shape == (BUCKET.graphs, 3)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((loss, output, gradient)))


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
    empty = params_of(name)["output"]["bias"]  # the readout of an empty graph is 0
    for i in range(3):
        assert_close(output.prediction[i], empty if i in gone else whole.prediction[i])


@each_storage
@fast
@given(graph_list=graph_lists)
def test_a_threshold_of_one_drops_every_node_and_every_graph_keeps_its_row(storage, graph_list):
    (loss, output), gradient = program("nothing kept", storage)(pad(graph_list))
    assert not output.poolings[0].kept.any()
    expected = np.tile(params_of("nothing kept")["output"]["bias"], (len(graph_list), 1))
    assert_close(output.prediction[: len(graph_list)], expected)
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
    jax.tree.map(np.testing.assert_array_equal, spoilt_output, output)
    jax.tree.map(np.testing.assert_array_equal, (spoilt_loss, spoilt_gradient), (loss, gradient))


@each_storage
@pytest.mark.parametrize("value", [1e30, np.inf, np.nan])
def test_nothing_that_stands_in_dropped_rows_changes_anything(value, storage):
    graph_list = [USUAL, NO_TARGET]
    mask = random_mask(graph_list, 3)
    graph, kept = pad(graph_list), rows(graph_list, mask)
    spoilt = graph._replace(nodes={name: jnp.where(_over(kept, x), x, value) for name, x in graph.nodes.items()})
    run = program("chebynet", storage)
    jax.tree.map(np.testing.assert_array_equal, run(spoilt, kept), run(graph, kept))


def _over(mask, x):
    return mask.reshape(mask.shape + (1,) * (x.ndim - 1))


@functools.cache
def softmax_of(storage):
    return jit(lambda graph, scores, kept: STORAGES[storage](graph).keep(kept).softmax(scores))


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


@functools.cache
def predict_of(name, way):
    network, params = NETWORKS[name], params_of(name)

    def predict(graph, kept):
        if way == "dropped":
            return network.apply({"params": params}, drop_nodes(graph, kept), None).prediction
        return network.apply({"params": params}, graph, STORAGES[way](graph).keep(kept)).prediction

    return predict


@functools.cache
def leave_one_out_of(name, way, task, chunk):
    predict = predict_of(name, way)  # outside of jit, where weights are numbers
    return jit(lambda graph: leave_one_out(predict, graph, LARGEST, task=task, chunk=chunk))


def leave_one_out_by_loop(name, graph_list, task):
    """Removes every node of every graph for real, one after another."""
    run = program(name, "edges")

    def output(graph, column):
        return run(pad([graph]))[0][1].prediction[0, column]

    for graph in graph_list:
        whole = run(pad([graph]))[0][1].prediction[0]
        column = whole.argmax() if task == "classification" else 0
        n = len(graph.nodes["features"])
        moved = [abs(output(remove(graph, np.arange(n) != i), column) - whole[column]) for i in range(n)]
        yield np.array(moved, np.float64), whole[column]


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("way", ["edges", "blocks", "dropped"])
@pytest.mark.parametrize("name", ["gin"])
@settings(max_examples=8, deadline=None, derandomize=True)
@example(graph_list=CORNER_CASES["all of these"])
@example(graph_list=CORNER_CASES["empty"])
@given(graph_list=graph_lists)
def test_leave_one_out_equals_really_removing_each_node(name, way, task, graph_list):
    graph = pad(graph_list)
    result = leave_one_out_of(name, way, task, None)(graph)
    nodes = zip(split_nodes(graph_list, result.attention), split_nodes(graph_list, result.target), strict=True)
    for i, (moved, y) in enumerate(leave_one_out_by_loop(name, graph_list, task)):
        rounding = 1e-5 * max(1, abs(y)) * max(1, len(moved))
        attention, target = next(nodes)
        assert_close(attention * (moved.sum() + 1e-7), moved, rounding)
        assert_close(result.moved[i], moved.sum(), rounding)
        if moved.sum() > 3 * rounding:
            np.testing.assert_array_equal(target, attention)
    assert not result.attention[node_count(graph_list) :].any()
    assert not result.target[node_count(graph_list) :].any()


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_leave_one_out_in_chunks_equals_all_at_once(chunk):
    graph = pad(CORNER_CASES["all of these"])
    at_once, in_chunks = (leave_one_out_of("gin", "edges", "regression", c)(graph) for c in (None, chunk))
    jax.tree.map(assert_close, in_chunks, at_once)


@pytest.mark.parametrize("graph_list", CORNER_CASES.values(), ids=CORNER_CASES)
def test_leave_one_out_reads_the_largest_graph_where_it_is_not_told(graph_list):
    graph = pad(graph_list)
    predict = jax.jit(predict_of("gin", "edges"))
    expected = leave_one_out_of("gin", "edges", "regression", None)(graph)
    jax.tree.map(assert_close, leave_one_out(predict, graph), expected)


def test_a_graph_in_which_nothing_matters_gives_no_weak_target():
    def predict(graph, kept):
        topology = edges(graph).keep(kept)
        return topology.sum(topology.zero_dropped(graph.nodes["features"][:, :1])) + 5

    still = USUAL._replace(nodes={**USUAL.nodes, "features": np.zeros_like(USUAL.nodes["features"])})
    hardly = USUAL._replace(nodes={**USUAL.nodes, "features": np.full_like(USUAL.nodes["features"], 4e-6)})
    graph_list = [USUAL, still, hardly]
    graph = pad(graph_list)
    result = leave_one_out(predict, graph)
    usual, *others = split_nodes(graph_list, result.target)
    expected = np.abs(USUAL.nodes["features"][:, 0])
    assert_close(usual, expected / expected.sum())
    assert not np.any(others)


@each_storage
def test_attention_loss_is_zero_with_zero_gradient_where_there_is_no_target(storage):
    graph = pad([NO_TARGET, ONE_NODE])
    topology = STORAGES[storage](graph)

    def loss(scores, target):
        return attention_loss(Pooled(topology.softmax(scores), topology.kept, topology.kept), target, topology)

    scores = jnp.linspace(-3, 3, BUCKET.nodes)
    value, gradient = jax.value_and_grad(loss)(scores, jnp.zeros(BUCKET.nodes))
    assert value == 0
    assert not gradient.any()
    assert loss(scores, jnp.arange(BUCKET.nodes) % 2.0) > 0


@each_storage
def test_attention_loss_is_the_divergence_written_out(storage):
    graph_list = [USUAL, NO_TARGET, ISOLATED_PAIR]
    topology = STORAGES[storage](pad(graph_list))
    present = topology.kept & (jnp.arange(BUCKET.nodes) != 1)
    alpha = topology.keep(present).softmax(jnp.linspace(-3, 3, BUCKET.nodes))
    target = jnp.where(jnp.arange(BUCKET.nodes) < node_count(graph_list), jnp.arange(BUCKET.nodes) % 3.0, 0)
    divergences = []
    for a, t, here in zip(*(split_nodes(graph_list, x) for x in (alpha, target, present)), strict=True):
        a, t = a[here].astype(float), t[here] / t[here].sum()
        positive = t > 0
        divergences.append((t[positive] * (np.log(t[positive]) - np.log(a[positive] + 1e-14))).sum() / here.sum())
    value = attention_loss(Pooled(alpha, present, present), target, topology)
    np.testing.assert_allclose(value, np.mean(divergences), rtol=1e-5)
