"""Data sets: every split is one numpy `jraph.GraphsTuple` of all its graphs, with the fields `jattn.graphs` lists.

Features are uint8 where they are 0/1, float32 otherwise; attention and edge weights are float32; a label is int32, or
float32 where not all are whole numbers.
"""

from jattn.datasets.colors import generate_colors, published_colors
from jattn.datasets.triangles import generate_triangles, published_triangles
from jattn.datasets.tu import TUData, read_tu

__all__ = [
    "TUData",
    "generate_colors",
    "generate_triangles",
    "published_colors",
    "published_triangles",
    "read_tu",
]
