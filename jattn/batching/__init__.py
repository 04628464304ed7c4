"""Batches of fixed size: packed on the host, kept on the device, gathered inside jit."""

from jattn.batching._gather import Batch, Bucket, Split, drop_nodes, gather, pad, power_of_2, put, scatter
from jattn.batching._packing import Packed, pack, plan, shuffled_batches, size_classes, table_width

__all__ = [
    "Batch",
    "Bucket",
    "Packed",
    "Split",
    "drop_nodes",
    "gather",
    "pack",
    "pad",
    "plan",
    "power_of_2",
    "put",
    "scatter",
    "shuffled_batches",
    "size_classes",
    "table_width",
]
