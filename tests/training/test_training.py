"""Training: one compiled program, each graph once an epoch, seeds apart, the schedule of the paper."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax
import pytest
from graph_strategies import make_graph
from graph_strategies import pad as pad_list

from jattn.batching import Bucket, device_put, pack, pad, shuffled_batches
from jattn.nn import AttentionPoolingConfig, Network, ScorerConfig, Threshold, sparse_topology
from jattn.nn._network import _drop_out
from jattn.training import TrainConfig, attention_loss, make_predict, make_train, prepare_seeds, task_loss
from jattn.training._checks import expect_params, warn_of_unused_weight
from jattn.training._optimizer import as_vector, make_optimizer

SIZES = [3, 6, 1, 0, 5, 4, 2]
GRAPHS = [make_graph(size, 0.6, 50 + i) for i, size in enumerate(SIZES)]
SPLIT = device_put(jraph.batch_np(GRAPHS))
ORDERS = shuffled_batches(0, 4, np.array(SIZES), 3)  # three steps an epoch, one graph in the last
PACKED, BUCKET = pack(jraph.batch_np(GRAPHS), ORDERS)
BATCHES = PACKED[:, :, 0]
POOLED = Network(
    (5, 4),
    order=2,
    readout="sum",
    outputs=3,
    poolings=(None, AttentionPoolingConfig(Threshold(0.1), ScorerConfig("linear"))),
)
CONFIG = TrainConfig("classification", attention_weight=2.0, learning_rate=1e-2)


@functools.cache
def pooled_train():
    return make_train(POOLED, CONFIG, BUCKET, BATCHES.shape[1])


@functools.cache
def pooled_epoch():
    return jax.jit(pooled_train().epoch)


@functools.cache
def start():
    return jax.jit(pooled_train().init)(jax.random.key(0), SPLIT)


tree_close = functools.partial(chex.assert_trees_all_close, rtol=1e-5, atol=1e-5)


def numbers(state):
    return state._replace(key=jax.random.key_data(state.key))


def test_several_epochs_trace_one_program():
    epoch, state = jax.jit(chex.assert_max_traces(pooled_train().epoch, 1)), start()
    for batches in BATCHES:
        state, _ = epoch(state, SPLIT, batches)


def test_training_gives_up_its_old_state_without_a_complaint():
    epoch = jax.jit(jax.vmap(pooled_train().epoch, in_axes=(0, None, 0)), donate_argnums=0)
    init = jax.jit(jax.vmap(pooled_train().init, in_axes=(0, None)))
    states = init(jax.random.split(jax.random.key(0), 2), SPLIT)
    states, (loss, _) = epoch(states, SPLIT, jnp.asarray(BATCHES[:2]))
    assert np.isfinite(loss).all()


@pytest.mark.default_xla
def test_seeds_together_equal_seeds_alone():
    keys = jax.random.split(jax.random.key(3), 3)
    orders = jnp.asarray(BATCHES[:3])  # each seed has its own order
    states = jax.jit(jax.vmap(pooled_train().init, in_axes=(0, None)))(keys, SPLIT)
    epoch = jax.jit(jax.vmap(pooled_train().epoch, in_axes=(0, None, 0)))
    for _ in range(2):
        states, results = epoch(states, SPLIT, orders)
    init = jax.jit(pooled_train().init)
    for i in range(3):
        state = init(keys[i], SPLIT)
        for _ in range(2):
            state, result = pooled_epoch()(state, SPLIT, orders[i])
        tree_close(jax.tree.map(lambda x, i=i: x[i], numbers(states)), numbers(state))
        tree_close(jax.tree.map(lambda x, i=i: x[i], results), result)


def direct_loss(params, graph_list):
    return loss_and_gradient(params, pad_list(graph_list, Bucket(24, 120, 8, 6)))[0]


@jax.jit
@jax.value_and_grad
def loss_and_gradient(params, graph):
    topology = sparse_topology(graph)
    output = POOLED.apply({"params": params}, graph, topology)
    loss = task_loss(output.prediction, graph.globals["label"], topology.graph_mask, CONFIG.task)
    return loss + CONFIG.attention_weight * attention_loss(output.poolings[0], graph.nodes["attention"], topology)


@jax.jit
def frozen_epoch(state, batches):
    still = TrainConfig("classification", attention_weight=2.0, learning_rate=0.0)
    return make_train(POOLED, still, BUCKET, BATCHES.shape[1]).epoch(state, SPLIT, batches)


def test_the_mean_loss_of_an_epoch_is_over_graphs_and_not_over_batches():
    _, (loss, _) = frozen_epoch(start(), BATCHES[0])
    each = [direct_loss(start().params, [GRAPHS[i]]) for i in range(len(GRAPHS))]
    assert abs(float(np.mean(each)) - float(loss)) < 1e-4
    by_batch = np.mean([np.mean([each[i] for i in row if i >= 0]) for row in BATCHES[0]])
    assert abs(by_batch - loss) > 1e-3  # else this test would not tell them apart


def test_an_epoch_is_one_step_a_batch_with_the_gradient_of_the_mean_over_its_graphs():
    optimizer = make_optimizer(CONFIG, BATCHES.shape[1])
    params = start().params
    optimizer_state = optimizer.init(params)
    for row in BATCHES[0]:
        graph = pad_list([GRAPHS[i] for i in row if i >= 0], Bucket(24, 120, 8, 6))
        _, gradient = loss_and_gradient(params, graph)
        updates, optimizer_state = optimizer.update(gradient, optimizer_state, params)
        params = optax.apply_updates(params, updates)
    after, _ = pooled_epoch()(start(), SPLIT, BATCHES[0])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4), after.params, params)


def test_training_sees_every_graph_once_and_predictions_are_in_the_order_of_the_split():
    _, (_, seen) = frozen_epoch(start(), BATCHES[0])
    predict = jax.jit(make_predict(POOLED, BUCKET))
    predicted = predict(start().params, SPLIT, jnp.asarray(BATCHES[1][::-1]))
    graph = pad_list(GRAPHS, Bucket(24, 120, 8, 6))
    direct = POOLED.apply({"params": start().params}, graph, sparse_topology(graph))
    nodes = sum(SIZES)
    for result in (seen, predicted):
        np.testing.assert_allclose(result.prediction, direct.prediction[: len(SIZES)], atol=1e-5)
        np.testing.assert_allclose(result.attention[0], direct.poolings[0].attention[:nodes], atol=1e-6)
        np.testing.assert_array_equal(result.node_masks[0], direct.poolings[0].node_mask[:nodes])
    assert (np.abs(seen.prediction).sum(1) > 0).all()


def test_what_was_not_predicted_is_0():
    predicted = jax.jit(make_predict(POOLED, BUCKET))(start().params, SPLIT, jnp.array([[1, 4, -1], [2, -1, -1]]))
    assert np.flatnonzero(np.abs(predicted.prediction).sum(1)).tolist() == [1, 2, 4]


def test_the_step_size_falls_at_the_start_of_the_decay_epoch():
    steps, epochs, decay = 2, 300, 280
    config = TrainConfig(learning_rate=1e-3, decay_epochs=(decay,), weight_decay=0.0)
    optimizer = make_optimizer(config, steps)
    gradient = jnp.ones(1)

    def step(state, _):
        updates, state = optimizer.update(gradient, state, jnp.zeros(1))
        return state, updates[0]

    _, updates = jax.lax.scan(step, optimizer.init(jnp.zeros(1)), length=steps * epochs)
    # A constant gradient makes every step of Adam as long as its step size.
    by_epoch = -updates.reshape(epochs, steps)
    np.testing.assert_allclose(by_epoch[: decay - 1], 1e-3, rtol=1e-3)
    np.testing.assert_allclose(by_epoch[decay - 1 :], 1e-4, rtol=1e-3)


def test_two_decays_divide_by_a_hundred():
    optimizer = make_optimizer(TrainConfig(decay_epochs=(2, 3), weight_decay=0.0), 1)
    state, lengths = optimizer.init(jnp.zeros(1)), []
    for _ in range(4):
        updates, state = optimizer.update(jnp.ones(1), state, jnp.zeros(1))
        lengths.append(-float(updates[0]))
    np.testing.assert_allclose(lengths, [1e-3, 1e-4, 1e-5, 1e-5], rtol=1e-3)


def test_adam_and_decay_are_those_written_out_for_weights_and_biases_alike():
    config = TrainConfig(learning_rate=0.1, weight_decay=0.5)
    optimizer = make_optimizer(config, 1)
    params = {"kernel": jnp.array([[2.0, -3.0]]), "bias": jnp.array([1.0, -1.0])}
    state = optimizer.init(params)
    expected = jax.tree.map(np.asarray, params)
    m = v = jax.tree.map(np.zeros_like, expected)
    rng = np.random.default_rng(0)
    for t in range(1, 5):
        gradient = jax.tree.map(lambda p: rng.normal(size=p.shape).astype(np.float32), expected)
        updates, state = optimizer.update(gradient, state, params)
        params = optax.apply_updates(params, updates)
        g = jax.tree.map(lambda g, p: g + 0.5 * p, gradient, expected)
        m = jax.tree.map(lambda m, g: 0.5 * m + 0.5 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, v, g)
        expected = jax.tree.map(
            lambda p, m, v, t=t: p - 0.1 * (m / (1 - 0.5**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8), expected, m, v
        )
    tree_close(params, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("size", [1, 955, 956])  # and five biases
def test_the_vector_of_all_weights_has_zeros_at_its_end_and_parts_of_one_length(size, dtype):
    params = {"kernel": jnp.ones((size, 1), dtype), "biases": jnp.arange(1, 6, dtype=dtype)}
    vector, weights_of = as_vector(params)
    assert len(vector) == (960 if size < 956 else 1920)
    assert int((vector != 0).sum()) == size + 5
    assert (vector[size + 5 :] == 0).all()
    back = weights_of(vector)
    assert {leaf.dtype for leaf in back.values()} == {jnp.dtype(dtype)}
    jax.tree.map(np.testing.assert_array_equal, back, params)


def test_dropout_is_active_in_training_alone():
    network = Network((8,), order=1, readout="sum", outputs=3, dropout=0.5)
    train = make_train(network, TrainConfig("classification", learning_rate=0.0), BUCKET, BATCHES.shape[1])
    state = jax.jit(train.init)(jax.random.key(0), SPLIT)
    epoch, predict = jax.jit(train.epoch), jax.jit(make_predict(network, BUCKET))
    one_state, (_, once) = epoch(state, SPLIT, BATCHES[0])
    _, (_, again) = epoch(one_state, SPLIT, BATCHES[0])
    assert np.abs(once.prediction - again.prediction).max() > 1e-2  # another key, other units
    first, second = (predict(s.params, SPLIT, BATCHES[0]).prediction for s in (state, one_state))
    np.testing.assert_array_equal(first, second)
    graph = pad_list(GRAPHS, Bucket(24, 120, 8, 6))
    undropped = network.clone(dropout=0.0).apply({"params": state.params}, graph).prediction
    np.testing.assert_allclose(first, undropped[: len(SIZES)], atol=1e-5)


def test_dropout_drops_each_feature_of_each_graph_by_itself():
    shape, key = (400, 7), jax.random.key(3)  # 7 features: the last call of the generator gives one too many
    ids = jnp.arange(400) * 1_000
    dropped = np.asarray(_drop_out(jnp.ones(shape), 0.3, key, ids))
    np.testing.assert_allclose(np.unique(dropped), [0, 1 / 0.7], rtol=1e-6)
    kept = dropped > 0
    assert abs(kept.mean() - 0.7) < 0.03
    assert np.abs(np.corrcoef(kept.T) - np.eye(7)).max() < 0.25  # 5 standard errors
    np.testing.assert_array_equal(_drop_out(jnp.ones((2, 7)), 0.3, key, ids[jnp.array([9, 4])]), dropped[[9, 4]])
    for other in (jax.random.key(4), jax.random.key(5, impl="rbg")):
        assert (np.asarray(_drop_out(jnp.ones(shape), 0.3, other, ids)) != dropped).any()


def test_every_seed_learns_to_count_nodes():
    graph_list = [make_graph(i % 6, 0.3, i) for i in range(24)]
    graph_list = [
        g._replace(
            nodes={**g.nodes, "features": np.ones_like(g.nodes["features"])},
            globals={"label": np.array([len(g.nodes["features"])], np.int32)},
        )
        for g in graph_list
    ]
    graphs = jraph.batch_np(graph_list)
    packed, bucket = pack(graphs, shuffled_batches(1, 60, graphs.n_node, 8))
    batches = packed[:, :, 0]
    train = make_train(Network((8,), order=2), TrainConfig(learning_rate=1e-2), bucket, batches.shape[1])
    split = device_put(graphs)

    @jax.jit
    def run(keys):
        def one(key):
            return jax.lax.scan(lambda state, b: train.epoch(state, split, b), train.init(key, split), batches)[1][0]

        return jax.vmap(one)(keys)

    losses = run(jax.random.split(jax.random.key(0), 8))
    assert (losses[:, -1] < 0.5 * losses[:, 0]).all()
    assert np.median(losses[:, -1] / losses[:, 0]) < 0.1


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_attention_is_supervised_where_its_weight_is_not_0(weight):
    config = TrainConfig("classification", attention_weight=weight, learning_rate=0.0)
    train = make_train(POOLED, config, BUCKET, BATCHES.shape[1])
    epoch = jax.jit(train.epoch)
    _, (loss, _) = epoch(start(), SPLIT, BATCHES[0])
    _, (without, _) = epoch(start(), SPLIT.with_attention(jnp.zeros(sum(SIZES))), BATCHES[0])
    assert (loss - without > 1e-3) == bool(weight)


def test_features_of_another_width_than_in_training_are_named():
    pooling = AttentionPoolingConfig(Threshold(0.1), ScorerConfig("mlp"), "previous")
    graphs = jraph.batch_np(GRAPHS)
    columns = graphs.nodes["features"].shape[1]
    wider = graphs._replace(nodes={**graphs.nodes, "features": np.ones((sum(SIZES), columns + 2))})
    for network in (
        Network((4,), order=3, hidden=5),
        Network((4, 4), poolings=(None, pooling)),
        Network((4,), poolings=(dataclasses.replace(pooling, score_from="current"),)),
    ):
        shapes = jax.eval_shape(network.init, jax.random.key(0), jax.device_put(pad(graphs)))["params"]
        params = jax.tree.map(lambda x: np.zeros((1, *x.shape)), shapes)
        expect_params(network, params, graphs)
        message = f"features: the graphs have {columns + 2} columns, these parameters were trained on {columns}"
        with pytest.raises(ValueError, match=message):
            expect_params(network, params, wider)
        params["output"]["bias"] = np.zeros((1, 2))
        with pytest.raises(ValueError, match=r"params: .* has shape .* for each seed, the network needs"):
            expect_params(network, params, wider)


def test_an_attention_weight_without_effect_is_warned_of():
    graphs, true = jraph.batch_np(GRAPHS), AttentionPoolingConfig(Threshold(0.1), ScorerConfig("ground_truth"))
    without = graphs._replace(nodes={**graphs.nodes, "attention": np.zeros(sum(SIZES), np.float32)})
    for network in (Network((4,)), Network((4, 4), poolings=(None, true))):
        with pytest.warns(UserWarning, match="attention_weight=2 has no effect: the network has no attention pooling"):
            warn_of_unused_weight(network, CONFIG, graphs.nodes["attention"][None])
    with pytest.warns(UserWarning, match="attention_weight=2 has no effect: target attention is 0 at all") as warned:
        prepare_seeds(POOLED, CONFIG, without, seeds=[0], epochs=1)
    assert len(warned) == 1
    # Warnings are errors in tests.
    warn_of_unused_weight(POOLED, CONFIG, np.eye(2, sum(SIZES), dtype=np.float32))
    warn_of_unused_weight(Network((4,)), TrainConfig(), without.nodes["attention"][None])
