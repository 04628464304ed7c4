"""One-hot features as integers give what arrays of them give, to the last bit, and take the room of a batch alone."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from cases import slow

import jattn
from jattn.attribution import leave_one_out_seeds
from jattn.datasets import TUData, tu_graphs
from jattn.graphs import OneHot, check, select_graphs
from jattn.nn import AttentionPoolingConfig, Threshold

COLUMNS = 5
NETWORK = jattn.Network((8, 4), order=2, poolings=(None, AttentionPoolingConfig(Threshold(0.1))))
CONFIG = jattn.TrainConfig(attention_weight=1.0)


def graphs_of(others=None):
    rng, graphs = np.random.default_rng(0), []
    for n in (3, 1, 4, 6, 2, 5):
        ring = np.minimum(np.roll(np.eye(n), 1, 1) + np.roll(np.eye(n), -1, 1), 1) * (1 - np.eye(n))
        graphs.append(jattn.from_dense(np.zeros((n, 1)), ring, attention=rng.random(n), label=float(n)))
    graphs = jraph.batch_np(graphs)
    codes = rng.integers(-1, COLUMNS, (int(graphs.n_node.sum()), 2)).astype(np.int32)
    others = None if others is None else rng.normal(size=(len(codes), others)).astype(np.float32)
    return graphs._replace(nodes={**graphs.nodes, "features": OneHot(codes, others, COLUMNS)})


def as_arrays(graphs):
    return graphs._replace(nodes={**graphs.nodes, "features": np.asarray(graphs.nodes["features"])})


def test_it_stands_for_an_array():
    features = OneHot(np.array([[1, 3], [-1, 0], [2, 2]], np.int32), None, 4)
    expected = np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 1, 0]], np.uint8)
    assert (features.shape, features.ndim, features.dtype, len(features)) == ((3, 4), 2, np.uint8, 3)
    for kind in (features, jax.tree.map(jnp.asarray, features)):
        dense = kind.dense()
        assert isinstance(dense, np.ndarray) == (kind is features)
        assert dense.dtype == np.uint8
        np.testing.assert_array_equal(dense, expected)
        np.testing.assert_array_equal(np.asarray(kind), expected)
    beside = OneHot(features.codes, np.full((3, 1), 0.5, np.float32), 4)
    assert (beside.shape, beside.dtype) == ((3, 5), np.float32)
    np.testing.assert_array_equal(np.asarray(beside), np.hstack([expected, np.full((3, 1), 0.5)]))


@pytest.mark.parametrize("others", [slow(None), slow(2)])
def test_training_predictions_and_labels_are_those_of_arrays(others):
    graphs, results = graphs_of(others), []
    check(graphs)
    for kind in (graphs, as_arrays(graphs)):
        for epoch in jattn.train_seeds(NETWORK, CONFIG, kind, [0, 1], 2, batch_size=4):
            params = epoch.state.params
        plain = {name: value for name, value in params.items() if not name.startswith("pool")}
        labels = leave_one_out_seeds(NETWORK.clone(poolings=()), plain, kind, "regression")
        results.append((epoch.loss, params, jattn.predict_seeds(NETWORK, params, kind), labels))
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_graphs_are_chosen_joined_and_padded_with_them():
    graphs = graphs_of(1)
    chosen, expected = select_graphs(graphs, np.array([3, 0])), select_graphs(as_arrays(graphs), np.array([3, 0]))
    np.testing.assert_array_equal(np.asarray(chosen.nodes["features"]), expected.nodes["features"])
    joined = jraph.batch_np([chosen, graphs])
    assert joined.nodes["features"].shape == (len(expected.nodes["features"]) + graphs.n_node.sum(), COLUMNS + 1)
    padded = [jax.tree.map(jnp.asarray, jattn.pad(kind)) for kind in (graphs, as_arrays(graphs))]
    params = NETWORK.init(jax.random.key(0), padded[0])
    a, b = (NETWORK.apply(params, kind).prediction for kind in padded)
    np.testing.assert_array_equal(a[: len(graphs.n_node)], b[: len(graphs.n_node)])


def test_a_code_that_is_no_column_is_named():
    graphs = graphs_of()
    graphs.nodes["features"].codes[4, 1] = COLUMNS
    with pytest.raises(ValueError, match="features: code 5 of node 4: expected -1 to 4"):
        check(graphs)


def test_degrees_of_a_large_set_take_the_room_of_integers():
    hub, graphs = 3_000, 400
    star = np.arange(1, hub)
    senders = np.concatenate([np.zeros(hub - 1, int), star]).astype(np.int32)
    receivers = np.concatenate([star, np.zeros(hub - 1, int)]).astype(np.int32)
    order = np.lexsort((receivers, senders))
    n_node = np.full(graphs, hub, np.int32)
    label = (np.arange(graphs) % 2).astype(np.int32)
    found = tu_graphs(TUData("STAR", senders[order], receivers[order], n_node, label, None, None, None))
    features = found.nodes["features"]
    assert features.shape == (1_200_000, 3_000)  # 3.4 GiB as bytes
    assert sum(array.nbytes for array in jax.tree.leaves(features)) == 4 * 1_200_000
