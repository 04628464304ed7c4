"""TRIANGLES: count the triangles of a graph; a node's true attention is the number of triangles it is in."""

import os

import numpy as np
from jraph import GraphsTuple

from jattn.datasets.tu import as_graphs, consecutive_splits, read_tu

PUBLISHED = {"train": 30_000, "validation": 5_000, "orig": 5_000, "large": 5_000}


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
    columns = np.arange(degrees.max() + 1 if degree_columns is None else degree_columns)
    features = (degrees[:, None] == columns).astype(np.uint8)
    return consecutive_splits(as_graphs(data, features, attention, data.graph_attributes[:, 0]), PUBLISHED)
