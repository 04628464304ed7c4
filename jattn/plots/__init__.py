"""Plots of attention, training and accuracy, by matplotlib; `save` writes a figure to a file.

Plots of one panel take `ax`, by default pyplot's current axes, and return the axes. Plots of several panels return a
`Figure`, which a notebook shows.
"""

from jattn.plots._accuracy import accuracy_by_label, accuracy_by_size
from jattn.plots._graphs import attention_on_graphs, save
from jattn.plots._images import ImageAttention, SegmentedImage, attention_on_images
from jattn.plots._style import ATTENTION
from jattn.plots._training import training_curves

__all__ = [
    "ATTENTION",
    "ImageAttention",
    "SegmentedImage",
    "accuracy_by_label",
    "accuracy_by_size",
    "attention_on_graphs",
    "attention_on_images",
    "save",
    "training_curves",
]
