"""What changes when a node goes is a subgraph around it: computing that alone gives what the whole graph does."""

import functools

import jax
import jax.numpy as jnp
import jraph
import networkx as nx
import numpy as np
import pytest
from cases import slow
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import changed_costs

from jattn._cost_model import cost_model
from jattn.attribution import _whole_split as left_out
from jattn.attribution import leave_one_out, leave_one_out_seeds
from jattn.attribution._large_graphs import full_graph_activations, hop_radii, predict_without_each, subgraph_batches
from jattn.batching import SparseStorage, device_put, gather, pack, pad
from jattn.datasets import read_tu, tu_graphs
from jattn.graphs import from_arrays, from_networkx, select_graphs
from jattn.nn import AttentionPoolingConfig, Network, ScorerConfig, Threshold, sparse_topology

NETWORKS = {
    "chebynet": Network((5, 4, 3), order=3, readout="max", outputs=3),
    "chebygin": Network((4, 5), order=3, aggregation="sum", hidden=6, readout="mean", outputs=3),
    "gcn": Network((5, 4), order=1, readout="sum", outputs=3),
    "log_sum": Network((5, 4), order=2, readout="log_sum", outputs=3),
    "gin": Network((5, 4), order=1, aggregation="sum", hidden=6, readout="max", outputs=3),
    "wide": Network((6,), order=4, readout="max", outputs=3),
}


def graph_of(graph, seed=0, *, weighted=True):
    """A networkx graph with random features and weights."""
    rng = np.random.default_rng(seed)
    graph = nx.convert_node_labels_to_integers(graph)
    for node in graph:
        graph.nodes[node]["features"] = rng.normal(size=3)
    for *ends, data in graph.edges(data=True):
        data["weight"] = rng.uniform(0.5, 2) if weighted and ends[0] != ends[1] else 1.0
    return from_networkx(graph)


def with_loop(graph):
    graph.add_edge(3, 3)
    return graph


GRAPHS = [
    graph_of(nx.path_graph(31)),
    graph_of(nx.grid_2d_graph(6, 8), 1, weighted=False),
    graph_of(with_loop(nx.cycle_graph(26)), 2),
    graph_of(nx.disjoint_union_all([nx.path_graph(9), nx.empty_graph(3), nx.cycle_graph(14)]), 3),
    graph_of(nx.random_labeled_tree(40, seed=4), 4),
]


@pytest.fixture
def small():
    """Sizes at which small graphs have several chunks of subgraphs."""
    chunks = {"subgraph_rows": 96, "subgraph_edges": 150, "search_sources": 16, "subgraph_count": 8}
    with changed_costs(**chunks, subgraph_nodes=24, subgraph_share=1.0):
        yield


def params_of(network, seeds):
    graph = jax.tree.map(jnp.asarray, pad(GRAPHS[0]))
    return jax.vmap(lambda key: network.init(key, graph)["params"])(jax.random.split(jax.random.key(1), seeds))


@pytest.mark.parametrize(("name", "seeds"), [slow("chebynet", 1), slow("chebygin", 2), ("gcn", 3), slow("log_sum", 2)])
def test_subgraphs_give_what_copies_of_whole_graphs_do(name, seeds, small, monkeypatch):
    graphs, params = jraph.batch_np([*GRAPHS, graph_of(nx.path_graph(5))]), params_of(NETWORKS[name], seeds)
    done, by_ball = [], []
    chunked = left_out.subgraph_batches
    monkeypatch.setattr(left_out, "subgraph_batches", lambda *a: by_ball.append(chunked(*a)) or by_ball[-1])
    actual = leave_one_out_seeds(NETWORKS[name], params, graphs, "classification", done.append)
    assert len(by_ball) == 5
    assert sum(chunks is not None and len(chunks.removed) > 2 for chunks in by_ball) >= 3
    assert sum(done) == 6
    with changed_costs(subgraph_nodes=10**9):
        expected = leave_one_out_seeds(NETWORKS[name], params, graphs, "classification")
    assert (expected.total_change > 0.01).all()
    np.testing.assert_allclose(actual.total_change, expected.total_change, rtol=1e-4)
    np.testing.assert_allclose(actual.attention, expected.attention, atol=1e-5)
    np.testing.assert_allclose(actual.target, expected.target, atol=1e-5)


