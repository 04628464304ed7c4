"""One-hot features stored as integers; only the nodes of a batch are made dense, on the device."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct


@struct.dataclass
class OneHot:
    """One-hot features [nodes, columns + others] in sparse form.

    The node labels or degrees of a data set may need thousands of columns, of which one or few are 1 for a node.

    Attributes:
      codes: the columns that are 1 for each node, [nodes, labels]; -1 stands for none.
      others: further features, [nodes, others], or None.
      columns: number of one-hot columns.

    >>> OneHot(np.array([[0], [2], [-1]]), columns=3).dense().tolist()
    [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    """

    codes: Any
    others: Any = None
    columns: int = struct.field(pytree_node=False, default=1)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the dense array."""
        return len(self.codes), self.columns + (0 if self.others is None else self.others.shape[1])

    @property
    def ndim(self) -> int:
        """Number of axes of the dense array."""
        return 2

    @property
    def dtype(self) -> np.dtype:
        """Type of the dense array."""
        return np.dtype(np.uint8 if self.others is None else np.float32)

    def __len__(self) -> int:
        return len(self.codes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(jax.device_get(self).dense(), dtype)

    def astype(self, dtype: Any) -> Any:
        """The dense array, converted to a type."""
        return self.dense().astype(dtype)

    def dense(self) -> Any:
        """The dense array: numpy's if the codes are numpy's, jax's otherwise."""
        xp: Any = np if isinstance(self.codes, np.ndarray) else jnp
        columns = xp.arange(self.columns, dtype=self.codes.dtype)
        ones = xp.zeros((len(self.codes), self.columns), bool)
        for i in range(self.codes.shape[1]):
            ones = ones | (self.codes[:, i, None] == columns)
        ones = ones.astype(np.uint8)
        return ones if self.others is None else xp.concatenate([ones.astype(np.float32), self.others], axis=1)
