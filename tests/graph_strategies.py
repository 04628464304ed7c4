"""Small graphs for tests: strategies that generate them, buckets that hold them, and numpy-side surgery on them."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np
from hypothesis import strategies as st

from jattn.batching import Bucket
from jattn.graphs import from_arrays

FEATURES = 3
LARGEST = 6  # nodes
MOST = 4  # graphs
BUCKET = Bucket(nodes=32, edges=152, graphs=6, max_nodes=LARGEST)  # holds any list of `graph_lists`
LARGER_BUCKET = Bucket(nodes=48, edges=176, graphs=9, max_nodes=LARGEST)


def make_graph(nodes, density, seed, *, weighted=True, attended=True):
    """A random graph: each pair of nodes, self-loops included, is joined with probability `density`."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(nodes)
    joined = rng.random(len(i)) < density
    i, j = i[joined], j[joined]
    weights = rng.uniform(0.1, 2, len(i)) if weighted else np.ones(len(i))
    apart = i != j
    attention = rng.uniform(0, 1, nodes) * (rng.random(nodes) < 0.6) if attended else np.zeros(nodes)
    return from_arrays(
        rng.uniform(-2, 2, (nodes, FEATURES)),
        np.concatenate([i, j[apart]]),
        np.concatenate([j, i[apart]]),
        weights=np.concatenate([weights, weights[apart]]),
        attention=attention,
        label=int(rng.integers(3)),
    )


seeds = st.integers(0, 2**32 - 1)
graphs = st.builds(
    make_graph,
    st.integers(0, LARGEST),
    st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    seeds,
    weighted=st.booleans(),
    attended=st.booleans(),
)
graph_lists = st.lists(graphs, min_size=1, max_size=MOST)

EMPTY = make_graph(0, 0, 0)
ONE_NODE = make_graph(1, 0, 1)
NO_EDGES = make_graph(4, 0, 2)
USUAL = make_graph(6, 0.7, 4)
ISOLATED = from_arrays(USUAL.nodes["features"][:3], [0, 1], [1, 0], attention=[0, 0, 1], label=2)  # node 2 is
NO_TARGET = make_graph(5, 0.7, 5, attended=False)
CORNER_CASES = {
    "empty": [EMPTY],
    "one node": [ONE_NODE],
    "no edges": [NO_EDGES],
    "isolated node": [ISOLATED],
    "no target": [NO_TARGET],
    "empty first": [EMPTY, USUAL, NO_TARGET],
    "empty middle": [USUAL, EMPTY, NO_EDGES],
    "empty last": [USUAL, ONE_NODE, EMPTY],
    "all of these": [ISOLATED, EMPTY, ONE_NODE, NO_EDGES],
}


def pad(graph_list, bucket=BUCKET):
    """The graphs as one padded batch on the device."""
    batch = jraph.batch_np(graph_list)
    return jax.tree.map(jnp.asarray, jraph.pad_with_graphs(batch, bucket.nodes, bucket.edges, bucket.graphs))


def node_count(graph_list):
    return sum(len(graph.nodes["features"]) for graph in graph_list)


def rows(graph_list, mask, bucket=BUCKET):
    """A mask of the graphs' nodes as one of a padded batch's rows; padding is dropped."""
    return jnp.asarray(np.pad(mask, (0, bucket.nodes - len(mask))))


def split_nodes(graph_list, values):
    """Values of all nodes, graph by graph."""
    ends = np.cumsum([len(graph.nodes["features"]) for graph in graph_list])
    return np.split(np.asarray(values)[: ends[-1]], ends[:-1])


def remove(graph, kept):
    """A graph without the nodes outside `kept` and without their edges, made anew from plain lists."""
    new = {int(old): i for i, old in enumerate(np.flatnonzero(kept))}
    edges = [
        (new[s], new[r], w)
        for s, r, w in zip(graph.senders.tolist(), graph.receivers.tolist(), graph.edges.tolist(), strict=True)
        if s in new and r in new
    ]
    return from_arrays(
        graph.nodes["features"][list(new)],
        [s for s, _, _ in edges],
        [r for _, r, _ in edges],
        weights=[w for _, _, w in edges],
        attention=graph.nodes["attention"][list(new)],
        label=int(graph.globals["label"][0]),
    )


def permute(graph, order):
    """A graph whose node i was node order[i]."""
    new = np.argsort(order)
    return from_arrays(
        graph.nodes["features"][order],
        new[graph.senders],
        new[graph.receivers],
        weights=graph.edges,
        attention=graph.nodes["attention"][order],
        label=int(graph.globals["label"][0]),
    )