@pytest.mark.slow
def test_seeds_side_by_side_give_what_they_do_one_after_another(small):
    network, graphs = NETWORKS["gcn"], GRAPHS[1]
    params = params_of(network, 3)
    expected = leave_one_out_seeds(network, params, graphs, "classification")
    with changed_costs(sequential_floats=None):
        actual = leave_one_out_seeds(network, params, graphs, "classification")
    np.testing.assert_allclose(actual.attention, expected.attention, atol=1e-6)


@pytest.mark.slow
def test_in_double_precision_they_agree_to_nine_digits(small):
    network, graph = NETWORKS["chebynet"], GRAPHS[1]
    chunks = subgraph_batches(graph, network, width=2)
    ids, bucket = pack(graph, np.zeros((1, 1), int), dense=False)
    bucket = bucket._replace(storage=SparseStorage(2, 100))
    assert (chunks.coo_row >= 0).sum() > 100

    @jax.jit
    def by_balls(params, split):
        batch = gather(split, jnp.asarray(ids[0, 0]), bucket)
        prediction, whole = full_graph_activations(network, params, batch.graph, batch.topology)
        return prediction[0], jax.lax.map(functools.partial(predict_without_each, network, params, whole), chunks)

    @jax.jit
    def by_copies(params, padded):
        topology, row = sparse_topology(padded), jnp.arange(len(padded.nodes["attention"]))
        network_of = functools.partial(network.apply, {"params": params}, padded)
        whole = network_of(topology).prediction[0]
        return whole, jax.lax.map(lambda i: network_of(topology.subgraph(row != i)).prediction[0], jnp.arange(48))

    with jax.enable_x64(True):
        params = jax.tree.map(lambda x: x[0].astype(jnp.float64), params_of(network, 1))
        prediction, without = by_balls(params, device_put(graph))
        expected, expected_without = by_copies(params, jax.tree.map(jnp.asarray, pad(graph)))
    assert expected.dtype == np.float64
    np.testing.assert_allclose(prediction, expected, rtol=1e-9)
    np.testing.assert_allclose(without.reshape(-1, 3)[chunks.removed.reshape(-1) >= 0], expected_without, atol=1e-9)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    nodes=st.integers(1, 40), edges_of=st.integers(0, 60), seed=st.integers(0, 999), name=st.sampled_from([*NETWORKS])
)
def test_chunks_hold_every_subgraph_once(nodes, edges_of, seed, name):
    graph = nx.gnm_random_graph(nodes, edges_of, seed=seed)
    chunks = subgraph_batches(graph_of(graph, seed), NETWORKS[name], width=2)
    beyond = np.maximum([graph.degree(i) - 2 for i in graph], 0)
    first = np.cumsum(beyond) - beyond
    *changed, reach = hop_radii(NETWORKS[name])
    removed = chunks.removed[chunks.removed >= 0]
    assert removed.tolist() == list(range(nodes))
    for of_chunk in zip(*chunks, strict=True):
        middle, subgraph, node, changes, beyond_row, beyond_entry = of_chunk
        assert (np.diff(subgraph) >= 0).all()
        listed = [(row, first[node[row]] + j) for row in np.flatnonzero(node >= 0) for j in range(beyond[node[row]])]
        assert list(zip(beyond_row.tolist(), beyond_entry.tolist(), strict=True))[: len(listed)] == listed
        assert (beyond_row[len(listed) :] == -1).all()
        for i in np.flatnonzero(middle >= 0):
            distance = nx.single_source_shortest_path_length(graph, int(middle[i]), reach)
            rows = (subgraph == i) & (node >= 0)
            assert sorted(node[rows].tolist()) == sorted(distance)
            expected = [sum(distance[u] <= radius for radius in changed) for u in node[rows].tolist()]
            assert changes[rows].tolist() == expected


def test_subgraphs_that_are_most_of_a_graph_or_fit_no_chunk_are_not_made():
    network, grid = NETWORKS["chebynet"], GRAPHS[1]
    assert subgraph_batches(grid, network, 3) is not None
    assert subgraph_batches(grid, network, 3, max_share=0.3) is None
    with changed_costs(subgraph_edges=20):
        assert subgraph_batches(grid, network, 4) is not None
        assert subgraph_batches(grid, network, 3) is None
    with changed_costs(subgraph_rows=40):
        assert subgraph_batches(grid, network, 4) is None


