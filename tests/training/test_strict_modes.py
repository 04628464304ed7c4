"""Training, prediction and leave-one-out run with jax's strict modes, which users may set for their own code."""

import contextlib

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from cases import slow
from graph_strategies import make_graph

import jattn


@contextlib.contextmanager
def strict():
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"), jax.transfer_guard("disallow"):
        yield


DENSE = jraph.batch_np([make_graph(n, 0.7, n) for n in (3, 4, 5, 6, 0, 1)])


def ring(n):
    ends = np.arange(n), (np.arange(n) + 1) % n
    features = np.random.default_rng(n).normal(size=(n, 3))
    return jattn.from_arrays(features, np.r_[ends], np.r_[ends[::-1]], attention=np.ones(n), label=n % 3)


def pooled(*poolings, **settings):
    return jattn.Network((5, 4), outputs=3, poolings=poolings, **settings)


SCORED = jattn.AttentionPoolingConfig(jattn.Threshold(0.1), jattn.ScorerConfig("mlp"), "previous", softmax="plain")
BY_NETWORK = jattn.AttentionPoolingConfig(jattn.TopK(0.6), jattn.ScorerConfig("gnn", filters=5))
TRUTH = jattn.AttentionPoolingConfig(jattn.TopK(0.6), jattn.ScorerConfig("ground_truth"))
SPARSE = jattn.CostModel(dense_work=1, subgraph_nodes=8)  # no dense blocks, and leave-one-out by subgraphs
CASES = {
    "threshold, dropout": (pooled(None, SCORED, order=3, readout="max", dropout=0.3), DENSE, None),
    "top-k by a network": (pooled(None, BY_NETWORK, order=1, aggregation="sum", hidden=6, readout="mean"), DENSE, None),
    "ground truth, compact": (pooled(None, TRUTH), DENSE, jattn.CostModel(compact_features=1)),
    "sparse, compact": (pooled(None, TRUTH), jraph.batch_np([ring(9), ring(11)]), SPARSE),
    "diffpool": (pooled(None, jattn.DiffPoolConfig(3), order=3, readout="max"), DENSE, None),
    "sparse, pooled": (pooled(None, SCORED, order=3, readout="max"), jraph.batch_np([ring(9), ring(11)]), SPARSE),
    "subgraphs": (pooled(order=2, readout="max"), jraph.batch_np([ring(40), ring(44)]), SPARSE),
}


QUICK = ("threshold, dropout",)


@pytest.mark.parametrize("case", [case if case in QUICK else slow(case) for case in CASES])
def test_the_library_runs_in_strict_modes(case):
    network, graphs, costs = CASES[case]
    compact = case.endswith("compact")
    weight = float(SCORED in network.poolings or BY_NETWORK in network.poolings)
    config = jattn.TrainConfig("classification", attention_weight=weight, decay_epochs=(2,), compact=compact)
    with jattn.use_cost_model(costs or jattn.cost_model()), strict():
        *_, epoch = jattn.train_seeds(network, config, graphs, [0, 1], 2, batch_size=3)
        predictions = jattn.predict_seeds(network, epoch.state.params, graphs, compact=compact)
        left_out = jattn.leave_one_out_seeds(network, epoch.state.params, graphs, "classification")
    assert np.isfinite(predictions.prediction).all()
    assert np.isfinite(left_out.attention).all()


@pytest.mark.slow
def test_a_users_compiled_functions_run_in_strict_modes():
    network, graphs, _ = CASES["threshold, dropout"]
    graph = jax.device_put(jattn.pad(graphs))
    params = jax.jit(network.init)(jax.random.key(0), graph)

    @jax.jit
    def both(params, graph):
        def predict(graph, kept):
            return network.apply(params, graph, jattn.sparse_topology(graph).subgraph(kept)).prediction

        alone = network.apply(params, graph, jattn.block_topology(graph, len(graph.nodes["attention"])))
        left_out = jattn.leave_one_out(predict, graph, 6, task="classification")
        return alone, left_out, jattn.drop_nodes(graph, jnp.ones(len(graph.nodes["attention"]), bool))

    with strict():
        output, left_out, _ = both(params, graph)
    assert np.isfinite(jax.device_get(output.prediction)).all()
    assert np.isfinite(jax.device_get(left_out.attention)).all()


@pytest.mark.parametrize("case", [slow("threshold, dropout"), slow("diffpool")])
def test_a_network_runs_uncompiled_in_strict_modes(case):
    network, graphs, _ = CASES[case]
    graph = jax.device_put(jattn.pad(graphs))
    params = jax.jit(network.init)(jax.random.key(0), graph)
    rows = len(graph.nodes["attention"])
    expected = network.apply(params, graph).prediction
    with strict():
        topologies = None, jattn.sparse_topology(graph), jattn.block_topology(graph, rows)
        predictions = [network.apply(params, graph, topology).prediction for topology in topologies]
    for prediction in predictions:
        np.testing.assert_allclose(prediction, expected, rtol=1e-5, atol=1e-6)
