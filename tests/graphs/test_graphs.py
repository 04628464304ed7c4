"""Graphs from arrays, dense matrices and networkx are the same graph, and what is wrong with one is said precisely."""

import jax.numpy as jnp
import jraph
import networkx as nx
import numpy as np
import pytest
import scipy.sparse

from jattn.batching import device_put, pad
from jattn.graphs import check, from_arrays, from_dense, from_networkx, select_graphs

FEATURES = np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]])
ADJACENCY = np.array([[0, 0.5, 0, 0], [0.5, 0, 2, 0], [0, 2, 1.5, 0], [0, 0, 0, 0]])
ATTENTION = [0.0, 1, 3, 0]


def by_arrays(**changes):
    arguments = {
        "features": FEATURES,
        "senders": [0, 1, 1, 2, 2],
        "receivers": [1, 0, 2, 1, 2],
        "weights": [0.5, 0.5, 2, 2, 1.5],
        "attention": ATTENTION,
        "label": 3,
    }
    return from_arrays(**{**arguments, **changes})


def with_nodes(**fields):
    graph = by_arrays()
    return graph._replace(nodes={**graph.nodes, **fields})


def by_networkx():
    graph = nx.Graph()
    for name, features, attention in zip("abcd", FEATURES.tolist(), ATTENTION, strict=True):
        graph.add_node(name, features=features, attention=attention)
    graph.add_edge("a", "b", weight=0.5)
    graph.add_edge("b", "c", weight=2)
    graph.add_edge("c", "c", weight=1.5)
    return from_networkx(graph, label=3)


def sorted_by_edge(graph):
    order = np.lexsort((graph.receivers, graph.senders))
    return graph._replace(senders=graph.senders[order], receivers=graph.receivers[order], edges=graph.edges[order])


@pytest.mark.parametrize("make", [by_networkx, lambda: from_dense(FEATURES, ADJACENCY, attention=ATTENTION, label=3)])
def test_all_ways_make_the_same_graph(make):
    expected, actual = by_arrays(), sorted_by_edge(make())
    for field in ("edges", "senders", "receivers", "n_node", "n_edge"):
        np.testing.assert_array_equal(getattr(actual, field), getattr(expected, field))
        assert getattr(actual, field).dtype == getattr(expected, field).dtype
    for name in ("features", "attention"):
        np.testing.assert_array_equal(actual.nodes[name], expected.nodes[name])
    np.testing.assert_array_equal(actual.globals["label"], [3])
    check(actual)


def test_types_are_those_that_the_device_takes():
    graph = by_arrays()
    assert graph.nodes["features"].dtype == graph.nodes["attention"].dtype == graph.edges.dtype == np.float32
    assert graph.senders.dtype == graph.receivers.dtype == graph.n_node.dtype == graph.n_edge.dtype == np.int32
    assert graph.globals["label"].dtype == np.int32
    assert by_arrays(label=0.5).globals["label"].dtype == np.float32


def test_one_hot_features_stay_bytes():
    assert by_arrays(features=np.eye(4, dtype=np.uint8)).nodes["features"].dtype == np.uint8


def test_weights_are_1_and_attention_0_where_not_given():
    graph = from_arrays(FEATURES, [0, 1], [1, 0])
    assert graph.edges.tolist() == [1, 1]
    assert graph.nodes["attention"].tolist() == [0, 0, 0, 0]


def test_a_networkx_node_may_hold_a_single_number_and_lack_attention():
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: 1.0, 1: 2.0, 2: 3.0}, "height")
    converted = from_networkx(graph, features="height")
    assert converted.nodes["features"].tolist() == [[1], [2], [3]]
    assert converted.nodes["attention"].tolist() == [0, 0, 0]
    assert converted.edges.tolist() == [1, 1, 1, 1]


