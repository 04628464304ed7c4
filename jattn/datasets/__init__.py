"""Data sets: every split is one numpy `jraph.GraphsTuple` of all its graphs, with the fields `jattn.graphs` lists.

Features are uint8 where they are 0/1, float32 otherwise; attention and edge weights are float32; a label is int32, or
float32 where not all are whole numbers. Graphs of images have a rule for their weights in place of edges.
"""

from jattn.datasets.colors import generate_colors, published_colors
from jattn.datasets.download import DownloadError
from jattn.datasets.images import image_graphs
from jattn.datasets.mnist75sp import mnist75sp
from jattn.datasets.segments import Segmentation, label_map
from jattn.datasets.size_splits import fold_ids, folds, size_split_ids, size_splits
from jattn.datasets.triangles import generate_triangles, published_triangles
from jattn.datasets.tu import TUData, read_tu
from jattn.datasets.tu_collection import tu_data
from jattn.datasets.tu_graphs import tu_graphs

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
    "size_split_ids",
    "size_splits",
    "tu_data",
    "tu_graphs",
]
