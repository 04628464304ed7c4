"""Random sparse graphs, of which two classes can be told apart by how many nodes have the first color."""

import jraph
import networkx as nx
import numpy as np
from jraph import GraphsTuple

from jattn import from_arrays

COLORS = 4
NEIGHBORS = 5  # of a node, on average


def random_graphs(graphs: int, nodes: int) -> GraphsTuple:
    """Graphs whose edges are drawn among all pairs: a few hops reach all of one."""
    rng = np.random.default_rng(0)
    pairs = np.stack(np.triu_indices(nodes, 1))

    def draw() -> GraphsTuple:
        return _colored(nodes, pairs[:, rng.choice(pairs.shape[1], nodes * NEIGHBORS // 2, replace=False)], rng)

    return jraph.batch_np([draw() for _ in range(graphs)])


def graphs_in_space(graphs: int, nodes: int) -> GraphsTuple:
    """Graphs of points in a cube that are joined where they are near, as residues of a protein are."""
    rng = np.random.default_rng(0)
    radius = (NEIGHBORS / (nodes * 4 / 3 * np.pi)) ** (1 / 3)

    def draw() -> GraphsTuple:
        graph = nx.random_geometric_graph(nodes, radius, dim=3, seed=int(rng.integers(2**31)))
        return _colored(nodes, np.array(graph.edges, int).reshape(-1, 2).T, rng)

    return jraph.batch_np([draw() for _ in range(graphs)])


def _colored(nodes: int, pairs: np.ndarray, rng: np.random.Generator) -> GraphsTuple:
    senders, receivers = np.concatenate([pairs, pairs[::-1]], axis=1)
    features = np.eye(COLORS, dtype=np.uint8)[rng.integers(0, COLORS, nodes)]
    return from_arrays(features, senders, receivers, label=int(features[:, 0].sum() > nodes // COLORS))