def test_empty_graphs_and_single_nodes_are_graphs():
    for graph in (
        from_arrays(np.zeros((0, 2)), [], []),
        from_dense(np.zeros((0, 2)), np.zeros((0, 0))),
    ):
        assert graph.n_node.tolist() == [0]
        assert graph.n_edge.tolist() == [0]
        assert graph.senders.dtype == np.int32
    assert from_arrays([[1.0]], [], []).n_node.tolist() == [1]
    assert from_arrays([[1.0]], [0], [0]).n_edge.tolist() == [1]


def test_many_graphs_are_checked_as_one():
    good = jraph.batch_np([by_arrays(), from_arrays(FEATURES[:0], [], [], label=0), by_arrays()])
    check(good)
    receivers = good.receivers.copy()
    receivers[9] = 1  # node 1 of the first graph, from an edge of the last one, whose nodes are 4 to 7
    message = r"^node -3 of edge 9 is out of range: the graph has 4 nodes \(0-3\)$"
    with pytest.raises(ValueError, match=message):
        check(good._replace(receivers=receivers))


def ring(nodes, edge=None, node=None):
    """A ring with edges in both directions, one of them changed to end at `node`."""
    senders = np.concatenate([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
    receivers = np.roll(senders, nodes)
    if edge is not None:
        receivers[edge] = node
    return np.ones((nodes, 1)), senders, receivers


def test_the_smallest_ring_is_accepted():
    assert from_arrays(*ring(3)).n_edge.tolist() == [6]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: from_arrays(np.ones((5, 1)), [0, 1] * 6 + [0], [1, 0] * 6 + [7]),
            "node 7 of edge 12 is out of range: the graph has 5 nodes (0-4)",
        ),
        (lambda: from_arrays(*ring(5, 3, -1)), "node -1 of edge 3 is out of range: the graph has 5 nodes (0-4)"),
        (lambda: from_arrays(*ring(5, 3, 5)), "node 5 of edge 3 is out of range: the graph has 5 nodes (0-4)"),
        (lambda: from_arrays(np.zeros((0, 1)), [0], [0]), "node 0 of edge 0 is out of range: the graph has no nodes"),
        (lambda: from_arrays([[1.0], [np.nan]], [], []), "features[1, 0] is nan: expected finite numbers"),
        (lambda: from_arrays([[np.inf]], [], []), "features[0, 0] is inf: expected finite numbers"),
        (lambda: from_arrays([1.0, 2.0], [], []), "features: expected shape [nodes, features], got (2,)"),
        (lambda: by_arrays(attention=[1, 2, 3]), "attention: expected one number per node (4), got shape (3,)"),
        (lambda: by_arrays(attention=[0, 0, -0.5, 0]), "attention[2] is -0.5: expected at least 0"),
        (lambda: by_arrays(attention=[0, 0, np.nan, 0]), "attention[2] is nan: expected finite numbers"),
        (lambda: by_arrays(weights=[1, 1]), "weights: expected one number per directed edge (5), got shape (2,)"),
        (lambda: by_arrays(weights=[-1, -1, 1, 1, 1]), "weights[0] is -1.0: expected at least 0"),
        (lambda: by_arrays(weights=[0.5, 0.25, 2, 2, 1]), "edge 0 (0 -> 1) has weight 0.5, its reverse 0.25"),
        (lambda: by_arrays(senders=[0, 1]), "receivers: expected one number per directed edge (2), got shape (5,)"),
        (lambda: by_arrays(senders=[[0, 1]]), "senders: expected shape [edges], got (1, 2)"),
        (lambda: by_arrays(senders=[0.0, 1, 1, 2, 2]), "senders: expected integers, got float64"),
        (
            lambda: from_arrays(FEATURES, [0, 1, 1], [1, 0, 2]),
            "edge 2 (1 -> 2) has no reverse: list every undirected edge in both directions",
        ),
        (
            lambda: from_arrays(FEATURES, [0, 1, 0, 1], [1, 0, 1, 0]),
            "edge 2 (0 -> 1) is listed twice; add the weights up",
        ),
        (lambda: from_arrays(FEATURES, [0, 0], [0, 0]), "edge 1 (0 -> 0) is listed twice; add the weights up"),
        (lambda: from_dense(FEATURES, np.ones((4, 3))), "adjacency: expected shape [nodes, nodes], got (4, 3)"),
        (lambda: from_dense(FEATURES, np.ones((3, 3))), "adjacency: 3 nodes, but features has 4"),
        (
            lambda: from_dense(FEATURES[:2], [[0, 1], [0, 0]]),
            "edge 0 (0 -> 1) has no reverse: list every undirected edge in both directions",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(make, message):
    with pytest.raises(ValueError) as error:
        make()
    assert str(error.value) == message


def test_an_edge_listed_twice_in_one_direction_is_named():
    with pytest.raises(ValueError, match=r"^edge 4 \(1 -> 2\) is listed twice"):
        from_arrays(FEATURES, [0, 1, 1, 2, 1], [1, 0, 2, 1, 2])


def test_a_negative_size_is_refused():
    graph = by_arrays()
    for field in ("n_node", "n_edge"):
        with pytest.raises(ValueError, match="a size is negative"):
            check(graph._replace(**{field: np.array([-1], np.int32)}))


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_directed_and_multiple_networkx_graphs_are_refused(kind):
    with pytest.raises(ValueError, match=r"graph: expected an undirected networkx\.Graph"):
        from_networkx(kind([(0, 1)]))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ([nx.path_graph(2)] * 3, r"graph: expected one networkx\.Graph, got a list of 3; jraph\.batch_np\(\["),
        ("graph.gml", r"graph: expected a networkx\.Graph, got str"),
        (nx.Graph(), "graph: it has no nodes, .* leave the graph out, or use from_arrays"),
    ],
)
def test_what_is_not_one_networkx_graph_with_nodes_is_refused(graph, message, unchecked_types):
    with pytest.raises(ValueError, match=message):
        from_networkx(graph)


