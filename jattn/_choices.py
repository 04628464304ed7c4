"""What may be chosen by name, of tasks, networks and training; and the check of a network's layers. Without jax."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from jattn._options import as_int, expect_at_least, expect_one_of, set_numbers

Task = Literal["regression", "classification"]  # squared error of one output, or cross entropy of logits
Aggregation = Literal["mean", "sum"]
Readout = Literal["sum", "mean", "max", "log_sum"]
# What counts as the change of a prediction when a node is removed: |y_i - y|, or max(0, y - y_i).
Change = Literal["absolute", "decrease"]
# How convolutions compute: in float32 at the highest precision of the device, in float32 at its default precision (TF32
# on GPUs, bfloat16 products on TPUs), or in bfloat16.
Precision = Literal["highest", "default", "bfloat16"]


def check_layers(model: Any) -> None:
    """Checks `filters`, `order`, `aggregation`, `hidden`, `readout`, `typical_nodes` and `dropout`; converts numbers.

    Raises:
      ValueError: a value is not allowed.
    """
    expect_one_each("filters", model.filters)
    filters = tuple(as_int(f"filters[{i}]", width) for i, width in enumerate(model.filters))
    object.__setattr__(model, "filters", filters)
    set_numbers(model, ints=("order",), floats=("dropout", "typical_nodes"), optional_ints=("hidden",))
    expect_one_of("aggregation", model.aggregation, Aggregation)
    expect_one_of("readout", model.readout, Readout)
    if min(filters, default=0) < 1:
        raise ValueError(f"filters: {filters} is not allowed, expected one positive number per convolution")
    expect_at_least(1, order=model.order, hidden=model.hidden)
    expect_at_least(0, typical_nodes=model.typical_nodes)
    if not 0 <= model.dropout < 1:
        raise ValueError(f"dropout: {model.dropout} is not allowed, expected 0 or more and less than 1")


def expect_one_each(name: str, values: Any) -> None:
    """Raises `ValueError` unless `values` is a sequence, which should have one entry per convolution."""
    if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str):
        raise ValueError(f"{name}: {values!r} is not allowed, expected a tuple with one entry per convolution")