def test_only_large_graphs_without_hubs_are_looked_at(small):
    star, network = graph_of(nx.star_graph(40)), NETWORKS["gcn"]
    dense = from_arrays(np.ones((30, 3)), *np.nonzero(np.ones((30, 30))))
    graphs = jraph.batch_np([GRAPHS[0], star, dense, graph_of(nx.path_graph(5)), GRAPHS[1]])
    assert left_out._large_and_sparse(network, graphs).tolist() == [0, 2, 4]
    pooled = network.clone(poolings=(None, AttentionPoolingConfig(Threshold(0.1), ScorerConfig())))
    assert not len(left_out._large_and_sparse(pooled, graphs))


def test_a_bucket_of_many_edges_has_no_more_nodes_than_its_graph_needs():
    graphs = jraph.batch_np([graph_of(nx.circulant_graph(210, range(1, 11))), graph_of(nx.cycle_graph(210))])
    crowded, sparse = (left_out._bucket(graphs, i, 2, others) for i, others in enumerate((210 * 18, 0)))
    assert (crowded.nodes, crowded.edges, crowded.storage.coo_capacity) == (400, 6400, 6400)
    assert (sparse.nodes, sparse.edges, sparse.storage.coo_capacity) == (400, 800, 50)


@pytest.mark.slow
def test_on_graphs_of_proteins_they_agree_with_copies(shared):
    graphs = tu_graphs(read_tu(shared / "data", "DD"))
    by_size = np.argsort(graphs.n_node, kind="stable")
    graphs = select_graphs(graphs, by_size[[700, 800, 1000]])
    assert graphs.n_node.min() > cost_model().subgraph_nodes
    network = Network((16, 16, 16), order=3, readout="max", outputs=2)
    padded = jax.tree.map(jnp.asarray, pad(graphs))
    params = jax.tree.map(lambda x: x[None], network.init(jax.random.key(0), padded)["params"])
    actual = leave_one_out_seeds(network, params, graphs, "classification")
    with changed_costs(subgraph_nodes=10**9):
        expected = leave_one_out_seeds(network, params, graphs, "classification")
    difference = np.abs(actual.attention - expected.attention)
    moved = np.repeat(expected.total_change, graphs.n_node, axis=1)  # which the labels divide by
    assert np.minimum(difference, difference * moved).max() <= 1e-6


class Residual(Network):
    """A network with a forward pass of its own."""

    def __call__(self, graph, topology=None, *, train=False):
        output = super().__call__(graph, topology, train=train)
        first = topology.sum(graph.nodes["features"].astype(jnp.float32))[:, :1]
        return output._replace(prediction=output.prediction + first)


@pytest.mark.slow
def test_a_subclass_has_labels_of_its_own_forward_pass():
    network = Residual((4,), order=2, outputs=2)
    graph = graph_of(nx.cycle_graph(26))
    padded = jax.tree.map(jnp.asarray, pad(graph))
    params = network.init(jax.random.key(0), padded, sparse_topology(padded))["params"]

    def predict(graph, kept):
        return network.apply({"params": params}, graph, sparse_topology(graph).subgraph(kept)).prediction

    expected = leave_one_out(predict, padded, task="classification").attention[:26]
    with changed_costs(subgraph_nodes=20):
        labels = leave_one_out_seeds(network, jax.tree.map(lambda x: x[None], params), graph, "classification")
    np.testing.assert_allclose(labels.attention[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_graphs_by_subgraphs_and_by_copies_each_get_their_own_labels():
    graphs = jraph.batch_np([graph_of(nx.complete_graph(9)), GRAPHS[0], graph_of(nx.cycle_graph(5)), GRAPHS[1]])
    network = NETWORKS["chebynet"]  # some of whose predictions rise without a node
    padded = jax.tree.map(jnp.asarray, pad(graphs))
    params = jax.tree.map(lambda x: x[None], network.init(jax.random.key(0), padded)["params"])
    for change in ("absolute", "decrease"):
        with changed_costs(subgraph_nodes=20):
            mixed = leave_one_out_seeds(network, params, graphs, "classification", change=change)
        with changed_costs(subgraph_nodes=1000):
            copied = leave_one_out_seeds(network, params, graphs, "classification", change=change)
        for a, b in zip(mixed, copied, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
