"""The core of the suite on a GPU or TPU, against numbers of a CPU; skipped where jax finds none.

    JATTN_TESTS_XLA=default python -m pytest -n 0 tests/nn/test_gpu.py

runs it on the accelerator that jax takes: in one process, since two would want all of its memory, and compiled as
users' programs are. With JATTN_TESTS_ACCELERATOR=cpu a CPU stands in, to see that these tests themselves work.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graph_strategies import ISOLATED, NO_TARGET, ONE_NODE, USUAL, node_count, remove, rows, split_nodes
from graph_strategies import pad as pad_list
from programs import POOLING_OR_NOT, assert_same_result, program, random_mask
from test_reference import GRAPHS, NODES, TOPOLOGIES, Case, assert_close, three_steps

from experiments import colors
from experiments.run.groups import with_changes
from jattn._cost_model import COST_MODELS, use_cost_model
from jattn.attribution import leave_one_out, leave_one_out_seeds
from jattn.batching import pad
from jattn.datasets import generate_colors
from jattn.evaluation import accuracy
from jattn.graphs import select_graphs
from jattn.nn import PRECISIONS, Network, sparse_topology
from jattn.training import predict_seeds, train_seeds

BACKEND = jax.default_backend()
pytestmark = pytest.mark.skipif(
    BACKEND not in ("gpu", "tpu", os.environ.get("JATTN_TESTS_ACCELERATOR")),
    reason=f"jax finds no GPU or TPU (its backend is {BACKEND}); JATTN_TESTS_ACCELERATOR=cpu lets a CPU stand in",
)
GRAPH_LIST = [USUAL, ISOLATED, ONE_NODE, NO_TARGET]
CASES = ("gin_sum__classification", "sup_threshold_mlp_prev__regression")


@pytest.fixture(autouse=True)
def an_accelerators_cost_model():
    """Also where a CPU stands in, so that batches are those of an accelerator."""
    with use_cost_model(COST_MODELS[BACKEND if BACKEND in ("gpu", "tpu") else "gpu"]):
        yield


@pytest.fixture(scope="module")
def splits():
    return generate_colors(3, 1000, 10, 200, 0)


@pytest.mark.parametrize("name", POOLING_OR_NOT)
def test_masking_equals_removal_and_blocks_equal_edges(name):
    mask = random_mask(GRAPH_LIST, 0)
    reduced = [remove(g, m) for g, m in zip(GRAPH_LIST, split_nodes(GRAPH_LIST, mask), strict=True)]
    results = [program(name, storage)(pad_list(GRAPH_LIST), rows(GRAPH_LIST, mask)) for storage in ("edges", "blocks")]
    results += [program(name, storage)(pad_list(reduced)) for storage in ("edges", "blocks")]
    for result in results[1:]:
        assert_same_result(result, results[0], len(GRAPH_LIST))
    assert node_count(reduced) < node_count(GRAPH_LIST)


@pytest.mark.parametrize("storage", TOPOLOGIES)
@pytest.mark.parametrize("name", CASES)
def test_predictions_attention_and_gradients_are_the_reference_ones(name, storage):
    case = Case(name)
    _, (total, _, _, output, gradient) = three_steps(case, TOPOLOGIES[storage])
    assert_close(output.prediction[:GRAPHS], case["eval/prediction"])
    for i, pooled in enumerate(output.poolings):
        alpha = case[f"eval/alpha_{i}"]
        assert_close(pooled.attention[:NODES], np.where(np.isnan(alpha), 0, alpha))
        np.testing.assert_array_equal(pooled.node_mask[:NODES], case[f"eval/kept_{i}"])
    assert_close(total, case["train/loss"])
    jax.tree.map(assert_close, gradient, case.tree("grad"))


def test_leave_one_out_labels_are_those_of_a_cpu(splits):
    network, graphs = Network((64, 64), order=3, dtype=jnp.bfloat16), select_graphs(splits["largec"], np.arange(12))
    padded = pad(graphs)
    params = jax.device_get(network.init(jax.random.key(0), jax.tree.map(jnp.asarray, padded))["params"])
    actual = leave_one_out_seeds(network, jax.tree.map(lambda x: x[None], params), graphs, "regression")

    @jax.jit
    def labels(params, graph):
        def predict(graph, kept):
            topology = sparse_topology(graph).subgraph(kept)
            return network.with_precision("highest").apply({"params": params}, graph, topology).prediction

        return leave_one_out(predict, graph, int(graphs.n_node.max()))

    with use_cost_model(COST_MODELS["cpu"]), jax.default_device(jax.local_devices(backend="cpu")[0]):
        expected = labels(params, padded)
    assert np.abs(actual.attention[0] - expected.attention[: actual.attention.shape[1]]).max() < 1e-5
    np.testing.assert_allclose(actual.total_change[0], expected.total_change[: len(graphs.n_node)], rtol=1e-4)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_colors_are_learnt(precision, splits):
    settings = with_changes(colors.PRESETS["supervised"], precision=precision, learning_rate=3e-3)
    network, orig = settings.network(1), splits["orig"]
    *_, last = train_seeds(network, settings.training("regression"), splits["train"], [0, 1, 2], 40)
    for of_seed in predict_seeds(network, last.state.params, orig).prediction:
        assert accuracy(of_seed, orig.globals["label"], "regression") >= 98
