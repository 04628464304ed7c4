"""Splits of a set of graphs: small graphs for training, larger ones for test; folds for tuning.

Functions whose names end in `_ids` return indices of graphs, for training on several splits of one set at once.
"""

import numpy as np
from jaxtyping import Int
from jraph import GraphsTuple

from jattn._options import expect_at_least
from jattn.graphs import select_graphs

_SPLIT, _FOLDS = 1, 2  # random streams that are independent of each other and of the order of training batches


def size_splits(
    graphs: GraphsTuple, max_nodes: int, max_train_graphs: int = 500, seed: int = 0
) -> dict[str, GraphsTuple]:
    """Splits graphs by size, as `size_split_ids`.

    Args:
      graphs: all graphs, on the host.
      max_nodes: most nodes of a training graph.
      max_train_graphs: most training graphs.
      seed: seed of the random choice.

    Returns:
      The splits "train" and "test".

    >>> import jraph, jattn
    >>> graphs = jraph.batch_np([jattn.from_arrays(np.ones((nodes, 1)), [], []) for nodes in (2, 3, 9)])
    >>> size_splits(graphs, max_nodes=5)["test"].n_node.tolist()
    [9]
    """
    split = size_split_ids(graphs.n_node, max_nodes, max_train_graphs, seed)
    return {name: select_graphs(graphs, ids) for name, ids in split.items()}


def size_split_ids(
    n_node: Int[np.ndarray, " graphs"], max_nodes: int, max_train_graphs: int = 500, seed: int = 0
) -> dict[str, Int[np.ndarray, " _"]]:
    """Indices of training graphs, which are small, and of all other graphs (Knyazev et al. 2019, section 3.3).

    Training graphs are drawn from those with at most `max_nodes` nodes, regardless of their classes. The paper uses 35
    nodes for COLLAB, 25 for PROTEINS, and 200 and 300 for D&D. If at most `max_train_graphs` graphs are small enough,
    all are taken, as the 462 of D&D with up to 200 nodes; the seed then changes their order only.

    Args:
      n_node: number of nodes of each graph.
      max_nodes: most nodes of a training graph.
      max_train_graphs: most training graphs.
      seed: seed of the random choice.

    Returns:
      "train" in random order, and "test" in ascending order.

    Raises:
      ValueError: a split would be empty.

    >>> size_split_ids(np.array([9, 2, 7]), max_nodes=5)
    {'train': array([1]), 'test': array([0, 2])}
    """
    expect_at_least(1, max_train_graphs=max_train_graphs)
    small = np.flatnonzero(n_node <= max_nodes)
    if not len(small):
        sizes = f"of {len(n_node)} graphs the smallest has {n_node.min()}" if len(n_node) else "there are no graphs"
        raise ValueError(f"max_nodes: no graph to train on has at most {max_nodes} nodes; {sizes}")
    drawn = np.random.default_rng([seed, _SPLIT]).permutation(small)[:max_train_graphs]
    rest = np.setdiff1d(np.arange(len(n_node)), drawn)
    if not len(rest):
        raise ValueError(
            f"max_nodes: all {len(n_node)} graphs have at most {max_nodes} nodes and are trained on, none is left to "
            "test; lower max_nodes or max_train_graphs"
        )
    return {"train": drawn, "test": rest}


def size_shift_ids(
    n_node: Int[np.ndarray, " graphs"], train_percent: float = 50.0, test_percent: float = 10.0
) -> dict[str, Int[np.ndarray, " _"]]:
    """Indices of the smallest and of the largest graphs, the benchmark of generalization to larger graphs.

    Training graphs have at most as many nodes as the percentile of `train_percent` of all graphs, test graphs at least
    as many as that of 100 - `test_percent`; those between are left out. So with the defaults of Yehudai et al., "From
    Local Structures to Size Generalization in Graph Neural Networks", ICML 2021.

    Args:
      n_node: number of nodes of each graph.
      train_percent: share of graphs to train on, the smallest; more are taken where several have the same size.
      test_percent: share of graphs to test on, the largest, likewise.

    Returns:
      "train" and "test", each in ascending order.

    Raises:
      ValueError: there are no graphs, the shares are not between 0 and 100 with a sum below 100, or the smallest graphs
        are as large as the largest.

    >>> size_shift_ids(np.array([9, 2, 7, 3, 4]))
    {'train': array([1, 3, 4]), 'test': array([0])}
    """
    for name, percent in (("train_percent", train_percent), ("test_percent", test_percent)):
        if not 0 < percent < 100:
            raise ValueError(f"{name}: {percent} is not allowed, expected above 0 and below 100")
    if train_percent + test_percent >= 100:
        raise ValueError(f"train_percent: {train_percent} and test_percent {test_percent} must have a sum below 100")
    if not len(n_node):
        raise ValueError("n_node: there are no graphs")
    most, fewest = np.percentile(n_node, [train_percent, 100 - test_percent])
    if most >= fewest:
        raise ValueError(
            f"n_node: graphs of {most:g} nodes are among the smallest {train_percent:g} % and the largest "
            f"{test_percent:g} %; lower these shares, or take a data set whose graphs differ in size"
        )
    return {"train": np.flatnonzero(n_node <= most), "test": np.flatnonzero(n_node >= fewest)}


def folds(graphs: GraphsTuple, k: int, seed: int = 0) -> list[tuple[GraphsTuple, GraphsTuple]]:
    """Training and validation graphs of k-fold cross-validation, as `fold_ids`.

    Args:
      graphs: a training set, on the host.
      k: number of folds, at least 2.
      seed: seed of the random folds.

    >>> import jraph, jattn
    >>> graphs = jraph.batch_np([jattn.from_arrays(np.ones((2, 1)), [], []) for _ in range(6)])
    >>> [len(validation.n_node) for _, validation in folds(graphs, k=3)]
    [2, 2, 2]
    """
    ids = fold_ids(len(graphs.n_node), k, seed)
    return [(select_graphs(graphs, train), select_graphs(graphs, validation)) for train, validation in ids]


def fold_ids(count: int, k: int, seed: int = 0) -> list[tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]]:
    """Indices of training and validation graphs for each of k random folds, whose sizes differ by at most 1.

    Args:
      count: number of graphs.
      k: number of folds, at least 2.
      seed: seed of the random folds.

    Returns:
      For each fold, the graphs of all other folds (training) and of the fold (validation).

    Raises:
      ValueError: there are fewer than k graphs, or fewer than 2 folds.

    >>> [(len(train), len(validation)) for train, validation in fold_ids(count=5, k=2)]
    [(2, 3), (3, 2)]
    """
    if not 2 <= k <= count:
        raise ValueError(f"k: {k} folds of {count} graphs are not possible, expected 2 to {count}")
    parts = np.array_split(np.random.default_rng([seed, _FOLDS]).permutation(count), k)
    return [(np.concatenate(parts[:i] + parts[i + 1 :]), part) for i, part in enumerate(parts)]
