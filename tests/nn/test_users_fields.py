"""Fields that users add to graphs are data, whatever their names; a network of a subclass trains by its own rules."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from graph_strategies import FEATURES, make_graph

import jattn

ORDER = 3
GRAPHS = jraph.batch_np([make_graph(n, 0.7, n) for n in (3, 4, 5, 6, 0, 1)])
NETWORK = jattn.Network((5, 4), order=ORDER, outputs=3, dropout=0.5)
CONFIG = jattn.TrainConfig("classification")


def with_fields(graphs):
    """Columns as many as the first layer's terms and ids as dropout goes by, under plain names."""
    nodes, count = int(graphs.n_node.sum()), len(graphs.n_node)
    terms = np.random.default_rng(0).normal(size=(nodes, ORDER * FEATURES)).astype(np.float32)
    ids = np.full(count, 7, np.int32)
    return graphs._replace(nodes={**graphs.nodes, "terms": terms}, globals={**graphs.globals, "id": ids})


@pytest.mark.slow
def test_fields_of_any_name_change_neither_training_nor_predictions():
    trained = []
    for graphs in (GRAPHS, with_fields(GRAPHS)):
        *_, epoch = jattn.train_seeds(NETWORK, CONFIG, graphs, [0], 2, batch_size=3)
        trained.append((epoch.state.params, epoch.loss, jattn.predict_seeds(NETWORK, epoch.state.params, graphs)))
    for a, b in zip(*map(jax.tree.leaves, trained), strict=True):
        np.testing.assert_array_equal(a, b)


def test_fields_of_any_name_do_not_change_predictions():
    plain, other = (jax.device_put(jattn.pad(graphs)) for graphs in (GRAPHS, with_fields(GRAPHS)))
    variables = NETWORK.init(jax.random.key(0), plain)
    rngs = {"dropout": jax.random.key(1)}
    for train in (False, True):
        a, b = (NETWORK.apply(variables, graph, train=train, rngs=rngs).prediction for graph in (plain, other))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("field", ["nodes", "globals"])
def test_names_of_jattns_own_are_refused(field):
    single = {"_jattn_terms": np.zeros(len(GRAPHS.nodes["features"] if field == "nodes" else GRAPHS.n_node))}
    with pytest.raises(ValueError, match=f"graphs: {field} have '_jattn_terms', but names that begin with _jattn"):
        jattn.device_put(GRAPHS._replace(**{field: {**getattr(GRAPHS, field), **single}}))


class Doubled(jattn.Network):
    """A network of features that are twice the graph's."""

    def __call__(self, graph, topology=None, *, train=False):
        graph = graph._replace(nodes={**graph.nodes, "features": 2 * graph.nodes["features"]})
        return super().__call__(graph, topology, train=train)


def test_a_subclass_trains_on_the_features_that_it_makes():
    doubled = GRAPHS._replace(nodes={**GRAPHS.nodes, "features": 2 * GRAPHS.nodes["features"]})
    (a,) = jattn.train_seeds(Doubled((5,), order=ORDER, outputs=3), CONFIG, GRAPHS, [0], 1)
    (b,) = jattn.train_seeds(jattn.Network((5,), order=ORDER, outputs=3), CONFIG, doubled, [0], 1)
    np.testing.assert_allclose(a.loss, b.loss, rtol=1e-5)
    np.testing.assert_allclose(a.predictions.prediction, b.predictions.prediction, rtol=1e-4, atol=1e-5)


def test_dropped_rows_of_a_network_of_ones_own_do_not_count():
    """Without any mask of its own, a network of `ChebyGINConv`s and a readout leaves dropped nodes out."""
    graph = jax.device_put(jattn.pad(GRAPHS))
    convolution = jattn.ChebyGINConv(4, order=2)
    x, topology = graph.nodes["features"] + 3.0, jattn.sparse_topology(graph)
    variables = convolution.init(jax.random.key(0), x, topology)
    reduced = topology.subgraph(jnp.arange(len(x)) % 3 > 0)
    clean = convolution.apply(variables, reduced.mask_nodes(x), reduced)
    for kind in ("sum", "mean", "max"):
        expected = getattr(reduced, kind)(jnp.tanh(clean))
        actual = getattr(reduced, kind)(jnp.tanh(convolution.apply(variables, x, reduced)))
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