def test_a_graph_without_a_label_has_none():
    for graph in (by_arrays(label=None), from_dense(FEATURES, ADJACENCY)):
        assert graph.globals == {}
        check(graph)
        assert select_graphs(jraph.batch_np([graph, graph]), [1]).globals == {}


def test_a_networkx_node_without_features_is_named():
    graph = nx.Graph()
    graph.add_node("a", features=[1.0])
    graph.add_node("b", color=1)
    with pytest.raises(ValueError, match=r"^node 'b' has no attribute 'features'; it has \['color'\]$"):
        from_networkx(graph)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.coo_matrix, scipy.sparse.dok_array])
def test_a_scipy_adjacency_is_that_of_numpy(kind):
    sparse, dense = (from_dense(FEATURES, adjacency) for adjacency in (kind(ADJACENCY), ADJACENCY))
    for name in ("senders", "receivers", "edges"):
        np.testing.assert_array_equal(getattr(sparse, name), getattr(dense, name))
    ends = np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0])
    twice = scipy.sparse.coo_array(([1.0, 1, 2, 2], ends), shape=(4, 4))
    assert from_dense(FEATURES, twice).edges.tolist() == [3, 3]
    with pytest.raises(ValueError, match=r"adjacency: expected shape \[nodes, nodes\], got \(3, 4\)"):
        from_dense(FEATURES, kind(ADJACENCY[:3]))


@pytest.mark.parametrize(
    ("features", "label", "message"),
    [
        ([[1.0], [2.0, 3.0]], 0, "features: expected an array of real numbers, its rows of equal length"),
        (
            [["a"], ["b"]],
            0,
            "features: expected an array of real numbers, got <U1; make numbers of text first",
        ),
        (np.zeros((2, 0)), 0, "features: there are no columns"),
        (np.ones((2, 1)), 2**40, "label: 1099511627776 is no integer of 32 bits"),
        (np.ones((2, 1)), "1", "label: expected a number, got '1'"),
        (np.ones((2, 1)), float("inf"), r"label\[0\] is inf: expected finite numbers"),
    ],
)
def test_features_and_labels_that_are_no_numbers_are_refused_by_name(features, label, message, unchecked_types):
    with pytest.raises(ValueError, match=message):
        from_arrays(features, [], [], label=label)


