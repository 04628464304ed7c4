"""The networks of property tests, compiled once each: on padded batches, and on batches packed into several blocks."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from cases import slow
from graph_strategies import LARGEST, USUAL, node_count, pad, split_nodes
from hypothesis import settings

from jattn._cost_model import cost_model, use_cost_model
from jattn.batching import Bucket, DenseStorage, SparseStorage, device_put, gather, scatter
from jattn.batching import _packing as packing
from jattn.batching._gather import to_ell_coo
from jattn.nn import (
    AttentionPoolingConfig,
    DiffPoolConfig,
    Network,
    ScorerConfig,
    Threshold,
    TopK,
    block_topology,
    sparse_topology,
)
from jattn.training import attention_loss, auxiliary_loss, task_loss

BY_NETWORK = AttentionPoolingConfig(TopK(0.6), ScorerConfig("gnn", filters=5), "current")
NETWORKS = {
    "gcn": Network((5, 4), order=1, readout="max", outputs=3),
    "gin": Network((5, 4), order=1, aggregation="sum", hidden=6, readout="log_sum", typical_nodes=4.0, outputs=3),
    "chebynet": Network(
        (5, 4),
        order=3,
        readout="max",
        outputs=3,
        poolings=(None, AttentionPoolingConfig(Threshold(0.15), ScorerConfig("mlp", hidden=6), "previous")),
    ),
    "chebygin": Network(
        (5, 4, 4), order=4, aggregation="sum", hidden=6, outputs=3, poolings=(None, BY_NETWORK, BY_NETWORK)
    ),
    "ground_truth": Network(
        (5, 4),
        readout="mean",
        outputs=3,
        poolings=(None, AttentionPoolingConfig(Threshold(0.1), ScorerConfig("ground_truth"))),
    ),
    "diffpool": Network(
        (5, 4), order=3, aggregation="sum", hidden=6, readout="max", outputs=3, poolings=(None, DiffPoolConfig(3))
    ),
    "nothing kept": Network(
        (5, 4), readout="max", outputs=3, poolings=(AttentionPoolingConfig(Threshold(1.0), ScorerConfig("linear")),)
    ),
}
SLOW = ("gcn", "ground_truth", "chebygin")  # what they do the others do, or they take twice as long to compile
POOLING_OR_NOT = ["gcn", "gin", "chebynet", "chebygin", "ground_truth", "diffpool"]
SMALL_BLOCK = 8  # rows
PACKED_BUCKET = Bucket(
    nodes=32, edges=152, graphs=8, max_nodes=LARGEST, block_size=SMALL_BLOCK, storage=DenseStorage()
)  # one a graph
TABLE = SparseStorage(ell_width=2, coo_capacity=112)  # so that usual graphs have edges in the table and in the list


def tabulated_edges(graph):
    """`edges` with some of them side by side, as batches of sparse graphs are."""
    rows = jnp.arange(len(graph.nodes["features"]))
    real = jraph.get_node_padding_mask(graph)[graph.receivers]
    receivers = jnp.where(real, graph.receivers, len(rows))
    order = jnp.argsort(receivers)
    start, end = (jnp.searchsorted(receivers[order], rows, side) for side in ("left", "right"))
    adjacency = to_ell_coo((graph.senders[order], graph.edges[order]), start, end - start, 0 * rows, *TABLE)
    return sparse_topology(graph, adjacency=adjacency)


STORAGES = {"edges": tabulated_edges, "blocks": lambda graph: block_topology(graph, len(graph.nodes["features"]))}

fast = settings(max_examples=25, deadline=None, derandomize=True)
each_network = pytest.mark.parametrize("name", [slow(name) if name in SLOW else name for name in POOLING_OR_NOT])
each_storage = pytest.mark.parametrize("storage", STORAGES)


def changed_costs(**changes):
    return use_cost_model(dataclasses.replace(cost_model(), **changes))


@functools.cache
def params_of(name):
    """Initial weights, raised so that every weight has a gradient: else ReLUs would be 0 on all nodes."""
    graph = pad([USUAL])
    init = jax.jit(lambda: NETWORKS[name].init(jax.random.key(1), graph)["params"])
    return jax.tree.map(lambda weights: weights + 0.2, init())


def total_loss(params, network, graph, topology, compact=False):
    output = network.apply({"params": params}, graph, topology, compact=compact)
    loss = task_loss(output.prediction, graph.globals["label"], topology.graph_mask, "classification")
    terms = [attention_loss(pooled, graph.nodes["attention"], topology) for pooled in output.poolings]
    terms += [auxiliary_loss(per_graph, topology.graph_mask) for per_graph in output.auxiliary]
    return loss + sum(terms), output


@functools.cache
def program(name, storage):
    """(graph, rows to keep) -> (loss, output), gradient; compiled once a bucket."""

    @jax.jit
    def run(params, graph, kept):
        topology = STORAGES[storage](graph).subgraph(kept)
        return jax.value_and_grad(total_loss, has_aux=True)(params, NETWORKS[name], graph, topology)

    def on_rows(graph, kept=None):
        kept = jnp.ones(len(graph.nodes["attention"]), bool) if kept is None else kept
        return jax.tree.map(np.asarray, run(params_of(name), graph, kept))

    return on_rows


def pack_small(graph_list):
    """The graphs as a split of fixed size, and their ids in blocks of at most 8 rows, for `PACKED_BUCKET`."""
    with changed_costs(block_limit=SMALL_BLOCK):
        ids, _ = packing.pack(jraph.batch_np(graph_list), np.arange(len(graph_list)), dense=True)
    return device_put(pad(graph_list)), np.pad(ids[0], (0, PACKED_BUCKET.graphs - ids.shape[1]), constant_values=-1)


def gather_small(split, ids, storage):
    """The batch that `pack_small` lays out, with the topology asked for, for use inside jit."""
    return gather(split, ids, PACKED_BUCKET if storage == "blocks" else PACKED_BUCKET._replace(storage=TABLE))


@functools.cache
def packed_program(name, storage):
    """(graph list, nodes to keep) -> as `program`, in the order of the list, but computed in several blocks of rows."""

    @jax.jit
    def run(params, split, ids, kept):
        batch = gather_small(split, ids, storage)
        topology = batch.topology.subgraph(kept.at[batch.node_ids].get(mode="fill", fill_value=False))
        (loss, output), gradient = jax.value_and_grad(total_loss, has_aux=True)(
            params, NETWORKS[name], batch.graph, topology
        )
        in_order = output._replace(
            prediction=scatter(len(split.node_start), batch.graph_ids, output.prediction),
            poolings=jax.tree.map(lambda x: scatter(len(kept), batch.node_ids, x), output.poolings),
        )
        return (loss, in_order), gradient

    def on_graphs(graph_list, kept):
        return jax.tree.map(np.asarray, run(params_of(name), *pack_small(graph_list), kept))

    return on_graphs


def assert_close(actual, expected, tolerance=2e-5):
    """Every entry, not the array as a whole: |actual - expected| <= tolerance (1 + |expected|)."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(1.0 * actual, 1.0 * expected, rtol=tolerance, atol=tolerance)


def assert_same_result(actual, expected, graphs):
    """Loss, predictions of the real graphs and gradient of two runs of `program`."""
    ((loss, output), gradient), ((expected_loss, expected_output), expected_gradient) = actual, expected
    assert_close(output.prediction[:graphs], expected_output.prediction[:graphs])
    assert_close(loss, expected_loss)
    jax.tree.map(functools.partial(assert_close, tolerance=1e-4), gradient, expected_gradient)


def is_decided(graph_list, poolings, taus=(0.15, 0.1)):
    """Whether rounding can't change which nodes stay: no alpha near a threshold or, within a graph, near another."""
    for pooled in poolings:
        present = split_nodes(graph_list, pooled.node_mask_in)
        for alpha, here in zip(split_nodes(graph_list, pooled.attention), present, strict=True):
            alpha = np.sort(alpha[here])
            if (np.diff(alpha) < 1e-5).any() or any((np.abs(alpha - tau) < 1e-5).any() for tau in taus):
                return False
    return True


def random_mask(graph_list, seed):
    return np.random.default_rng(seed).random(node_count(graph_list)) < 0.6
