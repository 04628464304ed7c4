"""TRIANGLES: count the triangles of a graph; a node's true attention is its share of the triangles' corners."""

import os

import numpy as np
from jraph import GraphsTuple

from jattn.datasets.random_graphs import check_sizes, pair_to_nodes, random_pairs, to_graphs_tuple
from jattn.datasets.tu import as_graphs, consecutive_splits, read_tu

PUBLISHED = {"train": 30_000, "validation": 5_000, "orig": 5_000, "large": 5_000}
MAX_TRIANGLES = 10

# Most graphs drawn at a time, and bits of their adjacency matrices: together about 100 MB.
_ROUND, _ROUND_BITS = 1 << 13, 1 << 27
_PATIENCE = 1 << 17  # graphs drawn without a new one of a label before it is given up: half a second where N is small


def generate_triangles(
    train: int = 30_000,
    validation: int = 5_000,
    test: int = 5_000,
    seed: int = 0,
    small_nodes: tuple[int, int] = (4, 25),
    large_nodes: tuple[int, int] = (26, 100),
) -> dict[str, GraphsTuple]:
    r"""Draws TRIANGLES (Knyazev et al. 2019, section 3.1), no graph twice in all its splits.

    The label, the number of triangles, is 1 to 10 in equal parts; where the number of graphs is no multiple of 10, low
    labels have one graph more. The graphs of a label are those that have it among random graphs G(N, M) with N uniform
    over its range and M = floor(N (1 + u)), u uniform in [0, 1), but at most N (N - 1) / 2. So N isn't uniform: the
    smallest graphs are rarer than the rest. Of 4 nodes there are only 19.

    A node's attention is its share of the triangles' corners, with T_i the number of triangles that node i is in:

    .. math:: \alpha_i = T_i / \sum_j T_j, \quad T_i = \tfrac{1}{2} \sum_j A_{ij} (A A)_{ij}

    Features are the one-hot degree, with columns for 0 to the highest degree of all splits.

    Args:
      train: number of graphs to train on.
      validation: number of validation graphs.
      test: number of graphs in each of "orig" and "large".
      seed: graphs are a function of it. A split doesn't depend on the number of graphs of later ones, but for the
        number of feature columns.
      small_nodes: least and most nodes of a graph of "train", "validation" and "orig".
      large_nodes: least and most nodes of a graph of "large".

    Returns:
      The splits "train", "validation", "orig" and "large", drawn in this order.

    Raises:
      ValueError: an argument is out of range, or too few distinct graphs of a label were found.
    """
    check_sizes(
        {"train": train, "validation": validation, "test": test},
        {"small_nodes": small_nodes, "large_nodes": large_nodes},
    )
    plan = {
        "train": (train, small_nodes),
        "validation": (validation, small_nodes),
        "orig": (test, small_nodes),
        "large": (test, large_nodes),
    }
    seen: set[tuple[int, bytes]] = set()
    streams = np.random.SeedSequence(seed).spawn(len(plan))
    splits = {
        split: _draw_split(np.random.default_rng(stream), split, count, sizes, seen)
        for (split, (count, sizes)), stream in zip(plan.items(), streams, strict=True)
    }
    degrees = {name: np.bincount(split.senders, minlength=split.n_node.sum()) for name, split in splits.items()}
    columns = max(int(of_split.max(initial=0)) for of_split in degrees.values()) + 1
    return {
        name: split._replace(nodes={"features": _one_hot(degrees[name], columns), **split.nodes})
        for name, split in splits.items()
    }


def published_triangles(path: str | os.PathLike[str], degree_columns: int | None = None) -> dict[str, GraphsTuple]:
    """Reads the paper's own TRIANGLES (Knyazev et al. 2019) from the TU collection's files.

    Args:
      path: `TRIANGLES.zip`, or a folder that holds it or its text files.
      degree_columns: columns of the one-hot degree, for degrees 0 to `degree_columns` - 1; a node of higher degree has
        only zeros. The highest degree of all splits + 1 where not given.

    Returns:
      The splits "train", "validation", "orig" and "large".

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file is malformed, or holds another data set.
    """
    if degree_columns is not None and degree_columns < 1:
        raise ValueError(f"degree_columns={degree_columns}: expected at least 1")
    data = read_tu(path, "TRIANGLES")
    if data.graph_attributes is None or data.node_attributes is None or data.node_attributes.shape[1] != 1:
        raise ValueError(f"{path}: expected graph attributes (triangles) and one node attribute (attention)")
    attention = data.node_attributes[:, 0]
    degrees = np.bincount(data.senders, minlength=len(attention))
    features = _one_hot(degrees, int(degrees.max()) + 1 if degree_columns is None else degree_columns)
    return consecutive_splits(as_graphs(data, features, attention, data.graph_attributes[:, 0]), PUBLISHED)


