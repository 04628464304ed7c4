"""The fixed sizes of batches.

The rows of a batch are divided into blocks, and no graph crosses the border of a block. A padding graph takes the rows
left at the end of a block. With one block this is jraph's padding: one extra graph at the end.
"""

from typing import NamedTuple


class DenseStorage(NamedTuple):
    """A as the dense blocks on its diagonal, one for each block of rows."""


class SparseStorage(NamedTuple):
    """A as an ELL table and a COO list.

    Attributes:
      ell_width: columns of the table, which has the first edges of each node.
      coo_capacity: length of the list, which has the other edges. None: all edges are in it.
    """

    ell_width: int = 0
    coo_capacity: int | None = None


class Bucket(NamedTuple):
    """The fixed size of a batch, padding included, and how its adjacency A is stored.

    Attributes:
      nodes: rows for nodes.
      edges: rows for directed edges.
      graphs: graphs.
      max_nodes: nodes of the largest graph.
      block_size: rows of a block; `nodes` is a multiple of it. None: all rows are one block.
      storage: `DenseStorage()` or `SparseStorage(...)`.

    >>> Bucket(nodes=64, edges=128, graphs=5, max_nodes=20).is_dense
    False
    """

    nodes: int
    edges: int
    graphs: int
    max_nodes: int
    block_size: int | None = None
    storage: DenseStorage | SparseStorage = SparseStorage()

    @property
    def is_dense(self) -> bool:
        """Whether A is stored as dense blocks."""
        return isinstance(self.storage, DenseStorage)


def power_of_2(number: int, least: int = 16) -> int:
    """The smallest power of 2 that is at least `number` and at least `least`."""
    return 1 << (max(number, least) - 1).bit_length()
