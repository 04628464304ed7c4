"""TRIANGLES: count the triangles of a graph. True attention is a node's share of the corners of triangles."""

import os

import numpy as np
from jraph import GraphsTuple

from jattn.datasets._random_graphs import check_sizes, pair_to_nodes, random_pairs, to_graphs_tuple
from jattn.datasets._tu import as_graphs, consecutive_splits, read_tu

PUBLISHED = {"train": 30_000, "validation": 5_000, "orig": 5_000, "large": 5_000}
MAX_TRIANGLES = 10

# Most graphs drawn at a time, and most bits of their adjacency matrices: about 100 MB.
_ROUND, _ROUND_BITS = 1 << 13, 1 << 27
_PATIENCE = 1 << 17  # graphs drawn without a new one of a label before an error: half a second if N is small


def generate_triangles(
    train: int = 30_000,
    validation: int = 5_000,
    test: int = 5_000,
    seed: int = 0,
    small_nodes: tuple[int, int] = (4, 25),
    large_nodes: tuple[int, int] = (26, 100),
    degree_columns: int | None = None,
) -> dict[str, GraphsTuple]:
    r"""Draws TRIANGLES (Knyazev et al. 2019, section 3.1); no graph occurs twice in all splits.

    The labels, numbers of triangles, are 1 to 10 in equal parts; if the number of graphs is no multiple of 10, low
    labels have one graph more. Random graphs G(N, M) with N uniform over its range and M = floor(N (1 + u)), u uniform
    in [0, 1), but at most N (N - 1) / 2 edges, are drawn until there are enough with each label, so N is not uniform.

    The attention of node i is its share of the corners of triangles; it is a corner of T_i triangles:

    .. math:: \alpha_i = T_i / \sum_j T_j, \quad T_i = \tfrac{1}{2} \sum_j A_{ij} (A A)_{ij}

    Features are the one-hot degree.

    Args:
      train: number of training graphs.
      validation: number of validation graphs.
      test: number of graphs of each of "orig" and "large".
      seed: seed of all draws. Only the number of feature columns depends on the numbers of graphs of later splits.
      small_nodes: fewest and most nodes of a graph of "train", "validation" and "orig".
      large_nodes: fewest and most nodes of a graph of "large".
      degree_columns: as for `published_triangles`.

    Returns:
      The splits "train", "validation", "orig" and "large", drawn in this order.

    Raises:
      ValueError: an argument is out of range, or too few distinct graphs of a label were found.

    >>> splits = generate_triangles(train=10, validation=0, test=0)
    >>> sorted(splits["train"].globals["label"].tolist())
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    """
    _expect_columns(degree_columns)
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
    return _with_degrees(splits, degree_columns)


def published_triangles(path: str | os.PathLike[str], degree_columns: int | None = None) -> dict[str, GraphsTuple]:
    """Reads the published TRIANGLES (Knyazev et al. 2019) from the files of the TU collection.

    Args:
      path: `TRIANGLES.zip`, or a folder that holds it or its text files.
      degree_columns: columns of the one-hot degree, for degrees 0 to `degree_columns` - 1; the row of a node of higher
        degree is 0. Default: the highest degree of all splits + 1.

    Returns:
      The splits "train", "validation", "orig" and "large".

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file breaks the format, or has another data set.

    >>> published_triangles("TRIANGLES.zip")["train"].n_node.shape  # doctest: +SKIP
    (30000,)
    """
    _expect_columns(degree_columns)
    data = read_tu(path, "TRIANGLES")
    if data.graph_attributes is None or data.node_attributes is None or data.node_attributes.shape[1] != 1:
        raise ValueError(f"{path}: expected graph attributes (triangles) and one node attribute (attention)")
    attention = data.node_attributes[:, 0]
    degrees = np.bincount(data.senders, minlength=len(attention))
    features = _one_hot(degrees, int(degrees.max()) + 1 if degree_columns is None else degree_columns)
    return consecutive_splits(as_graphs(data, features, attention, data.graph_attributes[:, 0]), PUBLISHED)


