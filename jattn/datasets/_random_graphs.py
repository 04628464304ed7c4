"""Random graphs G(N, M), many at once, of the sizes of Knyazev et al. 2019: M = floor(N (1 + u)), u uniform in [0, 1).

The edge of nodes i > j is stored as the index i (i - 1) / 2 + j of the pair. A graph is a row of such indices in
descending order, filled up with -1, so that equal graphs have equal rows.
"""

import numpy as np
from jaxtyping import Int, Int32
from jraph import GraphsTuple


def check_sizes(counts: dict[str, int], ranges: dict[str, tuple[int, int]]) -> None:
    """Raises `ValueError` if a number of graphs is negative, or a range of nodes is empty or starts below 1.

    Args:
      counts: numbers of graphs, by the name of the argument.
      ranges: fewest and most nodes of a graph, by the name of the argument.
    """
    for name, count in counts.items():
        if count < 0:
            raise ValueError(f"{name}={count}: expected a number of graphs, at least 0")
    for name, (fewest, most) in ranges.items():
        if not 1 <= fewest <= most:
            raise ValueError(
                f"{name}=({fewest}, {most}): expected (fewest, most) nodes of a graph, 1 <= fewest <= most"
            )


def random_pairs(rng: np.random.Generator, n_node: Int[np.ndarray, " graphs"]) -> Int32[np.ndarray, "graphs pairs"]:
    """Edges of a random graph with M = floor(N (1 + u)) edges, at most N (N - 1) / 2, for each N of `n_node`."""
    candidates = n_node * (n_node - 1) // 2
    extra = rng.integers(0, n_node)  # floor(N u)
    return random_subsets(rng, candidates, np.minimum(n_node + extra, candidates))


def random_subsets(
    rng: np.random.Generator, population: Int[np.ndarray, " graphs"], size: Int[np.ndarray, " graphs"]
) -> Int32[np.ndarray, "graphs most"]:
    """A uniform random subset of 0 to population - 1 in each row, descending, then -1: Floyd's algorithm."""
    chosen = np.full((size.max(initial=0), len(size)), -1, np.int32)
    for step in range(len(chosen)):
        last = population - size + step
        draw = rng.integers(0, last + 1, dtype=np.int32)
        taken = (chosen[:step] == draw).any(axis=0)
        chosen[step] = np.where(step < size, np.where(taken, last, draw), -1)
    return np.sort(chosen, axis=0)[::-1].T


def pair_to_nodes(pair: Int32[np.ndarray, " edges"]) -> tuple[Int32[np.ndarray, " edges"], Int32[np.ndarray, " edges"]]:
    """Nodes i > j of pairs, counted from 0 within each graph."""
    i = ((1 + np.sqrt(1 + 8.0 * pair)) / 2).astype(np.int32)
    return i, pair - i * (i - 1) // 2


def to_graphs_tuple(
    pairs: Int32[np.ndarray, "graphs pairs"],
    n_node: Int32[np.ndarray, " graphs"],
    nodes: dict[str, np.ndarray],
    label: Int32[np.ndarray, " graphs"],
) -> GraphsTuple:
    """One GraphsTuple with edges of weight 1, from rows of pairs and node arrays [nodes, ...] of all graphs."""
    is_edge = pairs >= 0
    n_pair = is_edge.sum(axis=1, dtype=np.int32)
    first = np.cumsum(n_node, dtype=np.int32) - n_node
    # Each edge is followed by its reverse.
    edges = np.stack(pair_to_nodes(pairs[is_edge]), axis=1) + np.repeat(first, n_pair)[:, None]
    return GraphsTuple(
        nodes=nodes,
        edges=np.ones(edges.size, np.float32),
        senders=edges.ravel(),
        receivers=edges[:, ::-1].ravel(),
        globals={"label": label},
        n_node=n_node,
        n_edge=2 * n_pair,
    )
