"""Whatever compares predictions computes in float32 at the highest precision; convolutions in training may do less."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import slow
from graph_strategies import USUAL, make_graph, pad
from programs import NETWORKS, STORAGES, each_network, each_storage, params_of, total_loss

from experiments import colors
from experiments.run.groups import with_changes
from jattn._cost_model import cost_model
from jattn.attribution import _whole_split as left_out
from jattn.attribution import leave_one_out, leave_one_out_seeds
from jattn.batching import device_put, pack
from jattn.datasets import generate_colors
from jattn.evaluation import accuracy
from jattn.io import load_network, save_network
from jattn.nn import PRECISIONS, ChebyGINConv, Network, block_topology, sparse_topology
from jattn.nn._convolution import linear
from jattn.training import TrainConfig, make_train, predict_seeds, train_seeds

GRAPH = jax.tree.map(jnp.asarray, pad([USUAL]))
PRODUCT = re.compile(r"stablehlo\.(dot_general|dot|convolution)\b[^\n]*")


def products(function, *arguments):
    """The matrix products of a function's program, each as a line."""
    lines = [found.group() for found in PRODUCT.finditer(jax.jit(function).lower(*arguments).as_text())]
    assert lines
    return lines


def is_highest(product):
    return "precision = [HIGHEST, HIGHEST]" in product and "bf16" not in product


@each_network
@each_storage
def test_prediction_loss_and_gradient_have_the_highest_precision(name, storage):
    def loss(params):
        return total_loss(params, NETWORKS[name], GRAPH, STORAGES[storage](GRAPH))

    lines = products(jax.value_and_grad(loss, has_aux=True), params_of(name))
    assert all(map(is_highest, lines))


def test_gradients_of_edge_weights_have_the_highest_precision():
    def loss(weights, storage):
        graph = GRAPH._replace(edges=weights)
        return total_loss(params_of("chebynet"), NETWORKS["chebynet"], graph, STORAGES[storage](graph))[0]

    for storage in STORAGES:
        assert all(map(is_highest, products(jax.grad(lambda w, s=storage: loss(w, s)), GRAPH.edges)))


@each_storage
def test_diff_pools_products_have_the_highest_precision(storage):
    topology = dataclasses.replace(STORAGES[storage](GRAPH), max_nodes=int(USUAL.n_node.max()))
    x = jnp.ones((len(topology.node_mask), 3))
    (line,) = products(lambda x: topology.outer_sum(x, x), x)
    assert is_highest(line)


def test_an_epoch_of_training_has_the_highest_precision():
    split = device_put(USUAL)
    batches, bucket = pack(USUAL, np.array([[[0]]]))
    train = make_train(NETWORKS["chebygin"], TrainConfig("classification", attention_weight=1.0), bucket, 1)
    state = train.init(jax.random.key(0), split)
    assert all(map(is_highest, products(train.epoch, state, split, batches[0, :, 0])))


@pytest.mark.parametrize(
    "storage", [sparse_topology, lambda graph: block_topology(graph, len(graph.nodes["features"]))]
)
def test_leave_one_out_has_the_highest_precision_for_any_predict_function(storage):
    weights = jnp.ones((GRAPH.nodes["features"].shape[1], 2))

    @jax.jit
    def embed(x):
        return jnp.tanh(x @ weights)

    def predict(graph, kept):
        topology = storage(graph).subgraph(kept)
        return topology.sum(topology.mask_nodes(embed(graph.nodes["features"])))

    assert not any(map(is_highest, products(predict, GRAPH, jnp.ones(len(GRAPH.nodes["features"]), bool))[:1]))
    lines = products(lambda graph: leave_one_out(predict, graph, max_nodes=6, task="classification"), GRAPH)
    assert all(map(is_highest, lines))


@pytest.mark.parametrize("compiled", ["_compiled_copies", "_compiled_khop"])
def test_leave_one_out_of_many_seeds_has_the_highest_precision_whatever_the_network_says(compiled, monkeypatch):
    found = []
    original = getattr(left_out, compiled)

    def noted(network, *rest):
        found.append(network)
        return original(network, *rest)

    monkeypatch.setattr(left_out, compiled, noted)
    network = Network((4, 4), order=3, readout="mean")
    graphs = make_graph(cost_model().subgraph_nodes + 1 if compiled == "_compiled_khop" else 6, 0.01, 0)
    params = network.init(jax.random.key(0), jax.tree.map(jnp.asarray, pad([USUAL])))["params"]
    one_seed = jax.tree.map(lambda x: x[None], params)
    expected = leave_one_out_seeds(network, one_seed, graphs, "regression")
    actual = leave_one_out_seeds(network.with_precision("bfloat16"), one_seed, graphs, "regression")
    np.testing.assert_array_equal(actual.attention, expected.attention)
    assert set(found) == {network}
    assert network.precision == jax.lax.Precision.HIGHEST


