"""Pictures of attention on graphs: what is drawn is what was given, and odd input breaks none of them."""

import re

import jraph
import numpy as np
import pytest
from matplotlib.collections import PathCollection
from pictures import assert_only_picture

from jattn.graphs import Proximity, from_arrays
from jattn.plots import attention_on_graphs, save
from jattn.plots._layout import stress_layout


def random_graph(rng, count, label=0):
    upper = np.triu(rng.random((count, count)) < 3 / max(count, 1), 1)
    senders, receivers = np.nonzero(upper | upper.T)
    attention = np.maximum(rng.normal(size=count), 0)
    return from_arrays(np.zeros((count, 1)), senders, receivers, attention=attention, label=label)


def split(*sizes):
    """Graphs of these sizes with random attention and random drops for their nodes, and a prediction for each."""
    rng = np.random.default_rng(0)
    graphs = jraph.batch_np([random_graph(rng, count, label) for label, count in enumerate(sizes)])
    nodes = int(graphs.n_node.sum())
    prediction = np.arange(len(sizes)) + 0.25
    return graphs, rng.random(nodes).astype(np.float32), rng.random(nodes) < 0.5, prediction


def panels(figure):
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def test_a_panel_for_each_graph(tmp_path):
    data = split(0, 1, 2, 30, 200)
    figure = attention_on_graphs(*data, ids=[4, 0, 1], titles=["Large", "Empty", "One"])
    assert panels(figure) == [
        "Large: 200 nodes\nlabel 4, predicted 4.25",
        "Empty: 0 nodes\nlabel 0, predicted 0.25",
        "One: 1 node\nlabel 1, predicted 1.25",
    ]
    assert figure.axes[-1].get_ylabel() == "attention / largest of the graph"
    save(attention_on_graphs(*data, ids=[0, 1, 2, 3, 4, 3, 2]), tmp_path / "graphs.png")
    assert_only_picture(tmp_path / "graphs.png")


def test_kept_dropped_and_target_nodes_are_drawn_apart():
    graphs, attention, kept, prediction = split(5, 40)
    edges, dropped, filled, rings = (
        attention_on_graphs(graphs, attention, kept, prediction, ids=[1]).axes[0].collections
    )
    kept, target = kept[5:], graphs.nodes["attention"][5:] > 0
    assert len(edges.get_segments()) == graphs.n_edge[1] // 2
    assert [len(nodes.get_offsets()) for nodes in (dropped, filled, rings)] == [(~kept).sum(), kept.sum(), target.sum()]
    assert dropped.get_sizes()[0] < filled.get_sizes()[0]


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_attention_without_a_maximum_is_drawn(value, tmp_path):
    graphs, attention, kept, prediction = split(6)
    figure = attention_on_graphs(graphs, attention * 0 + value, kept, prediction * np.nan)
    save(figure, tmp_path / "graphs.png")
    assert_only_picture(tmp_path / "graphs.png")


def test_attention_alone_is_enough():
    graphs, attention, _, _ = split(*range(1, 13))
    figure = attention_on_graphs(graphs, attention)
    assert panels(figure)[:2] == ["1 node\nlabel 0", "2 nodes\nlabel 1"]
    assert len(panels(figure)) == 10
    assert all(len(axes.collections[1].get_offsets()) == 0 for axes in figure.axes[:10])  # nothing is dropped


def test_a_notebook_shows_the_figure():
    graphs, attention, _, _ = split(2)
    assert attention_on_graphs(graphs, attention)._repr_png_().startswith(b"\x89PNG")


def test_given_positions_are_used():
    data = split(3, 4)
    position = np.random.default_rng(0).random((7, 2))
    _, dropped, filled, _ = attention_on_graphs(*data, ids=[1], position=position).axes[0].collections
    drawn = np.concatenate([dropped.get_offsets(), filled.get_offsets()])
    assert sorted(map(tuple, drawn)) == sorted(map(tuple, position[3:]))


@pytest.mark.parametrize("ids", [[], [2], [-1]])
def test_ids_without_a_graph_are_refused(ids):
    with pytest.raises(ValueError, match="from 0 to 1"):
        attention_on_graphs(*split(3, 4), ids=ids)


def test_edges_that_follow_from_positions_have_to_be_listed():
    graphs, *drawn = split(3)
    with pytest.raises(ValueError, match=r"`list_edges\(graphs\)` lists them"):
        attention_on_graphs(graphs._replace(edges=Proximity(1.0)), *drawn, ids=[0])


BAD = {
    "attention: expected [nodes] = (7,), got (6,)": {"attention": np.ones(6)},
    "attention: expected [nodes] = (7,), got (1, 7)": {"attention": np.ones((1, 7))},
    "node_mask: expected [nodes] = (7,), got (8,)": {"node_mask": np.ones(8, bool)},
    "prediction: expected [graphs] = (2,), got (7,)": {"prediction": np.ones(7)},
    "prediction: expected [graphs] = (2,), got (2, 1)": {"prediction": np.ones((2, 1))},
    "position: expected [nodes, 2] = (7, 2), got (2, 2)": {"position": np.ones((2, 2))},
}


@pytest.mark.parametrize(("message", "arrays"), BAD.items(), ids=BAD)
def test_an_array_of_another_shape_is_named(message, arrays, unchecked_types):
    graphs, attention, _, _ = split(3, 4)
    with pytest.raises(ValueError, match=re.escape(message)):
        attention_on_graphs(graphs, **{"attention": attention} | arrays)


def test_graphs_without_labels_are_drawn_and_saved_by_a_name_as_text(tmp_path):
    graphs, attention, node_mask, prediction = split(3, 4)
    graphs = graphs._replace(globals={})
    figure = attention_on_graphs(graphs, attention, node_mask, prediction, titles=["a", ""])
    assert panels(figure) == ["a: 3 nodes\npredicted 0.25", "4 nodes\npredicted 1.25"]
    assert attention_on_graphs(graphs, attention).axes[0].get_title() == "3 nodes"
    save(figure, str(tmp_path / "own.png"))
    assert (tmp_path / "own.png").stat().st_size


def test_a_title_too_many_is_refused():
    with pytest.raises(ValueError, match="one per graph, got 2"):
        attention_on_graphs(*split(3, 4), ids=[0], titles=["a", "b"])


def test_nodes_at_the_border_are_drawn_whole():
    drawn = attention_on_graphs(*split(5, 6), ids=[0]).axes[0].collections
    nodes = [collection for collection in drawn if isinstance(collection, PathCollection)]
    assert nodes
    assert not any(collection.get_clip_on() for collection in nodes)


def test_layout_of_a_path_is_straight_and_evenly_spaced():
    ends = np.array([[i, i + 1] for i in range(9)] + [[i + 1, i] for i in range(9)])
    x = stress_layout(10, ends)
    assert np.abs(np.diff(x[:, 0])) == pytest.approx(1, abs=0.1)
    assert np.abs(x[:, 1]).max() < 0.2


def test_layout_parts_components_and_twins():
    x = stress_layout(6, np.array([[0, 1], [1, 0], [0, 2], [2, 0]]))
    apart = np.linalg.norm(x[:, None] - x, axis=-1) + np.eye(6)
    assert apart.min() > 0.3


def test_rings_are_explained_where_there_is_a_target():
    graphs, attention, kept, prediction = split(5, 6)
    for here in (True, False):
        graphs.nodes["attention"][:] = here
        (legend,) = attention_on_graphs(graphs, attention, kept, prediction, ids=[0]).legends
        assert ("has target attention" in [text.get_text() for text in legend.get_texts()]) == here
