"""COLORS: count the green nodes of a graph. True attention is 1 for green nodes, 0 for others."""

import math
import os
from collections import defaultdict
from typing import TypeAlias

import numpy as np
from jraph import GraphsTuple

from jattn.datasets._random_graphs import check_sizes, random_pairs, random_subsets, to_graphs_tuple
from jattn.datasets._tu import as_graphs, consecutive_splits, read_tu

GREEN = 1  # its feature column, counting from 0
MAX_GREEN = 10
PUBLISHED = {"train": 500, "validation": 2_500, "orig": 2_500, "large": 2_500, "largec": 2_500}

# Graphs drawn so far, by number of nodes and of green nodes: the bytes of their features and of their pairs.
_Seen: TypeAlias = defaultdict[tuple[int, int], set[tuple[bytes, bytes]]]

_PLENTY = 1 << 40  # distinct graphs: more than fit into a split
_RETRIES = 1024  # fewest graphs drawn to replace duplicates


def generate_colors(
    dimension: int = 3,
    train: int = 500,
    validation: int = 2_500,
    test: int = 2_500,
    seed: int = 0,
    small_nodes: tuple[int, int] = (4, 25),
    large_nodes: tuple[int, int] = (26, 200),
) -> dict[str, GraphsTuple]:
    """Draws COLORS (Knyazev et al. 2019, section 3.1); no graph occurs twice in all splits.

    The number of nodes N is uniform over its range. The label, the number of green nodes, is uniform over 0 to
    min(10, N). Graphs are random graphs G(N, M) with M = floor(N (1 + u)), u uniform in [0, 1), but at most
    N (N - 1) / 2 edges. Other nodes have one of the other colors or, in "largec", a random 0/1 vector that is 0 in the
    green column. If all graphs of a size and label have been drawn (there are only 22 of 4 green nodes), other labels
    take their place, then other sizes.

    Args:
      dimension: number of colors n, at least 3. Features have n + 1 columns; the last is 0 except in "largec".
      train: number of training graphs.
      validation: number of validation graphs.
      test: number of graphs of each of "orig", "large" and "largec".
      seed: seed of all draws. A split does not depend on the numbers of graphs of later splits.
      small_nodes: fewest and most nodes of a graph of "train", "validation" and "orig".
      large_nodes: fewest and most nodes of a graph of "large" and "largec".

    Returns:
      The splits "train", "validation", "orig", "large" and "largec", drawn in this order.

    Raises:
      ValueError: an argument is out of range, or there are fewer distinct graphs than asked for.

    >>> splits = generate_colors(train=2, validation=0, test=1)
    >>> {name: len(graphs.n_node) for name, graphs in splits.items()}
    {'train': 2, 'validation': 0, 'orig': 1, 'large': 1, 'largec': 1}
    """
    if dimension < 3:
        raise ValueError(f"dimension={dimension}: expected at least 3 colors")
    check_sizes(
        {"train": train, "validation": validation, "test": test},
        {"small_nodes": small_nodes, "large_nodes": large_nodes},
    )
    plan = {
        "train": (train, small_nodes),
        "validation": (validation, small_nodes),
        "orig": (test, small_nodes),
        "large": (test, large_nodes),
        "largec": (test, large_nodes),
    }
    seen: _Seen = defaultdict(set)
    streams = np.random.SeedSequence(seed).spawn(len(plan))
    return {
        split: _draw_split(np.random.default_rng(stream), split, count, sizes, dimension, seen)
        for (split, (count, sizes)), stream in zip(plan.items(), streams, strict=True)
    }


def published_colors(path: str | os.PathLike[str]) -> dict[str, GraphsTuple]:
    """Reads the published COLORS with three colors (Knyazev et al. 2019) from the files of the TU collection.

    Args:
      path: `COLORS-3.zip`, or a folder that holds it or its text files.

    Returns:
      The splits "train", "validation", "orig", "large" and "largec".

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file breaks the format, or has another data set.

    >>> published_colors("COLORS-3.zip")["train"].n_node.shape  # doctest: +SKIP
    (500,)
    """
    data = read_tu(path, "COLORS-3")
    if data.graph_attributes is None or data.node_attributes is None or data.node_attributes.shape[1] != 5:
        raise ValueError(f"{path}: expected graph attributes (labels) and five node attributes (attention, colors)")
    attention, features = data.node_attributes[:, 0], data.node_attributes[:, 1:].astype(np.uint8)
    return consecutive_splits(as_graphs(data, features, attention, data.graph_attributes[:, 0]), PUBLISHED)


