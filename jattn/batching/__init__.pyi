from ._buckets import Bucket, DenseStorage, SparseStorage, power_of_2
from ._gather import Batch, DeviceDataset, device_put, gather, scatter
from ._packing import Packed, ell_width, evaluation_batches, pack, shuffled_batches, size_classes
from ._padding import drop_nodes, pad

__all__ = [
    "Batch",
    "Bucket",
    "DenseStorage",
    "DeviceDataset",
    "Packed",
    "SparseStorage",
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
