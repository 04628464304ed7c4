"""One program serves all seeds and all numbers that change no shape; on the disk, also for other processes."""

import jax
import jraph
import numpy as np
import pytest
from cases import slow
from compilations import counting
from jax.experimental.compilation_cache import compilation_cache
from on_devices import make_graphs

from jattn.attribution import _whole_split, leave_one_out_seeds
from jattn.batching import shuffled_batches
from jattn.batching._training_batches import pack_training
from jattn.datasets import generate_colors
from jattn.graphs import from_arrays
from jattn.nn import AttentionPoolingConfig, Network, ScorerConfig, Threshold, TopK
from jattn.training import TrainConfig, _seeds, make_train, predict_seeds, train_seeds
from jattn.training._devices import to_host

GRAPHS = make_graphs(40, seed=0)


def network_of(select, dropout):
    return Network((3, 3), dropout=dropout, poolings=(None, AttentionPoolingConfig(select, ScorerConfig("linear"))))


def job(network, config, seeds=(0,), epochs=2):
    """Trains, predicts and attributes; returns all that came out."""
    *_, last = train_seeds(network, config, GRAPHS, seeds, epochs, batch_size=8)
    params = to_host(last.state.params)
    return (
        to_host(last.loss),
        params,
        predict_seeds(network, params, GRAPHS),
        leave_one_out_seeds(network, params, GRAPHS, config.task),
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [(Threshold(0.05), Threshold(0.2)), slow(TopK(0.8), TopK(0.3))],
)
def test_another_seed_and_other_numbers_compile_nothing(first, second):
    with counting() as counts:
        job(network_of(first, 0.1), TrainConfig(attention_weight=1.0, decay_epochs=(2,)))
    assert counts["compiled"] > 0
    other = TrainConfig(attention_weight=7.0, learning_rate=0.01, decay_epochs=(1, 3, 4), weight_decay=0.0)
    with counting() as counts:
        job(network_of(first, 0.1), TrainConfig(attention_weight=1.0, decay_epochs=(2,)), seeds=(5,))
        job(network_of(second, 0.3), other, seeds=(6,), epochs=3)
    assert counts["compiled"] == 0


@pytest.fixture
def empty_cache(tmp_path):
    """An empty cache of compiled programs on the disk, which keeps even the quickest ones."""
    new = {"jax_compilation_cache_dir": str(tmp_path), "jax_persistent_cache_min_compile_time_secs": 0.0}
    before = {name: getattr(jax.config, name) for name in new}
    for values in (new, before):
        for name, value in values.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        if values is new:
            yield


@pytest.mark.slow
def test_other_processes_find_programs_on_the_disk(empty_cache):
    missed = []
    for threshold, rate, seeds in [(0.05, 1e-3, (0,)), (0.2, 1e-2, (3,))]:
        jax.clear_caches()  # as in a new process
        for cached in (_seeds._compiled_epoch, _seeds._compiled_init, _seeds._compiled_predict):
            cached.cache_clear()
        _whole_split._compiled_copies.cache_clear()
        with counting() as counts:
            job(network_of(Threshold(threshold), 0.0), TrainConfig(attention_weight=1.0, learning_rate=rate), seeds)
        assert counts["compiled"] > 0
        missed.append(counts["missed"])
    assert missed[0] > 0
    assert missed[1] == 0


@pytest.mark.parametrize(
    "network",
    [network_of(Threshold(0.15), 0.25), network_of(TopK(0.6), 0.0)],
    ids=["threshold", "topk"],
)
def test_numbers_are_those_of_the_settings(network):
    """Training with numbers as arguments is training with numbers as constants."""
    config = TrainConfig(attention_weight=3.0, learning_rate=0.02, decay_epochs=(2, 3))
    order = np.stack([shuffled_batches(4, 3, GRAPHS.n_node, 8)])
    batches, bucket = pack_training(GRAPHS, order)
    train = make_train(network, config, bucket, order.shape[2])
    split = _seeds.device_put(GRAPHS)
    split = _seeds._with_first_terms(split, network)
    state = jax.jit(train.init)(jax.random.key(4), split)
    epoch = jax.jit(train.epoch)
    for number in range(3):
        state, (loss, _) = epoch(state, split, batches[0, number, :, 0])
    *_, last = train_seeds(network, config, GRAPHS, [4], 3, batch_size=8)
    np.testing.assert_allclose(last.loss[0], loss, rtol=1e-5)
    pairs = zip(jax.tree.leaves(to_host(last.state.params)), jax.tree.leaves(state.params), strict=True)
    for actual, expected in pairs:
        np.testing.assert_allclose(actual[0], expected, rtol=1e-4, atol=1e-5)
    predictions = predict_seeds(network, to_host(last.state.params), GRAPHS)
    for pooled, mask in zip(predictions.attention, predictions.node_masks, strict=True):
        if type(network.poolings[1].select) is Threshold:
            np.testing.assert_array_equal(mask, pooled > 0.15)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("epochs", [2, 40])
def test_a_bucket_belongs_to_the_data_and_not_to_the_seed(parts, epochs):
    graphs = generate_colors(train=500, validation=1, test=1)["train"]
    packed = [pack_training(graphs, shuffled_batches(seed, epochs, graphs.n_node, 32), parts) for seed in range(4)]
    usual = pack_training(graphs, shuffled_batches(9, 80, graphs.n_node, 32), parts).bucket
    assert {bucket for _, bucket in packed} == {usual}
    assert len({ids.shape for ids, _ in packed}) == 1


def test_a_bucket_of_graphs_of_many_sizes_belongs_to_the_data_and_not_to_the_seed():
    rings = [
        from_arrays(np.ones((n, 1)), [*range(n), *range(1, n), 0], [*range(1, n), 0, *range(n)])
        for n in np.random.default_rng(0).integers(100, 400, 300).tolist()
    ]
    graphs = jraph.batch_np(rings)
    orders = [shuffled_batches(seed, 20, graphs.n_node, 32) for seed in range(6)]
    assert len({pack_training(graphs, order, 2).bucket for order in orders}) == 1


def test_a_bucket_holds_batches_far_from_the_usual_ones():
    graphs = generate_colors(train=200, validation=1, test=1)["train"]
    by_edges = np.argsort(-graphs.n_edge, kind="stable")[:192].reshape(1, 6, 32).astype(np.int32)
    ids, bucket = pack_training(graphs, by_edges, 1)
    n_edge, n_node = (np.append(counts, 0)[ids].sum(-1) for counts in (graphs.n_edge, graphs.n_node))
    assert n_edge.max() < bucket.edges
    assert n_node.max() < bucket.nodes
    assert ids.shape[-1] == bucket.graphs
