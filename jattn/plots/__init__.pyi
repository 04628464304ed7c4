from ._accuracy import accuracy_by_label, accuracy_by_size
from ._graphs import attention_on_graphs, save
from ._images import ImageAttention, SegmentedImage, attention_on_images
from ._style import ATTENTION
from ._training import training_curves

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
