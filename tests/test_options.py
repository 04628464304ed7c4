"""Misspelt options and wrong shapes are refused by name, wherever they enter."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from flax import linen as nn

import jattn

GRAPHS = jraph.batch_np(
    [jattn.from_arrays(np.eye(n, 4), [0, 1], [1, 0], attention=np.arange(n), label=n) for n in (2, 3, 4)]
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: jattn.Network(aggregation="avg"), "aggregation: 'avg' is not known, expected one of: mean, sum"),
        (lambda: jattn.Network(readout="avg"), "readout: 'avg' is not known"),
        (lambda: jattn.Network(filters=()), "filters: "),
        (lambda: jattn.Network(outputs=0), "outputs: 0"),
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
    ],
)
def test_training_refuses_what_does_not_fit(settings, message):
    arguments = {"config": jattn.TrainConfig(), "seeds": [0], "epochs": 1} | settings
    with pytest.raises(ValueError, match=message):
        next(jattn.train_seeds(jattn.Network(), graphs=GRAPHS, **arguments))


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
