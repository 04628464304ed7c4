"""Splits of one set of graphs: training on small ones and testing on the rest, and folds for tuning.

Functions whose names end in `_ids` give the numbers of graphs, for training on several splits of one set at once.
"""

import numpy as np
from jaxtyping import Int
from jraph import GraphsTuple

from jattn._options import expect_at_least
from jattn.graphs import select

_SPLIT, _FOLDS = 1, 2  # random streams that share no numbers with each other, nor with that of training's batches


def size_splits(
    graphs: GraphsTuple, max_nodes: int, max_train_graphs: int = 500, seed: int = 0
) -> dict[str, GraphsTuple]:
    """The graphs that `size_split_ids` chooses.

    Args:
      graphs: all graphs, on the host.
      max_nodes: most nodes of a training graph.
      max_train_graphs: most training graphs.
      seed: which graphs are drawn is a function of it.
    """
    split = size_split_ids(graphs.n_node, max_nodes, max_train_graphs, seed)
    return {name: select(graphs, ids) for name, ids in split.items()}


def size_split_ids(
    n_node: Int[np.ndarray, " graphs"], max_nodes: int, max_train_graphs: int = 500, seed: int = 0
) -> dict[str, Int[np.ndarray, " _"]]:
    """Splits graphs by size, as Knyazev et al. 2019, section 3.3 do.

    Training graphs are drawn, without regard to their classes, from those with at most `max_nodes` nodes. The paper has
    COLLAB up to 35 nodes, PROTEINS up to 25 and D&D up to 200 and up to 300. Where `most` or fewer graphs are that
    small all are taken, as are the 462 of D&D up to 200: there another seed changes nothing but the order of batches.

    Args:
      n_node: nodes of each graph.
      max_nodes: most nodes of a training graph.
      max_train_graphs: most training graphs.
      seed: which graphs are drawn is a function of it.

    Returns:
      "train", in the order drawn, and "test": all other graphs, small or large, in their own order.

    Raises:
      ValueError: a split would be empty.
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
            f"max_nodes: all {len(n_node)} graphs have at most {max_nodes} nodes and are trained on; none is left to "
            "test unless it, or the number to train on, is less"
        )
    return {"train": drawn, "test": rest}


def folds(graphs: GraphsTuple, k: int, seed: int = 0) -> list[tuple[GraphsTuple, GraphsTuple]]:
    """The graphs that `fold_ids` chooses.

    Args:
      graphs: a training set, on the host.
      k: number of parts, at least 2.
      seed: the parts are a function of it.
    """
    ids = fold_ids(len(graphs.n_node), k, seed)
    return [(select(graphs, train), select(graphs, validation)) for train, validation in ids]


def fold_ids(count: int, k: int, seed: int = 0) -> list[tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]]:
    """Cuts graphs into k parts at random, whose sizes differ by at most 1.

    Args:
      count: number of graphs.
      k: number of parts, at least 2.
      seed: the parts are a function of it.

    Returns:
      For each part the other graphs, to train on, and the part itself, to validate on.

    Raises:
      ValueError: there are fewer than k graphs, or fewer than 2 parts.
    """
    if not 2 <= k <= count:
        raise ValueError(f"k: {k} folds of {count} graphs are not possible, expected 2 to {count}")
    parts = np.array_split(np.random.default_rng([seed, _FOLDS]).permutation(count), k)
    return [(np.concatenate(parts[:i] + parts[i + 1 :]), part) for i, part in enumerate(parts)]