def _expect_columns(degree_columns: int | None) -> None:
    if degree_columns is not None and degree_columns < 1:
        raise ValueError(f"degree_columns={degree_columns}: expected at least 1")


def _with_degrees(splits: dict[str, GraphsTuple], degree_columns: int | None) -> dict[str, GraphsTuple]:
    """The splits with their one-hot degrees as features."""
    degrees = {name: np.bincount(split.senders, minlength=split.n_node.sum()) for name, split in splits.items()}
    columns = degree_columns or max(int(degree.max(initial=0)) for degree in degrees.values()) + 1
    return {
        name: split._replace(nodes={"features": _one_hot(degrees[name], columns), **split.nodes})
        for name, split in splits.items()
    }


def _one_hot(degrees: np.ndarray, columns: int) -> np.ndarray:
    """Features [nodes, columns]; 0 for a degree without a column."""
    return (degrees[:, None] == np.arange(columns)).astype(np.uint8)


def _draw_split(
    rng: np.random.Generator, split: str, count: int, sizes: tuple[int, int], seen: set[tuple[int, bytes]]
) -> GraphsTuple:
    """Draws graphs until there are enough with each label; nodes have no features yet."""
    fewest, most = sizes
    # Graphs still missing, by label; none of 0 and of MAX_TRIANGLES + 1, which stands for more.
    missing = np.bincount(np.arange(count) % MAX_TRIANGLES + 1, minlength=MAX_TRIANGLES + 2)
    asked, idle = missing.copy(), np.zeros_like(missing)
    pairs = np.full((count, 2 * most - 1), -1, np.int32)
    triangles = np.zeros((count, most), np.int32)
    n_node = np.zeros(count, np.int32)
    slots = rng.permutation(count)  # frequent labels are found first, but must not come first
    while missing.any():
        count_drawn = max(512, 32 * missing.max())  # about 1 graph in 30 has the rarest label
        n = rng.integers(fewest, most + 1, min(count_drawn, _ROUND, _ROUND_BITS // most**2 + 1))
        p = random_pairs(rng, n)
        t = _node_triangles(p, most)
        label = np.minimum(t.sum(axis=1) // 3, MAX_TRIANGLES + 1)
        fresh = _fresh(p, n, label, missing, seen)
        filled, slots = np.split(slots, [len(fresh)])
        pairs[filled, : p.shape[1]], triangles[filled], n_node[filled] = p[fresh], t[fresh], n[fresh]
        found = np.bincount(label[fresh], minlength=len(missing))
        missing -= found
        idle = np.where(found, 0, idle + len(n))
        if (exhausted := (missing > 0) & (idle >= _PATIENCE)).any():
            k = int(exhausted.argmax())
            raise ValueError(
                f"{split}: {asked[k]} graphs of {fewest} to {most} nodes with label {k} (triangles) were asked for, "
                f"but only {asked[k] - missing[k]} were found, and no other among the last {idle[k]} random graphs; "
                "widen the range of nodes or ask for fewer graphs"
            )
    corners = triangles.sum(axis=1)
    attention = triangles / corners[:, None]
    real = np.arange(most) < n_node[:, None]
    return to_graphs_tuple(
        pairs, n_node, {"attention": attention[real].astype(np.float32)}, (corners // 3).astype(np.int32)
    )


def _node_triangles(pairs: np.ndarray, nodes: int) -> np.ndarray:
    """Number of triangles with each node as a corner, [graphs, nodes].

    Rows of A are stored as bits of 64-bit words, so that (A A)_ij is the number of bits that rows i and j share. This
    is twice as fast as a dense matrix product for up to 25 nodes, and four times for up to 100.
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
    """Adds the first unseen graphs of each label to `seen`, up to the number missing, and returns their indices."""
    left, fresh = missing.tolist(), []
    edges = (pairs >= 0).sum(axis=1)
    for i in np.flatnonzero(missing[label]).tolist():
        key = int(n_node[i]), pairs[i, : edges[i]].tobytes()
        if left[label[i]] and key not in seen:
            seen.add(key)
            left[label[i]] -= 1
            fresh.append(i)
    return fresh
