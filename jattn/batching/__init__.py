"""Batches of fixed size: packed on the host, kept on the device, gathered inside jit."""

from jattn.batching._gather import (
    Batch,
    Bucket,
    DeviceDataset,
    device_put,
    drop_nodes,
    gather,
    pad,
    power_of_2,
    scatter,
)
from jattn.batching._packing import Packed, ell_width, evaluation_batches, pack, shuffled_batches, size_classes

__all__ = [
    "Batch",
    "Bucket",
    "DeviceDataset",
    "Packed",
    "device_put",
    "drop_nodes",
    "ell_width",
    "evaluation_batches",
    "gather",
    "pack",
    "pad",
    "power_of_2",
    "scatter",
    "shuffled_batches",
    "size_classes",
]
