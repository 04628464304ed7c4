"""Leave-one-out attribution: the change in a graph's prediction when a node is removed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