def _draw_split(
    rng: np.random.Generator, split: str, count: int, sizes: tuple[int, int], dimension: int, seen: _Seen
) -> GraphsTuple:
    fewest, most = sizes
    mixed = split == "largec"
    labels = range(MAX_GREEN + 1)
    # How many graphs no split has yet, [sizes, labels].
    unused = [[_distinct(n, k, dimension, mixed) - len(seen[n, k]) for k in labels] for n in range(fewest, most + 1)]
    left = np.array(unused, np.int64)
    if count > left.sum():
        raise ValueError(
            f"{split}: {count} graphs of {fewest} to {most} nodes were asked for, but only {left.sum()} distinct ones "
            "are left; widen the range of nodes or ask for fewer graphs"
        )
    features = np.zeros((count, most, dimension + 1), np.uint8)
    pairs = np.full((count, 2 * most - 1), -1, np.int32)
    size, label = _draw_labels(rng, left, rng.integers(0, len(left), count))
    pending = tries = np.arange(count)
    while len(pending):
        x, p = _draw_graphs(rng, fewest + size[tries], label[tries], dimension, mixed)
        fresh = _fresh(x, p, fewest + size[tries], label[tries], tries, seen)
        slots = tries[fresh]
        features[slots, : x.shape[1]] = x[fresh]
        pairs[slots, : p.shape[1]] = p[fresh]
        np.subtract.at(left, (size[slots], label[slots]), 1)
        pending = np.setdiff1d(pending, slots)
        if len(pending):
            stuck = pending[left[size[pending], label[pending]] == 0]
            size[stuck], label[stuck] = _draw_labels(rng, left, size[stuck])
            tries = np.resize(pending, max(len(pending), _RETRIES))
    n_node = (fewest + size).astype(np.int32)
    x = features[np.arange(most) < n_node[:, None]]
    attention = x[:, GREEN].astype(np.float32)
    return to_graphs_tuple(pairs, n_node, {"features": x, "attention": attention}, label.astype(np.int32))


def _distinct(nodes: int, green: int, dimension: int, mixed: bool) -> int:
    """Number of distinct labeled graphs, at most `_PLENTY`."""
    if green > nodes:
        return 0
    if nodes >= 10:  # 10 nodes have over 10^12 sets of edges
        return _PLENTY
    candidates = math.comb(nodes, 2)
    edge_sets = sum(math.comb(candidates, m) for m in {min(nodes + extra, candidates) for extra in range(nodes)})
    others = 2**dimension if mixed else dimension - 1
    return min(edge_sets * math.comb(nodes, green) * others ** (nodes - green), _PLENTY)


def _draw_labels(rng: np.random.Generator, left: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and random labels that have graphs left, as indices of `left`; a size without graphs left is replaced."""
    open_sizes = left.max(axis=1) > 0
    size = np.where(open_sizes[size], size, rng.choice(np.flatnonzero(open_sizes), len(size)))
    keys = rng.random((len(size), left.shape[1]))
    return size, np.where(left[size] > 0, keys, -1).argmax(axis=1)


def _draw_graphs(
    rng: np.random.Generator, n_node: np.ndarray, green: np.ndarray, dimension: int, mixed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Random graphs with given numbers of nodes and of green nodes.

    Returns:
      Features [graphs, most nodes, dimension + 1], 0 after a graph's nodes, and `random_pairs` of nodes.
    """
    pairs = random_pairs(rng, n_node)
    shape = len(n_node), n_node.max()
    is_green = np.zeros((shape[0], shape[1] + 1), bool)  # the last column takes the -1 of padding
    np.put_along_axis(is_green, random_subsets(rng, n_node, green), True, axis=1)
    if mixed:
        features = rng.integers(0, 2, (*shape, dimension + 1), np.uint8)
        features[..., GREEN] = 0
    else:
        other = rng.integers(0, dimension - 1, shape)
        features = np.eye(dimension + 1, dtype=np.uint8)[other + (other >= GREEN)]
    features[is_green[:, :-1]] = np.arange(dimension + 1) == GREEN
    features[np.arange(shape[1]) >= n_node[:, None]] = 0
    return features, pairs


def _fresh(
    features: np.ndarray, pairs: np.ndarray, n_node: np.ndarray, label: np.ndarray, slots: np.ndarray, seen: _Seen
) -> list[int]:
    """Adds the first unseen graph that was drawn for each slot to `seen`, and returns the indices of these graphs."""
    fresh, filled = [], set()
    numbers = zip(n_node.tolist(), label.tolist(), (pairs >= 0).sum(axis=1).tolist(), slots.tolist(), strict=True)
    for i, (nodes, green, edges, slot) in enumerate(numbers):
        key = features[i, :nodes].tobytes(), pairs[i, :edges].tobytes()
        if slot not in filled and key not in seen[nodes, green]:
            seen[nodes, green].add(key)
            filled.add(slot)
            fresh.append(i)
    return fresh
