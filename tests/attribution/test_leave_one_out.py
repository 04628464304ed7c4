"""Leaving nodes out by masks, in chunks and in blocks, equals really removing each one."""

import functools

import jax
import numpy as np
import pytest
from graph_strategies import CORNER_CASES, LARGEST, USUAL, graph_lists, node_count, pad, remove, split_nodes
from hypothesis import example, given, settings
from programs import NETWORKS, STORAGES, assert_close, each_storage, gather_small, pack_small, params_of, program

from jattn.attribution import LeaveOneOut, leave_one_out
from jattn.batching import drop_nodes, scatter
from jattn.nn import sparse_topology


@functools.cache
def predict_of(name, way):
    network, params = NETWORKS[name], params_of(name)

    def predict(graph, kept):
        if way == "dropped":
            return network.apply({"params": params}, drop_nodes(graph, kept), None).prediction
        return network.apply({"params": params}, graph, STORAGES[way](graph).subgraph(kept)).prediction

    return predict


@functools.cache
def leave_one_out_of(name, way, task, chunk, change="absolute"):
    predict = predict_of(name, way)  # outside of jit, where weights are numbers
    return jax.jit(lambda graph: leave_one_out(predict, graph, LARGEST, task=task, change=change, chunk=chunk))


def leave_one_out_by_loop(name, graph_list, task):
    """Removes every node of every graph for real, one after another; yields by how much predictions fall."""
    run = program(name, "edges")

    def output(graph, column):
        return run(pad([graph]))[0][1].prediction[0, column]

    for graph in graph_list:
        whole = run(pad([graph]))[0][1].prediction[0]
        column = whole.argmax() if task == "classification" else 0
        n = len(graph.nodes["features"])
        fall = [whole[column] - output(remove(graph, np.arange(n) != i), column) for i in range(n)]
        yield np.array(fall, np.float64), whole[column]


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("way", ["edges", "blocks", "dropped"])
@pytest.mark.parametrize("name", ["gin", "diffpool"])
@settings(max_examples=8, deadline=None, derandomize=True)
@example(graph_list=CORNER_CASES["all of these"])
@example(graph_list=CORNER_CASES["empty"])
@given(graph_list=graph_lists)
def test_leave_one_out_equals_really_removing_each_node(name, way, task, graph_list):
    graph, falls = pad(graph_list), list(leave_one_out_by_loop(name, graph_list, task))
    for change in ("absolute", "decrease"):
        result = leave_one_out_of(name, way, task, None, change)(graph)
        nodes = zip(split_nodes(graph_list, result.attention), split_nodes(graph_list, result.target), strict=True)
        for i, (fall, y) in enumerate(falls):
            moved = np.abs(fall) if change == "absolute" else np.maximum(fall, 0)
            rounding = 1e-5 * max(1, abs(y)) * max(1, len(moved))
            attention, target = next(nodes)
            assert_close(attention * (moved.sum() + 1e-7), moved, rounding)
            assert_close(result.total_change[i], moved.sum(), rounding)
            if moved.sum() > 3 * rounding:
                np.testing.assert_array_equal(target, attention)
        assert not result.attention[node_count(graph_list) :].any()
        assert not result.target[node_count(graph_list) :].any()


@functools.cache
def packed_leave_one_out_of(name, storage, task):
    network, params = NETWORKS[name], params_of(name)

    @jax.jit
    def run(split, ids):
        batch = gather_small(split, ids, storage)

        def predict(graph, kept):
            return network.apply({"params": params}, graph, batch.topology.subgraph(kept)).prediction

        result = leave_one_out(predict, batch.graph, LARGEST, task=task, graph_mask=batch.topology.graph_mask)
        graphs, nodes = len(split.node_start), len(split.graphs.nodes["attention"])
        return LeaveOneOut(
            scatter(nodes, batch.node_ids, result.attention),
            scatter(nodes, batch.node_ids, result.target),
            scatter(graphs, batch.graph_ids, result.total_change),
        )

    return run


@each_storage
@settings(max_examples=15, deadline=None, derandomize=True)
@example(graph_list=CORNER_CASES["all of these"])
@example(graph_list=CORNER_CASES["empty"])
@given(graph_list=graph_lists)
def test_leave_one_out_of_a_packed_batch_equals_that_of_the_padded_one(storage, graph_list):
    whole = leave_one_out_of("gin", "edges", "classification", None)(pad(graph_list))
    packed = packed_leave_one_out_of("gin", storage, "classification")(*pack_small(graph_list))
    outputs = program("gin", "edges")(pad(graph_list))[0][1].prediction
    for i, (a, b) in enumerate(zip(*(split_nodes(graph_list, x.attention) for x in (packed, whole)), strict=True)):
        rounding = 1e-5 * max(1, np.abs(outputs[i]).max()) * max(1, len(a))
        assert_close(packed.total_change[i], whole.total_change[i], rounding)
        assert_close(a * (packed.total_change[i] + 1e-7), b * (whole.total_change[i] + 1e-7), rounding)


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_leave_one_out_in_chunks_equals_all_at_once(chunk):
    graph = pad(CORNER_CASES["all of these"])
    at_once, in_chunks = (leave_one_out_of("gin", "edges", "regression", c)(graph) for c in (None, chunk))
    jax.tree.map(assert_close, in_chunks, at_once)


@pytest.mark.parametrize("graph_list", CORNER_CASES.values(), ids=CORNER_CASES)
def test_leave_one_out_reads_the_largest_graph_where_it_is_not_told(graph_list):
    graph = pad(graph_list)
    predict = jax.jit(predict_of("gin", "edges"))
    expected = leave_one_out_of("gin", "edges", "regression", None)(graph)
    jax.tree.map(assert_close, leave_one_out(predict, graph), expected)


def test_where_no_prediction_falls_no_node_has_attention():
    def predict(graph, kept):  # without a node it rises
        topology = sparse_topology(graph).subgraph(kept)
        return -topology.sum(jax.numpy.ones((len(kept), 1)))

    result = leave_one_out(predict, pad([USUAL]), change="decrease")
    assert not result.attention.any()
    assert not result.total_change.any()
    assert leave_one_out(predict, pad([USUAL])).attention.sum() > 0.99


@pytest.mark.parametrize(("name", "value"), [("task", "count"), ("change", "rise")])
def test_an_unknown_task_or_change_is_named(name, value, unchecked_types):
    predict = predict_of("gin", "edges")
    with pytest.raises(ValueError, match=f"{name}: '{value}' is not known"):
        leave_one_out(predict, pad([USUAL]), **{name: value})


def test_a_graph_in_which_nothing_matters_gives_no_weak_target():
    def predict(graph, kept):
        topology = sparse_topology(graph).subgraph(kept)
        return topology.sum(topology.mask_nodes(graph.nodes["features"][:, :1])) + 5

    still = USUAL._replace(nodes={**USUAL.nodes, "features": np.zeros_like(USUAL.nodes["features"])})
    hardly = USUAL._replace(nodes={**USUAL.nodes, "features": np.full_like(USUAL.nodes["features"], 4e-6)})
    graph_list = [USUAL, still, hardly]
    graph = pad(graph_list)
    result = leave_one_out(predict, graph)
    usual, *others = split_nodes(graph_list, result.target)
    expected = np.abs(USUAL.nodes["features"][:, 0])
    assert_close(usual, expected / expected.sum())
    assert not np.any(others)