def test_a_networkx_node_with_text_for_features_is_told_of_one_hot_columns():
    graph = nx.Graph()
    graph.add_node("a", element="C")
    with pytest.raises(ValueError, match=r"element: expected an array of real numbers, got <U1; .* one-hot columns"):
        from_networkx(graph, features="element")


def test_networkx_features_of_unequal_length_are_refused_by_name():
    graph = nx.Graph()
    graph.add_node("a", features=[1.0, 2])
    graph.add_node("b", features=[1.0])
    with pytest.raises(ValueError, match=r"features: node 'b' has shape \(1,\), the first node \(2,\)"):
        from_networkx(graph)


def twice_both_ways():
    graph = by_arrays()
    again = [np.concatenate([array, array[:2]]) for array in (graph.senders, graph.receivers, graph.edges)]
    return graph._replace(senders=again[0], receivers=again[1], edges=again[2], n_edge=graph.n_edge + 2)


@pytest.mark.parametrize("enter", [check, device_put, pad])
@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (twice_both_ways, r"edge 5 \(0 -> 1\) is listed twice; add the weights up"),
        (lambda: by_arrays()._replace(edges=np.full(5, np.nan)), r"weights\[0\] is nan: expected finite numbers"),
        (lambda: by_arrays()._replace(edges=np.full(5, -1.0)), r"weights\[0\] is -1.0: expected at least 0"),
        (lambda: with_nodes(features=FEATURES * 1j), "features: expected an array of real numbers, got complex128"),
        (lambda: with_nodes(attention=np.full(4, np.inf)), r"attention\[0\] is inf: expected finite numbers"),
        (lambda: with_nodes(features=np.full((4, 1), np.nan)), r"features\[0, 0\] is nan: expected finite numbers"),
        (lambda: by_arrays()._replace(globals={"label": np.array([np.nan])}), r"label\[0\] is nan: expected finite"),
        (
            lambda: by_arrays()._replace(globals={"label": np.array(["cat"])}),
            "label: expected an array of real .* <U3",
        ),
        (lambda: [by_arrays(), by_arrays()], r"graphs: expected one GraphsTuple, got a list of 2; jraph.batch_np"),
        (lambda: {"features": FEATURES}, "graphs: expected a jraph.GraphsTuple, got dict"),
    ],
)
def test_bad_graphs_are_refused_before_they_reach_the_device(enter, graph, message, unchecked_types):
    with pytest.raises(ValueError, match=message):
        enter(graph())


def test_graphs_of_every_real_type_are_accepted():
    graph = by_arrays()
    for dtype in (np.float16, np.float64, np.int64, jnp.bfloat16):
        check(graph._replace(edges=np.ones(5, dtype), nodes={**graph.nodes, "features": FEATURES.astype(dtype)}))


def test_edges_without_a_single_weight_may_be_directed():
    graph = by_arrays()
    one_way = graph._replace(senders=graph.senders[:1], receivers=graph.receivers[:1], n_edge=np.array([1], np.int32))
    assert pad(one_way._replace(edges=np.ones((1, 2)))).n_edge[0] == 1


def test_complex_arguments_are_refused_by_name():
    for name, values in (("features", FEATURES * 1j), ("weights", np.ones(5) * 1j), ("attention", np.ones(4) * 1j)):
        with pytest.raises(ValueError, match=f"^{name}: expected an array of real numbers.*complex128"):
            by_arrays(**{name: values})


def test_padding_may_be_put_on_the_device_like_any_graph():
    assert device_put(pad(by_arrays())).graphs.n_node.tolist() == [4, 4]
