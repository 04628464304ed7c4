"""Misspelt options and wrong shapes are refused by name, wherever they enter."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from flax import linen as nn

import jattn
from jattn.losses import task_loss
from jattn.metrics import accuracy
from jattn.proximity import Proximity

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
        (lambda: jattn.Network(filters=()), "filters: "),
        (lambda: jattn.Network(outputs=0), "outputs: 0"),
        (lambda: jattn.Network(order=0), "order: 0 is not allowed"),
        (lambda: jattn.Network(hidden=0), "hidden: 0 is not allowed"),
        (lambda: jattn.Network(dropout=1.0), "dropout: 1.0 is not allowed"),
        (lambda: jattn.Scorer(layers=0), "layers: 0 is not allowed"),
        (lambda: jattn.Scorer(scale=float("nan")), "scale: nan is not allowed"),
        (lambda: jattn.Scorer(scale=float("inf")), "scale: inf is not allowed, expected at least 0, and finite"),
        (lambda: jattn.TrainConfig(decay_epochs=(3, 0)), r"decay_epochs: \(3, 0\) is not allowed"),
        (lambda: jattn.TrainConfig(learning_rate=-0.1), "learning_rate: -0.1 is not allowed"),
        (lambda: jattn.TrainConfig(attention_weight=-1.0), "attention_weight: -1.0 is not allowed"),
        (lambda: jattn.Scorer(kind="tree"), "kind: 'tree' is not known"),
        (lambda: jattn.Scorer(init="gauss"), "init: 'gauss' is not known"),
        (lambda: jattn.AttentionPooling(jattn.TopK(0.5), reads="prev"), "reads: 'prev' is not known"),
        (lambda: jattn.Threshold(float("nan")), "tau: nan"),
        (lambda: jattn.TopK(1.5), "ratio: 1.5"),
        (lambda: jattn.TrainConfig(task="classify"), "task: 'classify' is not known"),
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
        ({"seeds": []}, "seeds: 0 is not allowed"),
        ({"attention": np.zeros((1, 5), np.float32)}, r"attention: expected shape \(1, 9\), got \(1, 5\)"),
        ({"config": jattn.TrainConfig("classification")}, "label: 2 to 4, but the network has classes 0 to 0"),
        ({"network": jattn.Network(outputs=2)}, "network: it has 2 outputs, but regression is of 1 number a graph"),
        ({"graphs": GRAPHS._replace(receivers=np.array([1, 0, 3, 2, 6, 7]))}, r"edge 4 \(5 -> 6\) has no reverse"),
        ({"graphs": GRAPHS._replace(edges=np.arange(6.0))}, r"edge 0 \(0 -> 1\) has weight 0.0, its reverse 1.0"),
        ({"graphs": GRAPHS._replace(nodes=GRAPHS.nodes["features"])}, "nodes need 'features', they have ndarray"),
        ({"graphs": GRAPHS._replace(edges=None)}, r"weights: expected one number per directed edge \(6\), got shape"),
        ({"graphs": GRAPHS._replace(senders=GRAPHS.senders + 5)}, "node 5 of edge 0 is out of range: the graph has"),
        ({"graphs": GRAPHS._replace(senders=GRAPHS.senders - 9)}, "node -9 of edge 0 is out of range"),
        ({"graphs": GRAPHS._replace(senders=GRAPHS.senders * 1.0)}, "senders and receivers: expected integers"),
        ({"graphs": GRAPHS._replace(globals={})}, r"globals need 'label', they have \[\]"),
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
def test_training_refuses_what_does_not_fit(settings, message):
    usual = {"network": jattn.Network(), "config": jattn.TrainConfig(), "graphs": GRAPHS, "seeds": [0], "epochs": 1}
    with pytest.raises(ValueError, match=message):
        next(jattn.train_seeds(**usual | settings))


def test_predicting_needs_an_axis_of_seeds():
    network, graph = jattn.Network(), jax.tree.map(jnp.asarray, jattn.pad(GRAPHS))
    params = network.init(jax.random.key(0), graph)["params"]
    for predict in (jattn.predict_seeds, lambda *of: jattn.leave_one_out_seeds(*of, "regression")):
        with pytest.raises(ValueError, match="params: expected a leading axis of seeds"):
            predict(network, params, GRAPHS)
        with pytest.raises(ValueError, match=r"what `init` gives under 'params'; these are \['params'\]"):
            predict(network, {"params": params}, GRAPHS)
    said = jattn.predict_seeds(network, jax.tree.map(lambda x: x[None], params), GRAPHS)
    alone = network.apply({"params": params}, graph).prediction[:3]
    np.testing.assert_allclose(said.prediction[0], alone, rtol=1e-5, atol=1e-6)


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
    x, topology = graph.nodes["features"], jattn.edges(graph)
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


def test_nodes_that_a_rule_of_ones_own_keeps_are_among_those_that_were_there():
    graph = jax.tree.map(jnp.asarray, jattn.pad(GRAPHS))
    everything = jattn.AttentionPooling(lambda alpha, topology: alpha >= 0)
    poolings = (None, jattn.AttentionPooling(jattn.TopK(0.5)), everything)
    for compact, topology in ((False, jattn.edges(graph)), (True, jattn.blocks(graph, 16))):
        network = jattn.Network(filters=(8, 8, 8), poolings=poolings, compact=compact)
        output = network.apply(network.init(jax.random.key(0), graph), graph, topology)
        np.testing.assert_array_equal(output.poolings[1].kept, output.poolings[0].kept)


def test_leaving_nodes_out_needs_the_largest_size_inside_jit():
    with pytest.raises(ValueError, match="largest: inside jit"):
        jax.jit(lambda graph: jattn.leave_one_out(lambda graph, kept: jnp.zeros((4, 1)), graph))(jattn.pad(GRAPHS))


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
    with pytest.raises(ValueError, match="largest: 2, but a graph has 4 nodes"):
        jattn.leave_one_out(lambda graph, kept: predict(jattn.drop_nodes(graph, kept)), graph, largest=2)


def test_ground_truth_pooling_asks_for_its_target():
    graph = jattn.pad(GRAPHS)
    graph = graph._replace(nodes={"features": graph.nodes["features"]})
    network = jattn.Network(poolings=(jattn.AttentionPooling(jattn.Threshold(0.1), jattn.Scorer("truth")),))
    with pytest.raises(ValueError, match='needs nodes\\["attention"\\]'):
        network.init(jax.random.key(0), jax.tree.map(jnp.asarray, graph))
