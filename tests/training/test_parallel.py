"""Devices that share the work change nothing of its result. Tests have two devices (see conftest.py)."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax
import pytest
from cases import slow
from graph_strategies import make_graph
from programs import changed_costs

from jattn.attribution import leave_one_out_seeds
from jattn.batching import device_put, pack, pad, shuffled_batches
from jattn.graphs import select_graphs
from jattn.nn import AttentionPoolingConfig, DiffPoolConfig, Network, ScorerConfig, Threshold
from jattn.training import TrainConfig, auxiliary_loss, make_train, task_loss
from jattn.training import _seeds as seeds
from jattn.training._devices import PARTS, devices_per_seed, psum_shards, shard_seeds

SIZES = [3, 6, 1, 0, 5, 4, 2, 6, 3, 5]
GRAPHS = jraph.batch_np([make_graph(size, 0.6, 50 + i) for i, size in enumerate(SIZES)])
NETWORK = Network(
    (5, 4),
    order=3,
    aggregation="sum",
    outputs=3,
    poolings=(None, AttentionPoolingConfig(Threshold(0.1), ScorerConfig("linear"))),
)
SMALL = Network((4,), outputs=3, poolings=(AttentionPoolingConfig(Threshold(0.1)),))
CONFIG = TrainConfig("classification", attention_weight=2.0, learning_rate=1e-2)


def close(actual, expected, tolerance=1e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), actual, expected)


@functools.cache
def alone():
    """The order, the state before, and what an epoch on one device makes of it: batches of 3, 3, 3 and 1 graphs."""
    order = shuffled_batches(0, 1, np.array(SIZES), 3)[0]
    batches, bucket = pack(GRAPHS, order)
    train = make_train(NETWORK, CONFIG, bucket, len(order))
    state = jax.jit(train.init)(jax.random.key(0), device_put(GRAPHS))
    after, (loss, predictions) = jax.jit(train.epoch)(state, device_put(GRAPHS), batches[:, 0])
    return order, state, (after.params, loss, predictions)


@pytest.mark.parametrize("parts", [slow(2), 3, slow(7)])
def test_devices_that_share_batches_unevenly_take_the_same_steps(parts):
    order, state, expected = alone()
    batches, bucket = pack(GRAPHS, order, parts)
    train = make_train(NETWORK, CONFIG, bucket, len(order), axis="parts")

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(None, None, 1), axis_name="parts")
    def epoch(state, split, batches):
        after, (loss, predictions) = train.epoch(state, split, batches)
        return after.params, loss, predictions

    params, loss, predictions = epoch(state, device_put(GRAPHS), jnp.asarray(batches))
    for part in range(parts):
        close(jax.tree.map(lambda x, part=part: x[part], (params, loss)), expected[:2])
    close(jax.tree.map(lambda x: x.sum(0).astype(jnp.float32), predictions), expected[2])


def test_three_graphs_here_and_seven_there_give_the_gradient_of_the_mean_over_ten():
    _, state, _ = alone()
    whole, bucket = pack(GRAPHS, np.arange(10)[None])
    shares = np.full((2, 1, 9), -1)
    shares[0, 0, :3], shares[1, 0, :7] = [0, 1, 2], range(3, 10)
    on_one = make_train(NETWORK, CONFIG, bucket, 1).epoch
    rows = sum(SIZES)
    wide = bucket._replace(nodes=rows, block_size=rows, graphs=9, edges=bucket.edges + 8)
    shared = jax.vmap(make_train(NETWORK, CONFIG, wide, 1, axis="parts").epoch, (None, None, 0), axis_name="parts")
    results = (
        jax.jit(on_one)(state, device_put(GRAPHS), whole[:, 0]),
        jax.jit(shared)(state, device_put(GRAPHS), jnp.asarray(shares)),
    )
    # After one step Adam's first moment is half the gradient, decay included.
    expected, actual = ((optax.tree.get(after.optimizer, "mu"), loss) for after, (loss, _) in results)
    for part in range(2):
        close(jax.tree.map(lambda x, part=part: x[part], actual), expected, 1e-6)


def test_one_seed_on_two_devices_trains_as_on_one():
    assert devices_per_seed(1) == 2
    *_, last = seeds.train_seeds(NETWORK, CONFIG, GRAPHS, [4], 3, 3)
    order = shuffled_batches(4, 3, np.array(SIZES), 3)
    batches, bucket = pack(GRAPHS, order)
    train = make_train(NETWORK, CONFIG, bucket, order.shape[1])
    state, epoch = jax.jit(train.init)(jax.random.key(4), device_put(GRAPHS)), jax.jit(train.epoch)
    for ids in batches:
        state, (loss, predictions) = epoch(state, device_put(GRAPHS), ids[:, 0])
    close(jax.tree.map(lambda x: x[0], (last.state.params, last.loss)), (state.params, loss))
    np.testing.assert_allclose(last.predictions.prediction[0], predictions.prediction, atol=1e-4)


@pytest.mark.slow
def test_every_graph_is_predicted_and_left_out_once_on_any_number_of_devices():
    graph = jax.tree.map(jnp.asarray, pad(GRAPHS))
    params = jax.vmap(lambda key: SMALL.init(key, graph)["params"])(jax.random.split(jax.random.key(0), 2))
    first = jax.tree.map(lambda x: x[:1], params)
    for run in (seeds.predict_seeds, functools.partial(leave_one_out_seeds, task="classification")):
        both, one = run(SMALL, params, GRAPHS), run(SMALL, first, GRAPHS)  # one seed a device; one on both
        close(one, jax.tree.map(lambda x: x[:1], both), 1e-4)


@pytest.mark.slow
def test_leaving_out_in_pieces_tells_how_far_it_is_and_changes_nothing():
    params = SMALL.init(jax.random.key(0), jax.tree.map(jnp.asarray, pad(GRAPHS)))["params"]
    one_seed = jax.tree.map(lambda x: x[None], params)
    whole = leave_one_out_seeds(SMALL, one_seed, GRAPHS, "classification")
    counts = []
    with changed_costs(leave_one_out_nodes=9, progress_batches=2):  # so that there are several batches
        pieces = leave_one_out_seeds(SMALL, one_seed, GRAPHS, "classification", counts.append)
    close(pieces, whole)
    assert len(counts) > 1
    assert sum(counts) == len(SIZES)


@pytest.mark.slow
def test_large_sparse_graphs_are_predicted_on_two_devices_as_in_one_padded_batch():
    graphs = jraph.batch_np([make_graph(size, 0.05, size) for size in (130, 3, 0, 158, 20)])
    graph = jax.tree.map(jnp.asarray, pad(graphs))
    params = SMALL.init(jax.random.key(0), graph)["params"]
    predicted = seeds.predict_seeds(SMALL, jax.tree.map(lambda x: x[None], params), graphs)
    expected = SMALL.apply({"params": params}, graph)
    np.testing.assert_allclose(predicted.prediction[0], expected.prediction[:-1], rtol=1e-4, atol=1e-4)
    nodes = int(graphs.n_node.sum())
    np.testing.assert_allclose(predicted.attention[0][0], expected.poolings[0].attention[:nodes], atol=1e-5)
    np.testing.assert_array_equal(predicted.node_masks[0][0], expected.poolings[0].node_mask[:nodes])


@pytest.mark.slow
def test_one_seed_on_two_devices_has_the_auxiliary_loss_of_one_device():
    """The loss of an epoch that changes nothing is the mean over all graphs."""
    network = Network((4, 4), outputs=3, poolings=(None, DiffPoolConfig(2)))
    config = TrainConfig("classification", learning_rate=0.0)
    trained = next(seeds.train_seeds(network, config, GRAPHS, [4], 1, 3))
    graph = jax.tree.map(jnp.asarray, pad(GRAPHS))
    output = network.apply({"params": jax.tree.map(lambda x: x[0], trained.state.params)}, graph)
    real = jnp.arange(len(graph.n_node)) < len(SIZES)
    expected = task_loss(output.prediction, graph.globals["label"], real, "classification")
    np.testing.assert_allclose(trained.loss[0], expected + auxiliary_loss(output.auxiliary[0], real), rtol=1e-5)


@pytest.mark.slow
def test_seeds_of_different_training_sets_train_as_each_alone():
    train_ids = [np.array([0, 5, 2, 8, 1, 4]), np.array([9, 3, 6, 7, 2])]
    *_, together = seeds.train_seeds(NETWORK, CONFIG, GRAPHS, [4, 4], 2, 3, train_ids=train_ids)
    for i, ids in enumerate(train_ids):
        *_, alone = seeds.train_seeds(NETWORK, CONFIG, select_graphs(GRAPHS, ids), [4], 2, 3)
        close(
            jax.tree.map(lambda x, i=i: x[i], together.state.params), jax.tree.map(lambda x: x[0], alone.state.params)
        )
        np.testing.assert_allclose(together.loss[i], alone.loss[0], rtol=1e-4)
        np.testing.assert_allclose(together.predictions.prediction[i, ids], alone.predictions.prediction[0], atol=1e-4)
        assert not together.predictions.prediction[i, np.setdiff1d(np.arange(10), ids)].any()


@pytest.mark.slow
def test_dropout_is_the_same_whichever_seeds_and_devices_there_are():
    network = SMALL.clone(dropout=0.5)
    *_, alone = seeds.train_seeds(network, CONFIG, GRAPHS, [7], 2, 3)  # its batches shared by two devices
    *_, among_others = seeds.train_seeds(network, CONFIG, GRAPHS, [3, 7], 2, 3)
    *_, undropped = seeds.train_seeds(SMALL, CONFIG, GRAPHS, [7], 2, 3)
    np.testing.assert_allclose(alone.loss[0], among_others.loss[1], rtol=1e-5)
    close(alone.state.params, jax.tree.map(lambda x: x[1:], among_others.state.params))
    assert abs(alone.loss[0] - undropped.loss[0]) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("network", [NETWORK, SMALL])
def test_terms_that_are_kept_for_the_first_convolution_change_nothing(network):
    *_, kept = seeds.train_seeds(network, CONFIG, GRAPHS, [4], 2, 3)
    with changed_costs(precomputed_floats=1):
        *_, computed = seeds.train_seeds(network, CONFIG, GRAPHS, [4], 2, 3)
    close(kept.state.params, computed.state.params)
    close(kept.predictions.attention, computed.predictions.attention)


@pytest.mark.parametrize(
    ("train_ids", "message"),
    [
        ([np.arange(3)], "train_ids: 1 are given, but there are 2 seeds"),
        ([np.arange(3), np.arange(4)], r"the same number of steps per epoch for each seed, at least 1, got \[1, 2\]"),
        ([np.arange(0), np.arange(0)], r"got \[0\]"),
        ([np.arange(3), np.array([0, 10])], r"train_ids\[1\]: 0 to 10, but graphs are 0 to 9"),
        ([np.array([-1, 2]), np.arange(3)], r"train_ids\[0\]: -1 to 2, but graphs are 0 to 9"),
        ([np.array([4, 4]), np.arange(3)], r"train_ids\[0\]: a graph is given twice"),
    ],
)
def test_training_sets_have_to_make_as_many_steps_for_each_seed(train_ids, message):
    with pytest.raises(ValueError, match=message):
        next(seeds.train_seeds(SMALL, CONFIG, GRAPHS, [0, 1], 1, 3, train_ids=train_ids))


def test_a_run_compiles_one_program():
    traces = []

    class Counted(Network):
        def __call__(self, *arguments, **settings):
            traces.append(settings)
            return super().__call__(*arguments, **settings)

    def count(epochs, width):
        traces.clear()
        for _ in seeds.train_seeds(Counted((width,), outputs=3), CONFIG, GRAPHS, [0], epochs, 3):
            pass
        return len(traces)

    assert count(4, width=4) == count(1, width=5) > 0
    assert count(1, width=4) == 0


def test_a_process_without_a_device_to_use_is_refused(monkeypatch):
    devices = [SimpleNamespace(process_index=i) for i in range(4)]
    monkeypatch.setattr(jax, "devices", lambda: devices)
    monkeypatch.setattr(jax, "process_count", lambda: 4)
    assert [devices_per_seed(seeds) for seeds in (1, 2, 4, 8)] == [4, 2, 1, 1]
    with pytest.raises(ValueError, match="seeds: 3 go to 3 of 4 devices, so 1 of 4 processes have nothing to do"):
        devices_per_seed(3)


@pytest.mark.parametrize(("count", "shape"), [(1, (1, 2)), (2, (2, 1)), (3, (1, 2)), (4, (2, 1))])
def test_seeds_go_to_devices_first(count, shape):
    assert devices_per_seed(count) == shape[1]

    def index(seed, ids):
        return seed + psum_shards(ids.sum())

    run = shard_seeds(index, count, ("seeds",), (PARTS,))
    result = run(jnp.arange(float(count)), jnp.ones((shape[1], 3)))
    np.testing.assert_array_equal(result, np.arange(count) + 3 * shape[1])
    assert len(result.sharding.device_set) == 2