def _one_hot(degrees: np.ndarray, columns: int) -> np.ndarray:
    """Features [nodes, columns]; all zeros for a degree beyond the columns."""
    return (degrees[:, None] == np.arange(columns)).astype(np.uint8)


def _draw_split(
    rng: np.random.Generator, split: str, count: int, sizes: tuple[int, int], seen: set[tuple[int, bytes]]
) -> GraphsTuple:
    """Draws graphs until there are enough of each label; their nodes have no features yet."""
    least, most = sizes
    # Graphs still to be found of each label; 0 and MAX_TRIANGLES + 1, which stands for more, are never missing.
    missing = np.bincount(np.arange(count) % MAX_TRIANGLES + 1, minlength=MAX_TRIANGLES + 2)
    asked, idle = missing.copy(), np.zeros_like(missing)
    pairs = np.full((count, 2 * most - 1), -1, np.int32)
    triangles = np.zeros((count, most), np.int32)
    n_node = np.zeros(count, np.int32)
    places = rng.permutation(count)  # frequent labels are found first, but shall not come first
    while missing.any():
        wanted = max(512, 32 * missing.max())  # about 1 graph in 30 has the rarest label
        n = rng.integers(least, most + 1, min(wanted, _ROUND, _ROUND_BITS // most**2 + 1))
        p = random_pairs(rng, n)
        t = _node_triangles(p, most)
        label = np.minimum(t.sum(axis=1) // 3, MAX_TRIANGLES + 1)
        fresh = _fresh(p, n, label, missing, seen)
        done, places = np.split(places, [len(fresh)])
        pairs[done, : p.shape[1]], triangles[done], n_node[done] = p[fresh], t[fresh], n[fresh]
        found = np.bincount(label[fresh], minlength=len(missing))
        missing -= found
        idle = np.where(found, 0, idle + len(n))
        if (given_up := (missing > 0) & (idle >= _PATIENCE)).any():
            k = int(given_up.argmax())
            raise ValueError(
                f"{split}: {asked[k]} graphs of {least} to {most} nodes with label {k} (triangles) were asked for, but "
                f"only {asked[k] - missing[k]} were found, and no other among the last {idle[k]} random graphs; widen "
                "the range of nodes or ask for fewer graphs"
            )
    corners = triangles.sum(axis=1)
    attention = triangles / corners[:, None]
    real = np.arange(most) < n_node[:, None]
    return to_graphs_tuple(
        pairs, n_node, {"attention": attention[real].astype(np.float32)}, (corners // 3).astype(np.int32)
    )


def _node_triangles(pairs: np.ndarray, nodes: int) -> np.ndarray:
    """Number of triangles that each node is in, [graphs, nodes].

    Rows of A are bits in 64-bit words, so that (A A)_ij is a count of the bits that rows i and j share: twice as fast
    as a product of dense matrices for up to 25 nodes, four times for up to 100.
    """
    is_edge, words = pairs >= 0, -(-nodes // 64)
    offset = np.nonzero(is_edge)[0] * nodes
    i, j = pair_to_nodes(pairs[is_edge])
    first, second = i + offset, j + offset
    bits = np.zeros(len(pairs) * nodes * words, np.uint64)
    for row, column in ((first, j), (second, i)):
        np.add.at(bits, row * words + column // 64, np.uint64(1) << (column % 64).astype(np.uint64))
    rows = bits.reshape(-1, words)
    shared = np.bitwise_count(rows[first] & rows[second]).sum(axis=1)
    twice = np.bincount(first, shared, len(rows)) + np.bincount(second, shared, len(rows))
    return (twice / 2).astype(np.int32).reshape(len(pairs), nodes)


def _fresh(
    pairs: np.ndarray, n_node: np.ndarray, label: np.ndarray, missing: np.ndarray, seen: set[tuple[int, bytes]]
) -> list[int]:
    """Adds the first unseen graphs of each label, as many as are missing, to `seen`, and returns which these are."""
    left, fresh = missing.tolist(), []
    edges = (pairs >= 0).sum(axis=1)
    for i in np.flatnonzero(missing[label]).tolist():
        key = int(n_node[i]), pairs[i, : edges[i]].tobytes()
        if left[label[i]] and key not in seen:
            seen.add(key)
            left[label[i]] -= 1
            fresh.append(i)
    return fresh
