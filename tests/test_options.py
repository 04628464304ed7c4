"""Misspelt options and wrong shapes are refused by name, wherever they enter."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from flax import linen as nn

import jattn
from jattn.evaluation import accuracy, evaluate
from jattn.graphs import Proximity
from jattn.training import task_loss

GRAPHS = jraph.batch_np(
    [jattn.from_arrays(np.eye(n, 4), [0, 1], [1, 0], attention=np.arange(n), label=n) for n in (2, 3, 4)]
)
BY_RULE = GRAPHS._replace(
    edges=Proximity(1.0), senders=np.zeros(0, int), receivers=np.zeros(0, int), n_edge=np.zeros(3, int)
)


def with_label(label):
    return GRAPHS._replace(globals={"label": label})


def with_nodes(**fields):
    return GRAPHS._replace(nodes={**GRAPHS.nodes, **fields})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: jattn.Network(aggregation="avg"), "aggregation: 'avg' is not known, expected one of: mean, sum"),
        (lambda: jattn.Network(readout="avg"), "readout: 'avg' is not known"),
        (lambda: jattn.Network(typical_nodes=-1.0), "typical_nodes: -1.0 is not allowed, expected at least 0"),
        (lambda: jattn.Network(filters=()), "filters: "),
        (lambda: jattn.Network(outputs=0), "outputs: 0"),
        (lambda: jattn.Network(order=0), "order: 0 is not allowed"),
        (lambda: jattn.Network(hidden=0), "hidden: 0 is not allowed"),
        (lambda: jattn.Network(dropout=1.0), "dropout: 1.0 is not allowed"),
        (lambda: jattn.ScorerConfig(layers=0), "layers: 0 is not allowed"),
        (lambda: jattn.ScorerConfig(scale=float("nan")), "scale: nan is not allowed"),
        (lambda: jattn.ScorerConfig(scale=float("inf")), "scale: inf is not allowed, expected at least 0, and finite"),
        (lambda: jattn.TrainConfig(decay_epochs=(3, 0)), r"decay_epochs: \(3, 0\) is not allowed"),
        (lambda: jattn.TrainConfig(learning_rate=-0.1), "learning_rate: -0.1 is not allowed"),
        (lambda: jattn.TrainConfig(attention_weight=-1.0), "attention_weight: -1.0 is not allowed"),
        (lambda: jattn.ScorerConfig(kind="tree"), "kind: 'tree' is not known"),
        (lambda: jattn.ScorerConfig(init="gauss"), "init: 'gauss' is not known"),
        (lambda: jattn.AttentionPoolingConfig(jattn.TopK(0.5), score_from="prev"), "score_from: 'prev' is not known"),
        (lambda: jattn.Threshold(float("nan")), "tau: nan"),
        (lambda: jattn.TopK(1.5), "ratio: 1.5"),
        (lambda: jattn.TrainConfig(task="classify"), "task: 'classify' is not known"),
        (
            lambda: jattn.TrainConfig(decay_epochs=(3, 3)),
            r"decay_epochs: \(3, 3\) is not allowed, an epoch is given twice",
        ),
        (lambda: jattn.TrainConfig(decay_epochs=(2.5,)), "decay_epochs: expected a whole number, got 2.5"),
        (lambda: jattn.TrainConfig(learning_rate="1e-3"), "learning_rate: expected a number, got '1e-3'"),
        (lambda: jattn.TrainConfig(weight_decay=None), "weight_decay: expected a number, got None"),
        (lambda: jattn.Threshold("0.1"), "tau: expected a number, got '0.1'"),
        (lambda: jattn.Threshold(True), "tau: expected a number, got True"),
        (lambda: jattn.TopK([0.5]), r"ratio: expected a number, got \[0.5\]"),
        (lambda: jattn.DiffPoolConfig(2.0), "clusters: expected a whole number, got 2.0"),
        (lambda: jattn.ScorerConfig(hidden="32"), "hidden: expected a whole number, got '32'"),
        (lambda: jattn.Network(filters=(8, 8.5)), r"filters\[1\]: expected a whole number, got 8.5"),
        (lambda: jattn.Network(filters=8), "filters: 8 is not allowed, expected a tuple"),
        (
            lambda: jattn.Network(poolings=jattn.AttentionPoolingConfig(jattn.TopK(0.5))),
            r"poolings: AttentionPoolingConfig\(.* is not allowed, expected a tuple",
        ),
        (lambda: jattn.Network(order=None), "order: expected a whole number, got None"),
        (lambda: jattn.Network(dropout="0"), "dropout: expected a number, got '0'"),
        (lambda: jattn.TrainConfig(compact=1), "compact: expected True or False, got 1"),
        (
            lambda: jattn.Network(poolings=(jattn.Threshold(0.05),)),
            r"poolings\[0\]: Threshold\(tau=0.05\) is not allowed",
        ),
        (lambda: jattn.AttentionPoolingConfig(0.05), "select: 0.05 selects no nodes, expected Threshold"),
        (lambda: jattn.AttentionPoolingConfig(jattn.Threshold), "select: <class .*Threshold'> selects no nodes"),
        (lambda: jattn.AttentionPoolingConfig(jattn.TopK(0.5), "mlp"), "scorer: expected a ScorerConfig, got 'mlp'"),
        (lambda: jattn.AttentionPoolingConfig(jattn.TopK(0.5), softmax="exact"), "softmax: 'exact' is not known"),
    ],
)
def test_what_is_not_known_is_refused(make, message):
    with pytest.raises(Exception, match=message) as error:
        make()
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs: 0 is not allowed"),
        ({"batch_size": 0}, "batch_size: 0 is not allowed"),
        ({"epochs": 1.5}, "epochs: expected a whole number, got 1.5"),
        ({"epochs": "2"}, "epochs: expected a whole number, got '2'"),
        ({"batch_size": 2.0}, "batch_size: expected a whole number, got 2.0"),
        ({"seeds": 3}, r"seeds: expected a sequence of integers such as range\(10\), got 3"),
        ({"seeds": [0.5]}, r"seeds\[0\]: expected a whole number, got 0.5"),
        ({"seeds": []}, "seeds: 0 is not allowed"),
        ({"seeds": [0, 2**32]}, "seed: 4294967296 is not allowed, expected 0 to 4294967295"),
        ({"seeds": [-1]}, "seed: -1 is not allowed"),
        ({"attention": np.full((1, 9), np.nan, np.float32)}, r"attention\[0, 0\] is nan: expected finite numbers"),
        ({"attention": np.full((1, 9), -1, np.float32)}, r"attention\[0, 0\] is -1.0: expected at least 0"),
        ({"graphs": with_nodes(attention=np.full(9, np.inf))}, r"attention\[0\] is inf: expected finite numbers"),
        ({"graphs": with_nodes(attention=np.arange(9) - 1.0)}, r"attention\[0\] is -1.0: expected at least 0"),
        ({"graphs": with_nodes(features=np.zeros((9, 0)))}, "features: there are no columns"),
        ({"graphs": with_label(np.array([0, np.nan, 1]))}, r"label\[1\] is nan: expected finite numbers"),
        ({"graphs": with_label(np.array([0, 2**40, 1]))}, "label: 0 to 1099511627776 are not all integers of 32 bits"),
        (
            {
                "graphs": with_label(np.array([0, 0.4, 1.6])),
                "config": jattn.TrainConfig("classification"),
                "network": jattn.Network(outputs=2),
            },
            r"label\[1\] is 0.4: a class is a whole number",
        ),
        ({"attention": np.zeros((1, 5), np.float32)}, r"attention: expected shape \(1, 9\), got \(1, 5\)"),
        (
            {"config": jattn.TrainConfig("classification")},
            r"label: 2 to 4, but the network has classes 0 to 0; give Network\(outputs=5\)",
        ),
        (
            {"config": jattn.TrainConfig("classification"), "graphs": with_label(np.array([-1, 1, 1]))},
            "label: -1 to 1, but the network has classes 0 to 0; classes count from 0",
        ),
        (
            {"network": jattn.Network(outputs=2)},
            "network: it has 2 outputs, but regression predicts 1 number per graph",
        ),
        ({"graphs": GRAPHS._replace(receivers=np.array([1, 0, 3, 2, 6, 7]))}, r"edge 4 \(5 -> 6\) has no reverse"),
        ({"graphs": GRAPHS._replace(edges=np.arange(6.0))}, r"edge 0 \(0 -> 1\) has weight 0.0, its reverse 1.0"),
        ({"graphs": GRAPHS._replace(nodes=GRAPHS.nodes["features"])}, "nodes need to be a dict of arrays, they are nd"),
        ({"graphs": GRAPHS._replace(nodes={})}, r"nodes need 'features', they have \[\]"),
        ({"graphs": GRAPHS._replace(edges=None)}, r"weights: expected one number per directed edge \(6\), got shape"),
        ({"graphs": GRAPHS._replace(senders=GRAPHS.senders + 5)}, "node 5 of edge 0 is out of range: the graph has"),
        ({"graphs": GRAPHS._replace(senders=GRAPHS.senders - 9)}, "node -9 of edge 0 is out of range"),
        ({"graphs": GRAPHS._replace(senders=GRAPHS.senders * 1.0)}, "senders and receivers: expected integers"),
        ({"graphs": GRAPHS._replace(globals=None)}, "globals need to be a dict of arrays, they are NoneType"),
        ({"graphs": GRAPHS._replace(globals={})}, r"label: the graphs have none; .* from_networkx\(graph, label=1\)"),
        ({"graphs": with_label(np.zeros((3, 1)))}, r"label: expected one number per graph \(3\), got shape \(3, 1\)"),
        ({"graphs": with_label(np.zeros(2))}, r"label: expected one number per graph \(3\), got shape \(2,\)"),
        (
            {"graphs": with_nodes(features=np.zeros((8, 4)))},
            r"features: expected one row per node \(9\), got",
        ),
        ({"graphs": with_nodes(attention=np.zeros((9, 1)))}, r"attention: expected one number per node \(9\)"),
        ({"graphs": BY_RULE}, 'weights by proximity need "position"'),
        ({"graphs": BY_RULE._replace(n_edge=GRAPHS.n_edge)}, "n_edge: 6 edges are listed, but `edges` is a rule"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_training_refuses_what_does_not_fit(settings, message):
    usual = {"network": jattn.Network(), "config": jattn.TrainConfig(), "graphs": GRAPHS, "seeds": [0], "epochs": 1}
    with pytest.raises(ValueError, match=message):
        next(jattn.train_seeds(**usual | settings))


@pytest.mark.usefixtures("unchecked_types")
def test_a_list_of_graphs_can_not_be_predicted():
    network = jattn.Network()
    graph = jax.tree.map(jnp.asarray, jattn.pad(GRAPHS))
    params = jax.tree.map(lambda x: x[None], network.init(jax.random.key(0), graph)["params"])
    for predict in (jattn.predict_seeds, lambda *arguments: jattn.leave_one_out_seeds(*arguments, "regression")):
        with pytest.raises(ValueError, match="batch_np"):
            predict(network, params, [GRAPHS])


def test_predicting_needs_an_axis_of_seeds():
    network, graph = jattn.Network(), jax.tree.map(jnp.asarray, jattn.pad(GRAPHS))
    params = network.init(jax.random.key(0), graph)["params"]
    for predict in (jattn.predict_seeds, lambda *of: jattn.leave_one_out_seeds(*of, "regression")):
        with pytest.raises(ValueError, match="params: expected a leading axis of seeds"):
            predict(network, params, GRAPHS)
        with pytest.raises(ValueError, match=r"what `init` gives under 'params'; these are \['params'\]"):
            predict(network, {"params": params}, GRAPHS)
    predicted = jattn.predict_seeds(network, jax.tree.map(lambda x: x[None], params), GRAPHS)
    alone = network.apply({"params": params}, graph).prediction[:3]
    np.testing.assert_allclose(predicted.prediction[0], alone, rtol=1e-5, atol=1e-6)


def test_graphs_without_labels_are_predicted_but_neither_trained_on_nor_scored():
    graphs, network = GRAPHS._replace(globals={}), jattn.Network()
    init = network.init(jax.random.key(0), jax.tree.map(jnp.asarray, jattn.pad(graphs)))["params"]
    params = jax.tree.map(lambda x: x[None], init)
    predictions = jattn.predict_seeds(network, params, graphs)
    np.testing.assert_array_equal(predictions.prediction, jattn.predict_seeds(network, params, GRAPHS).prediction)
    assert jattn.leave_one_out_seeds(network, params, graphs, "regression").attention.shape == (1, 9)
    missing = "label: the graphs have none"
    with pytest.raises(ValueError, match=missing):
        evaluate(predictions, {"test": graphs}, "regression")
    train = jattn.make_train(network, jattn.TrainConfig(), jattn.pack(graphs, np.array([[0, 1]])).bucket, 1)
    split = jattn.device_put(graphs)
    state = jax.eval_shape(train.init, jax.random.key(0), split)
    with pytest.raises(ValueError, match=missing):
        jax.eval_shape(train.epoch, state, split, jnp.array([[0, 1, -1]]))


def test_labels_are_numbers():
    with pytest.raises(ValueError, match=r"label: expected one number per graph \(3\), got shape \(3, 1\)"):
        jattn.check(GRAPHS._replace(globals={"label": GRAPHS.globals["label"][:, None]}))


def test_losses_and_layers_refuse_what_they_would_take_for_something_else(unchecked_types):
    output, label, real = jnp.zeros((3, 1)), jnp.zeros(3), jnp.ones(3, bool)
    for arguments, message in (
        ((output, label[:, None], real, "regression"), r"label: expected one number per graph \(3\), got shape \(3, 1"),
        ((output, label[:1], real, "classification"), r"label: expected one number per graph \(3\), got shape \(1,\)"),
        ((jnp.zeros((3, 2)), label, real, "regression"), r"prediction: expected shape \[graphs, 1\], got \(3, 2\)"),
        ((label, label, real, "classification"), r"prediction: expected shape \[graphs, classes\], got \(3,\)"),
        ((output, label, real, "Regression"), "task: 'Regression' is not known"),
    ):
        with pytest.raises(ValueError, match=message):
            task_loss(*arguments)
    for prediction, of, task, message in (
        (np.zeros((3, 1)), np.zeros((3, 1)), "regression", r"label: expected one number per graph \(3\), got shape"),
        (np.zeros((3, 2)), np.zeros(3), "regression", r"prediction: expected shape \[graphs, 1\], got \(3, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            accuracy(prediction, of, task)
    graph = jax.tree.map(jnp.asarray, jattn.pad(GRAPHS))
    x, topology = graph.nodes["features"], jattn.sparse_topology(graph)
    for order in (1, 2):
        with pytest.raises(ValueError, match="aggregation: 'Sum' is not known, expected one of: mean, sum"):
            jattn.ChebyGINConv(8, order, "Sum").init(jax.random.key(0), x, topology)
    params = jax.tree.map(lambda w: w[None], jattn.Network().init(jax.random.key(0), graph)["params"])
    with pytest.raises(ValueError, match="task: 'Classification' is not known"):
        jattn.leave_one_out_seeds(jattn.Network(), params, GRAPHS, "Classification")


def test_one_way_edges_are_refused_where_batches_are_padded():
    with pytest.raises(ValueError, match=r"edge 4 \(5 -> 6\) has no reverse"):
        jattn.pad(GRAPHS._replace(receivers=np.array([1, 0, 3, 2, 6, 7])))
    with pytest.raises(ValueError, match=r"weights: expected one number per directed edge \(6\), got shape \(5,\)"):
        jattn.pad(GRAPHS._replace(edges=np.ones(5)))


@pytest.mark.slow
def test_nodes_that_a_rule_of_ones_own_keeps_are_among_those_that_were_there():
    graph = jax.tree.map(jnp.asarray, jattn.pad(GRAPHS))
    everything = jattn.AttentionPoolingConfig(lambda alpha, topology: alpha >= 0)
    poolings = (None, jattn.AttentionPoolingConfig(jattn.TopK(0.5)), everything)
    for compact, topology in ((False, jattn.sparse_topology(graph)), (True, jattn.block_topology(graph, 16))):
        network = jattn.Network(filters=(8, 8, 256), poolings=poolings)  # wide enough for compact layouts
        output = network.apply(network.init(jax.random.key(0), graph), graph, topology, compact=compact)
        np.testing.assert_array_equal(output.poolings[1].node_mask, output.poolings[0].node_mask)


def test_leaving_nodes_out_needs_the_largest_size_inside_jit():
    with pytest.raises(ValueError, match="max_nodes: inside jit"):
        jax.jit(lambda graph: jattn.leave_one_out(lambda graph, kept: jnp.zeros((4, 1)), graph))(jattn.pad(GRAPHS))


@pytest.mark.slow
def test_nodes_are_left_out_with_64_bits_too():
    graphs = jattn.pad(GRAPHS)
    graph_of = np.repeat(np.arange(4), graphs.n_node)

    def predict(graph, kept):
        return jraph.segment_sum(kept * graph.nodes["features"].sum(1), jnp.asarray(graph_of), 4)[:, None]

    with jax.enable_x64(True):
        in_64 = jattn.leave_one_out(predict, graphs).attention
    np.testing.assert_allclose(in_64, jattn.leave_one_out(predict, graphs).attention, rtol=1e-6)


def test_leaving_nodes_out_refuses_predictions_of_another_shape():
    with pytest.raises(ValueError, match=r"predict: expected to return \[4 graphs, outputs\], got shape \(4,\)"):
        jattn.leave_one_out(lambda graph, kept: jnp.zeros(len(graph.n_node)), jattn.pad(GRAPHS))


def test_leaving_nodes_out_of_graphs_larger_than_said_gives_no_numbers():
    graph = jattn.pad(GRAPHS)

    def predict(graph, kept):
        return jraph.segment_sum(kept * 1.0, jnp.repeat(jnp.arange(4), graph.n_node, total_repeat_length=len(kept)), 4)[
            :, None
        ]

    def attention(largest):
        return jax.jit(lambda graph: jattn.leave_one_out(predict, graph, largest).attention)(graph)

    assert np.isfinite(attention(4)).all()
    assert np.isnan(attention(3)[:9]).all()


def test_ids_beyond_32_bits_are_refused():
    with pytest.raises(ValueError, match=r"senders\[0\] is 4294967296"):
        jattn.from_arrays(np.eye(2), [2**32, 1], [1, 2**32])


def test_leave_one_out_takes_a_network_that_knows_nothing_of_masks_and_numpy_graphs():
    graph = jattn.pad(GRAPHS)
    weight = nn.initializers.normal(1.0)(jax.random.key(0), (4, 1))

    def predict(graph):
        rows = jnp.repeat(jnp.arange(len(graph.n_node)), graph.n_node, total_repeat_length=len(graph.nodes["features"]))
        return jraph.segment_sum(graph.nodes["features"] @ weight, rows, len(graph.n_node))

    result = jattn.leave_one_out(lambda graph, kept: predict(jattn.drop_nodes(graph, kept)), graph)
    moved = np.abs(GRAPHS.nodes["features"] @ np.asarray(weight))[:, 0]
    start = np.repeat(np.cumsum(GRAPHS.n_node) - GRAPHS.n_node, GRAPHS.n_node)
    total = np.add.reduceat(moved, np.unique(start))[np.searchsorted(np.unique(start), start)]
    np.testing.assert_allclose(result.attention[:9], moved / (total + 1e-7), rtol=1e-4)
    with pytest.raises(ValueError, match="max_nodes: 2, but a graph has 4 nodes"):
        jattn.leave_one_out(lambda graph, kept: predict(jattn.drop_nodes(graph, kept)), graph, max_nodes=2)


def test_ground_truth_pooling_asks_for_its_target():
    graph = jattn.pad(GRAPHS)
    graph = graph._replace(nodes={"features": graph.nodes["features"]})
    network = jattn.Network(
        poolings=(jattn.AttentionPoolingConfig(jattn.Threshold(0.1), jattn.ScorerConfig("ground_truth")),)
    )
    with pytest.raises(ValueError, match='needs nodes\\["attention"\\]'):
        network.init(jax.random.key(0), jax.tree.map(jnp.asarray, graph))


def test_weights_are_those_of_the_network(unchecked_types):
    network, graph = jattn.Network((4,)), jax.tree.map(jnp.asarray, jattn.pad(GRAPHS))
    params = jax.tree.map(lambda x: x[None], network.init(jax.random.key(0), graph)["params"])
    kernel = params["conv_0"]["linear"]["kernel"]
    for wrong, message in (
        (
            {**params, "pool_0": {"scorer": {"kernel": np.zeros((1, 4))}}},
            "params: pool_0/scorer/kernel is not a weight of",
        ),
        ({"output": params["output"]}, "params: conv_0/linear/bias is missing; there are"),
        (
            {**params, "conv_0": {"linear": {**params["conv_0"]["linear"], "kernel": kernel[..., :3]}}},
            r"params: conv_0/linear/kernel has shape \(4, 2, 3\) for each seed, the network needs \(4, 2, 4\)",
        ),
    ):
        for predict in (jattn.predict_seeds, lambda *of: jattn.leave_one_out_seeds(*of, "regression")):
            with pytest.raises(ValueError, match=message):
                predict(network, wrong, GRAPHS)


def test_graphs_without_padding_are_refused_where_their_last_one_would_be_lost():
    network, padded, graphs = jattn.Network(), jax.device_put(jattn.pad(GRAPHS)), jax.device_put(GRAPHS)
    variables = network.init(jax.random.key(0), padded)
    unpadded = "graph: it is not padded: its last graph, of 4 nodes, would count as padding"
    for call in (
        lambda: network.apply(variables, graphs),
        lambda: jattn.drop_nodes(graphs, jnp.ones(9, bool)),
        lambda: jattn.leave_one_out(lambda graph, kept: jnp.zeros((3, 1)), graphs),
        lambda: network.init(jax.random.key(0), graphs),
    ):
        with pytest.raises(ValueError, match=unpadded):
            call()
    shifted = padded._replace(nodes={**padded.nodes, "features": padded.nodes["features"] - 0.5, "id": jnp.arange(16)})
    assert network.apply(variables, shifted).prediction.shape == (4, 1)  # padding may hold anything
    one = jax.device_put(jattn.select_graphs(GRAPHS, [1]))
    predicted = network.apply(variables, one, jattn.sparse_topology(one, jnp.array([True]))).prediction
    np.testing.assert_allclose(predicted, network.apply(variables, padded).prediction[1:2], rtol=1e-5)
    again = jattn.drop_nodes(jattn.drop_nodes(padded, jnp.arange(16) != 8), jnp.arange(16) != 0)
    assert again.n_node.tolist()[:3] == [1, 3, 3]  # padding stays padding


@pytest.mark.parametrize("kept", [np.array([0, 2]), np.ones(16, int), np.ones(9, bool), np.array([True])])
def test_nodes_are_dropped_by_a_mask_of_all_rows(kept, unchecked_types):
    with pytest.raises(
        ValueError, match=r"node_mask: expected a mask of booleans, one per row of the batch \(16\), got"
    ):
        jattn.drop_nodes(jattn.pad(GRAPHS), kept)


def test_graphs_are_chosen_by_numbers_masks_and_slices(unchecked_types):
    expected = [2, 4]
    for ids in ([0, 2], np.array([0, 2]), (0, 2), np.array([True, False, True]), [True, False, True], slice(0, 3, 2)):
        assert jattn.select_graphs(GRAPHS, ids).n_node.tolist() == expected
    assert jattn.select_graphs(GRAPHS, []).n_node.tolist() == []
    for ids, message in (
        (np.array([True, False]), r"ids: expected a mask of booleans, one per graph \(3\), got bool of shape \(2,\)"),
        ([0.5], r"ids: expected whole numbers, \[chosen\], got float64"),
        (np.zeros((1, 2), int), r"ids: expected whole numbers, \[chosen\], got int64 of shape \(1, 2\)"),
        ([3], "ids: 3 is out of range: there are 3 graphs"),
        ([-1], "ids: -1 is out of range"),
    ):
        with pytest.raises(ValueError, match=message):
            jattn.select_graphs(GRAPHS, ids)


def test_only_weights_of_the_network_are_saved(tmp_path):
    with pytest.raises(ValueError, match=r"params: the network has no layer pool_0"):
        jattn.save_network(tmp_path / "weights.npz", jattn.Network(), {"conv_0": {}, "pool_0": {}})
    assert not list(tmp_path.iterdir())


def test_a_list_of_graphs_is_to_be_joined_first(unchecked_types):
    network, config = jattn.Network(), jattn.TrainConfig()
    for enter in (
        lambda graphs: next(jattn.train_seeds(network, config, graphs, [0], 1)),
        lambda graphs: jattn.select_graphs(graphs, [0]),
        lambda graphs: jattn.evaluation_batches(graphs, 100).__next__(),
        lambda graphs: jattn.pack(graphs, np.array([[0]])),
    ):
        with pytest.raises(ValueError, match=r"graphs: expected one GraphsTuple, got a list of 2; jraph.batch_np"):
            enter([GRAPHS, GRAPHS])