@each_storage
@pytest.mark.parametrize("precision", [slow("default"), "bfloat16"])
def test_training_asks_for_less_in_convolutions_alone(precision, storage):
    network, params = NETWORKS["chebygin"].with_precision(precision), params_of("chebygin")

    def loss(params):
        return total_loss(params, network, GRAPH, STORAGES[storage](GRAPH))

    lines = products(jax.value_and_grad(loss, has_aux=True), params)
    less = [line for line in lines if not is_highest(line)]
    assert less
    assert len(less) < len(lines)
    assert all(("xbf16>" in line) == (precision == "bfloat16") for line in less)
    (value, output), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    assert {x.dtype for x in jax.tree.leaves((value, output.prediction, gradient))} == {jnp.dtype("float32")}
    assert {pooled.attention.dtype for pooled in output.poolings} == {jnp.dtype("float32")}


def test_of_a_network_without_attention_only_the_output_map_is_left_at_the_highest_precision():
    network = NETWORKS["gcn"].with_precision("bfloat16")
    params = network.init(jax.random.key(0), GRAPH)["params"]
    lines = products(lambda params: network.apply({"params": params}, GRAPH).prediction, params)
    assert list(map(is_highest, lines)) == [False, False, True]


@pytest.mark.parametrize("hidden", [None, 3])
@pytest.mark.parametrize(
    "storage", [sparse_topology, lambda graph: block_topology(graph, len(graph.nodes["features"]))]
)
@pytest.mark.parametrize(("order", "aggregation"), [(1, "sum"), (3, "sum"), (3, "mean")])
def test_layers_take_dtypes_as_flax_does(order, aggregation, storage, hidden):
    topology, x = storage(GRAPH), GRAPH.nodes["features"].astype(jnp.float32)
    layer = ChebyGINConv(4, order, aggregation, hidden, dtype=jnp.bfloat16, param_dtype=jnp.float16)
    y, variables = layer.init_with_output(jax.random.key(0), x, topology)
    assert y.dtype == jnp.bfloat16
    assert {array.dtype for array in jax.tree.leaves(variables)} == {jnp.dtype("float16")}
    assert ChebyGINConv(4, order, aggregation, hidden).apply(variables, x, topology).dtype == jnp.float32
    exact = ChebyGINConv(4, order, aggregation, hidden).apply(variables, x, topology)
    np.testing.assert_allclose(y.astype(jnp.float32), exact, atol=0.05 * float(jnp.abs(exact).max()))


@pytest.mark.parametrize("precision", [None, "highest", jax.lax.Precision.HIGHEST])
def test_layers_take_precision_as_flax_does(precision):
    layer, x = linear(3, 4, precision=precision), jnp.ones((2, 4))
    variables = layer.init(jax.random.key(0), x)
    (line,) = products(lambda x: layer.apply(variables, x), x)
    assert is_highest(line) == (precision is not None)


def test_a_file_does_not_say_how_its_network_was_computed(tmp_path):
    network = NETWORKS["chebynet"]
    save_network(tmp_path / "weights.npz", network.with_precision("bfloat16"), params_of("chebynet"))
    assert load_network(tmp_path / "weights.npz")[0] == network


def test_training_precisions_are_known():
    assert set(PRECISIONS) == {"highest", "default", "bfloat16"}
    with pytest.raises(ValueError, match="precision: 'half' is not known"):
        TrainConfig(precision="half")


@pytest.mark.slow
def test_in_bfloat16_colors_are_learnt_as_in_float32():
    settings = with_changes(colors.PRESETS["supervised"], precision="bfloat16", learning_rate=3e-3)
    splits, network = generate_colors(3, 1000, 10, 200, 0), settings.network(1)
    *_, last = train_seeds(network, settings.training("regression"), splits["train"], [0], 20)
    assert {array.dtype for array in jax.tree.leaves(last.state.params)} == {jnp.dtype("float32")}
    orig = splits["orig"]
    predicted = predict_seeds(network, last.state.params, orig).prediction[0]
    assert accuracy(predicted, orig.globals["label"], "regression") == 100
