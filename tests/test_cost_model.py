"""What is tuned to a kind of device is one cost model, which users can replace and compiled programs heed."""

import dataclasses

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from graph_strategies import make_graph
from programs import changed_costs

from jattn._cost_model import COST_MODELS, CostModel, cost_model, use_cost_model
from jattn.batching import pack, pad
from jattn.nn import Network
from jattn.nn._kernels import block_product
from jattn.training import TrainConfig, predict_seeds
from jattn.training import _seeds as seeds
from jattn.training._seeds import run_sequentially

GRAPHS = jraph.batch_np([make_graph(5, 0.5, 0), make_graph(6, 0.5, 1)])


def test_each_backend_has_a_cost_model_and_a_user_another_for_a_while():
    assert cost_model() is COST_MODELS[jax.default_backend()]
    mine = CostModel(evaluation_rows=7)
    with use_cost_model(mine), use_cost_model(mine):
        assert cost_model() is mine
    assert cost_model() is COST_MODELS[jax.default_backend()]


@pytest.mark.parametrize("backend", ["gpu", "tpu"])
def test_seeds_run_side_by_side_on_accelerators_however_wide_layers_are(backend):
    network = Network((4096, 4096))
    assert run_sequentially(network, GRAPHS, rows=100_000)
    with use_cost_model(COST_MODELS[backend]):
        assert not run_sequentially(network, GRAPHS, rows=100_000)


def test_what_jit_has_compiled_belongs_to_its_cost_model():
    product = jax.jit(block_product)
    shapes = jnp.ones((1, 3, 3)), jnp.ones((1, 3, 2))
    few = product.lower(*shapes).as_text()
    with changed_costs(row_major_features=1):
        many = product.lower(*shapes).as_text()
    assert few != many
    assert few == product.lower(*shapes).as_text()


def test_a_program_goes_by_the_cost_model_that_it_was_planned_with():
    network, config, models = Network((4, 4)), TrainConfig(), []
    with changed_costs(row_major_features=1):
        training = seeds.prepare_seeds(network, config, GRAPHS, [0], 1)
        planned = cost_model()
    original = Network.__call__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "__call__", lambda *a, **k: models.append(cost_model()) or original(*a, **k))
        next(training.run(training.state, 0))
    assert models
    assert all(model is planned for model in models)


@pytest.mark.slow
@pytest.mark.parametrize("backend", COST_MODELS)
def test_predictions_do_not_depend_on_the_cost_model(backend):
    network, graphs = Network((4, 4)), GRAPHS
    params = network.init(jax.random.key(0), jax.tree.map(jnp.asarray, pad(graphs)))["params"]
    one_seed = jax.tree.map(lambda x: x[None], params)
    with use_cost_model(COST_MODELS[backend]):
        actual = predict_seeds(network, one_seed, graphs).prediction
    np.testing.assert_allclose(actual, predict_seeds(network, one_seed, graphs).prediction, rtol=1e-5, atol=1e-6)


def test_whether_adjacency_is_dense_goes_by_the_cost_model():
    batches = np.array([[0, 1]])
    with changed_costs(dense_work=1000):
        assert pack(GRAPHS, batches).bucket.is_dense
    with changed_costs(dense_work=1):
        assert not pack(GRAPHS, batches).bucket.is_dense


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evaluation_rows": 0}, "evaluation_rows: 0 is not allowed"),
        ({"sequential_floats": 0}, "sequential_floats: 0 is not allowed"),
        ({"compact_shares": (0.5, 0.2)}, "compact_shares: .* ascending"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CostModel(), **change)
