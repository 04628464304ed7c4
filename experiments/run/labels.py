"""Labels of weak supervision without their noise.

A teacher's prediction also moves a little when a node is removed that does not matter. Such labels are noise, which
attention would learn: on COLORS every node has a label above 0, and only green ones should.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int


class Labels(NamedTuple):
    """Leave-one-out labels of the training graphs by several teachers.

    Attributes:
      target: share of each node in the changes of its graph, [seeds, nodes]; all 0 in graphs without a target.
      total_change: sum of the changes of a graph's prediction over its nodes, [seeds, graphs].
    """

    target: Float[np.ndarray, "seeds nodes"]
    total_change: Float[np.ndarray, "seeds graphs"]


def noise_mask(
    labels: Labels,
    n_node: Int[np.ndarray, " graphs"],
    fraction: float,
    train_ids: Sequence[Int[np.ndarray, " _"]] | None = None,
) -> Bool[np.ndarray, "seeds nodes"]:
    """Mask of the labels that are noise beside the largest ones.

    A label is noise if it is less than a fraction of its graph's largest one, or if the largest change of its graph's
    prediction is less than that fraction of the median graph's. The second part is for graphs in which no node matters:
    even the largest of their labels is noise.

    Args:
      labels: the labels of all teachers.
      n_node: nodes of each graph.
      fraction: from 0, for no noise, to 1.
      train_ids: the graphs that each teacher was trained on, whose median counts; None for all.

    >>> labels = Labels(np.array([[0.5, 0.48, 0.02, 0.6, 0.4]]), np.array([[2.0, 0.01]]))
    >>> noise_mask(labels, np.array([3, 2]), 0.2).tolist()
    [[False, False, True, True, True]]
    """
    node_graph = np.repeat(np.arange(len(n_node)), n_node)
    largest = np.zeros(labels.total_change.shape, labels.target.dtype)
    for row, target in zip(largest, labels.target, strict=True):
        np.maximum.at(row, node_graph, target)
    change = largest * labels.total_change
    typical = [np.median(row if train_ids is None else row[train_ids[i]]) for i, row in enumerate(change)]
    no_node_matters = change < fraction * np.array(typical)[:, None]
    return (labels.target < fraction * largest[:, node_graph]) | no_node_matters[:, node_graph]
