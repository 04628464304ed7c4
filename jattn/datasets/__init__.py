"""Data sets: each split is one numpy `jraph.GraphsTuple`, with the fields that `jattn.graphs` lists.

Features are uint8 if they are 0 or 1, float32 otherwise. Attention and edge weights are float32. Labels are int32, or
float32 if not all are integers. Graphs of images have a `Proximity` in place of listed edges.
"""

from jattn.datasets._colors import generate_colors, published_colors
from jattn.datasets._download import DownloadError
from jattn.datasets._images import image_graphs
from jattn.datasets._mnist75sp import mnist75sp
from jattn.datasets._segments import Segmentation, label_map
from jattn.datasets._size_splits import fold_ids, folds, size_shift_ids, size_split_ids, size_splits
from jattn.datasets._triangles import generate_triangles, published_triangles
from jattn.datasets._tu import TUData, read_tu
from jattn.datasets._tu_collection import tu_data
from jattn.datasets._tu_graphs import tu_graphs

__all__ = [
    "DownloadError",
    "Segmentation",
    "TUData",
    "fold_ids",
    "folds",
    "generate_colors",
    "generate_triangles",
    "image_graphs",
    "label_map",
    "mnist75sp",
    "published_colors",
    "published_triangles",
    "read_tu",
    "size_shift_ids",
    "size_split_ids",
    "size_splits",
    "tu_data",
    "tu_graphs",
]
