"""One-hot features kept as integers: made dense for the nodes of a batch alone, on the device."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct


@struct.dataclass
class OneHot:
    """Stands for an array of features, [nodes, columns + others], that has 1 in some columns and 0 elsewhere.

    A data set's node labels or degrees may make thousands of columns, of which each node has a 1 in one or few.

    Attributes:
      codes: the columns in which each node has a 1, [nodes, labels]; -1 for none.
      others: further features, [nodes, others], or None.
      columns: how many columns the codes are of.
    """

    codes: Any
    others: Any = None
    columns: int = struct.field(pytree_node=False, default=1)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the array that it stands for."""
        return len(self.codes), self.columns + (0 if self.others is None else self.others.shape[1])

    @property
    def ndim(self) -> int:
        """Of the array that it stands for."""
        return 2

    @property
    def dtype(self) -> np.dtype:
        """Of the array that it stands for."""
        return np.dtype(np.uint8 if self.others is None else np.float32)

    def __len__(self) -> int:
        return len(self.codes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(jax.device_get(self).dense(), dtype)

    def astype(self, dtype: Any) -> Any:
        """The array that it stands for, of a type."""
        return self.dense().astype(dtype)

    def dense(self) -> Any:
        """The array that it stands for; numpy's where the codes are, jax's otherwise."""
        xp: Any = np if isinstance(self.codes, np.ndarray) else jnp
        places = xp.arange(self.columns, dtype=self.codes.dtype)
        ones = xp.zeros((len(self.codes), self.columns), bool)
        for i in range(self.codes.shape[1]):
            ones = ones | (self.codes[:, i, None] == places)
        ones = ones.astype(np.uint8)
        return ones if self.others is None else xp.concatenate([ones.astype(np.float32), self.others], axis=1)
