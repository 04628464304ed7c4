"""Graphs predicted one by one: a few programs serve all sizes, and give what a batch of all gives."""

import jax
import jraph
import numpy as np
import pytest
from graph_strategies import make_graph
from programs import changed_costs

import jattn
from jattn.attribution import _whole_split as left_out
from jattn.batching import Bucket
from jattn.batching import _packing as packing
from jattn.training import _seeds as seeds

GRAPHS = [make_graph(n, 0.4, n) for n in (1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15)]
NETWORK = jattn.Network((5, 4), outputs=3, poolings=(None, jattn.AttentionPoolingConfig(jattn.Threshold(0.1))))


@pytest.fixture(scope="module")
def params():
    graph = jax.device_put(jattn.pad(jraph.batch_np(GRAPHS)))
    return jax.tree.map(lambda x: x[None], jax.jit(NETWORK.init)(jax.random.key(0), graph)["params"])


@pytest.mark.slow
@pytest.mark.parametrize("dense_work", [pytest.param(1, marks=pytest.mark.slow), 1000], ids=["sparse", "dense"])
def test_graphs_one_by_one_share_programs(params, dense_work):
    seeds._compiled_predict.cache_clear()
    left_out._compiled_copies.cache_clear()
    together = jattn.predict_seeds(NETWORK, params, jraph.batch_np(GRAPHS))
    labels = jattn.leave_one_out_seeds(NETWORK, params, jraph.batch_np(GRAPHS), "classification")
    before = seeds._compiled_predict.cache_info().misses, left_out._compiled_copies.cache_info().misses
    start = 0
    with changed_costs(dense_work=dense_work):
        for i, graph in enumerate(GRAPHS):
            alone, nodes = jattn.predict_seeds(NETWORK, params, graph), slice(start, start + int(graph.n_node[0]))
            np.testing.assert_allclose(alone.prediction[0, 0], together.prediction[0, i], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(alone.attention[0][0], together.attention[0][0, nodes], atol=1e-5)
            np.testing.assert_array_equal(alone.node_masks[0][0], together.node_masks[0][0, nodes])
            if i % 3 == 0:
                single = jattn.leave_one_out_seeds(NETWORK, params, graph, "classification")
                np.testing.assert_allclose(single.attention[0], labels.attention[0, nodes], rtol=1e-2, atol=1e-4)
            start += int(graph.n_node[0])
    made = seeds._compiled_predict.cache_info().misses - before[0]
    assert made <= 4


@pytest.mark.parametrize("dense", [True, False])
def test_a_rounded_bucket_holds_the_same_batches(dense):
    graphs = jraph.batch_np(GRAPHS)
    batches, bucket = packing.pack(graphs, np.arange(len(GRAPHS))[None], dense=dense)
    rounded, larger = packing.round_up(batches[0], bucket)
    for size, needed in zip((*larger[:-1], *larger.storage), (*bucket[:-1], *bucket.storage), strict=True):
        assert size.bit_count() == 1
        assert size >= needed
    assert larger.is_dense == dense
    assert isinstance(larger, Bucket)
    split = jattn.device_put(graphs, rounded=True)
    batch = jax.jit(jattn.gather, static_argnums=2)(split, rounded[0], larger)
    assert int(batch.topology.node_mask.sum()) == int(graphs.n_node.sum())
    assert int(batch.graph.n_node.sum()) == larger.nodes
    real = np.asarray(batch.topology.graph_mask)
    total = np.zeros(len(GRAPHS))
    total[np.asarray(batch.graph_ids)[real]] = batch.topology.sum(batch.topology.degrees)[real]
    expected = [graph.edges.sum() for graph in GRAPHS]
    np.testing.assert_allclose(total, expected, rtol=1e-5)
