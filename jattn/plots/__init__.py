"""Plots of attention, training and accuracy, by matplotlib; `save` writes a figure to a file.

Plots of one panel take `ax`, by default pyplot's current axes, and return the axes. Plots of several panels return a
`Figure`, which a notebook shows.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
