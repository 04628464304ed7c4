"""Figures of attention on graphs and on images, by matplotlib; `save` writes them to files."""

from jattn.plots._graphs import ATTENTION, attention_figure, save
from jattn.plots._superpixels import ImageRow, ImageVariant, superpixel_figure

__all__ = ["ATTENTION", "ImageRow", "ImageVariant", "attention_figure", "save", "superpixel_figure"]
