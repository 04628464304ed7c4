"""Compaction: the same graphs in the rows of kept nodes alone.

A dropped node is a masked row, which costs as much as any other row. Only the device knows how many nodes are kept, so
`lax.switch` chooses a static number of rows there. In a `compact` topology products with weights do so, each by itself.
Where layers are wide and A has blocks, a `CompactLayout` moreover merges blocks and has rows for kept nodes only.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

from jattn._cost_model import cost_model
from jattn.nn._kernels import RowMap, permute_rows
from jattn.nn._topology import BlockTopology


class CompactLayout(NamedTuple):
    """Rows for the kept nodes of a batch.

    Attributes:
      merged: number of blocks that become one.
      block: rows of that one.
    """

    merged: int
    block: int


def layouts(topology: BlockTopology) -> tuple[CompactLayout, ...]:
    """Layouts with room for the cost model's shares of the rows of a topology, smallest first."""
    blocks, block, _ = topology.adjacency.shape
    made, costs = [], cost_model()
    if topology.adjacency.size > np.iinfo(np.int32).max:
        return ()  # 32 bits can't index the entries of A
    for share in costs.compact_shares:
        least = max(1, -(-int(share * blocks * block) // costs.compact_rows))
        groups = min(range(least, 2 * least + 1), key=lambda n: n * -(-blocks // n))  # so that few rows are left over
        merged = -(-blocks // groups)
        made.append(CompactLayout(merged, -(-int(share * merged * block) // 8) * 8))
    return tuple(made)


def smallest_fitting(topology: BlockTopology, options: tuple[CompactLayout, ...]) -> Int[Array, ""]:
    """Index of the first layout with room for all kept nodes; the number of layouts if none has."""
    by_block = topology.node_mask.reshape(topology.adjacency.shape[:2]).sum(1)
    fits = [jnp.all(_by_group(by_block, option.merged).sum(1) <= option.block) for option in options]
    return jnp.argmax(jnp.stack([*fits, jnp.array(True)]))


def compact_rows(topology: BlockTopology, layout: CompactLayout) -> tuple[BlockTopology, RowMap]:
    """The topology of the kept nodes alone, in the rows of a layout that has room for them."""
    blocks, block, _ = topology.adjacency.shape
    nodes, groups = blocks * block, -(-blocks // layout.merged)
    size = groups * layout.block
    kept = _by_group(topology.node_mask, layout.merged * block)
    target = jnp.where(kept, jnp.cumsum(kept, axis=1) - 1 + layout.block * jnp.arange(groups)[:, None], size)
    target = target.reshape(-1)[:nodes]
    source = jnp.arange(nodes, nodes + size).at[target].set(jnp.arange(nodes), mode="drop")
    row_map = RowMap(source, target)
    last = np.minimum(np.arange(1, groups + 1) * layout.merged * block, nodes) - 1
    padding_graph = jnp.repeat(topology.node_graph[last], layout.block)
    node_graph = jnp.where(source < nodes, gather_rows(topology.node_graph, row_map), padding_graph)
    by_group = source.reshape(groups, layout.block)
    old_block, column = by_group // block, by_group % block
    entry = (jnp.minimum(by_group, nodes - 1) * block)[:, :, None] + column[:, None]
    weights = topology.adjacency.reshape(-1).at[entry].get(mode="promise_in_bounds")
    joined = (old_block[:, :, None] == old_block[:, None]) & (by_group < nodes)[:, None]
    return BlockTopology(
        n_node=jnp.bincount(node_graph, length=len(topology.n_node)),
        node_graph=node_graph,
        graph_mask=topology.graph_mask,
        node_mask=source < nodes,
        degrees=gather_rows(topology.degrees, row_map),
        max_nodes=topology.max_nodes,
        adjacency=jnp.where(joined, weights, 0),
    ), row_map


def gather_rows(x: Shaped[Array, " nodes *features"], row_map: RowMap) -> Shaped[Array, " rows *features"]:
    """`x` in the rows of a layout, 0 in rows without a node."""
    return permute_rows(x, row_map.source, row_map.target)


def scatter_rows(x: Shaped[Array, " rows *features"], row_map: RowMap) -> Shaped[Array, " nodes *features"]:
    """The inverse of `gather_rows`, 0 for dropped nodes."""
    return permute_rows(x, row_map.target, row_map.source)


def _by_group(x: Array, size: int) -> Array:
    """Consecutive entries in groups of `size`, the last filled up with 0."""
    return jnp.pad(x, (0, -len(x) % size)).reshape(-1, size)
