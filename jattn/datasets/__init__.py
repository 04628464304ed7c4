"""Data sets: each split is one numpy `jraph.GraphsTuple`, with the fields that `jattn.graphs` lists.

Features are uint8 if they are 0 or 1, float32 otherwise. Attention and edge weights are float32. Labels are int32, or
float32 if not all are integers. Graphs of images have a `Proximity` in place of listed edges.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
