"""Random graphs G(N, M), many at once, in the sizes of Knyazev et al. 2019: M = floor(N (1 + u)), u uniform in [0, 1).

An edge of nodes i > j is the number i (i - 1) / 2 + j of its pair. Each graph is a row of such numbers, descending,
then -1; so equal graphs have equal rows.
"""

import numpy as np
from jaxtyping import Int, Int32
from jraph import GraphsTuple


def check_sizes(counts: dict[str, int], ranges: dict[str, tuple[int, int]]) -> None:
    """Refuses numbers of graphs and ranges of nodes that make no sense.

    Args:
      counts: numbers of graphs, by the name of the argument.
      ranges: least and most nodes of a graph, by the name of the argument.

    Raises:
      ValueError: a count is negative, or a range is empty or starts below 1.
    """
    for name, count in counts.items():
        if count < 0:
            raise ValueError(f"{name}={count}: expected a number of graphs, at least 0")
    for name, (least, most) in ranges.items():
        if not 1 <= least <= most:
            raise ValueError(f"{name}=({least}, {most}): expected (least, most) nodes of a graph, 1 <= least <= most")


def random_pairs(rng: np.random.Generator, n_node: Int[np.ndarray, " graphs"]) -> Int32[np.ndarray, "graphs pairs"]:
    """The edges of a random graph with M = floor(N (1 + u)), but at most N (N - 1) / 2, for each N of `n_node`."""
    candidates = n_node * (n_node - 1) // 2
    extra = rng.integers(0, n_node)  # floor(N u)
    return random_subsets(rng, candidates, np.minimum(n_node + extra, candidates))


def random_subsets(
    rng: np.random.Generator, population: Int[np.ndarray, " graphs"], size: Int[np.ndarray, " graphs"]
) -> Int32[np.ndarray, "graphs most"]:
    """A uniform subset of 0 to population - 1 in each row, descending, then -1: Floyd's algorithm, all rows at once."""
    chosen = np.full((size.max(initial=0), len(size)), -1, np.int32)
    for step in range(len(chosen)):
        last = population - size + step
        draw = rng.integers(0, last + 1, dtype=np.int32)
        taken = (chosen[:step] == draw).any(axis=0)
        chosen[step] = np.where(step < size, np.where(taken, last, draw), -1)
    return np.sort(chosen, axis=0)[::-1].T


def pair_to_nodes(pair: Int32[np.ndarray, " edges"]) -> tuple[Int32[np.ndarray, " edges"], Int32[np.ndarray, " edges"]]:
    """Nodes i > j of pairs, counted from 0 in each graph."""
    i = ((1 + np.sqrt(1 + 8.0 * pair)) / 2).astype(np.int32)
    return i, pair - i * (i - 1) // 2


def to_graphs_tuple(
    pairs: Int32[np.ndarray, "graphs pairs"],
    n_node: Int32[np.ndarray, " graphs"],
    nodes: dict[str, np.ndarray],
    label: Int32[np.ndarray, " graphs"],
) -> GraphsTuple:
    """One GraphsTuple with edges of weight 1 from rows of pairs and the nodes' arrays, [nodes, ...] over all graphs."""
    is_edge = pairs >= 0
    n_pair = is_edge.sum(axis=1, dtype=np.int32)
    first = np.cumsum(n_node, dtype=np.int32) - n_node
    # Each edge is followed by its reverse.
    both = np.stack(pair_to_nodes(pairs[is_edge]), axis=1) + np.repeat(first, n_pair)[:, None]
    return GraphsTuple(
        nodes=nodes,
        edges=np.ones(both.size, np.float32),
        senders=both.ravel(),
        receivers=both[:, ::-1].ravel(),
        globals={"label": label},
        n_node=n_node,
        n_edge=2 * n_pair,
    )
