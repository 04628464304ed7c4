from ._colors import generate_colors, published_colors
from ._download import DownloadError
from ._images import image_graphs
from ._mnist75sp import mnist75sp
from ._segments import Segmentation, label_map
from ._size_splits import fold_ids, folds, size_shift_ids, size_split_ids, size_splits
from ._triangles import generate_triangles, published_triangles
from ._tu import TUData, read_tu
from ._tu_collection import tu_data
from ._tu_graphs import tu_graphs

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
