"""Rows of kept nodes alone: the same graphs in fewer rows, once nodes have been dropped.

Dropped nodes are masked rows, which cost as much as others. A `Layout` makes one block of several and holds only rows
of kept nodes; which of a few layouts is large enough is known on the device alone, where `lax.switch` chooses.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

from jattn._cost_model import cost_model
from jattn.nn._kernels import permute_rows
from jattn.nn._topology import BlockTopology


class CompactLayout(NamedTuple):
    """How kept nodes are laid out.

    Attributes:
      merged: how many blocks become one.
      block: rows of that one.
    """

    merged: int
    block: int


def layouts(topology: BlockTopology) -> tuple[CompactLayout, ...]:
    """Layouts with room for the cost model's shares of a topology's rows, smallest first."""
    blocks, block, _ = topology.adjacency.shape
    made, costs = [], cost_model()
    if topology.adjacency.size > np.iinfo(np.int32).max:
        return ()  # entries of A have no numbers of 32 bits
    for share in costs.compact_shares:
        least = max(1, -(-int(share * blocks * block) // costs.compact_rows))
        groups = min(range(least, 2 * least + 1), key=lambda n: n * -(-blocks // n))  # so that few rows are left over
        merged = -(-blocks // groups)
        made.append(CompactLayout(merged, -(-int(share * merged * block) // 8) * 8))
    return tuple(made)


def smallest_fitting(topology: BlockTopology, options: tuple[CompactLayout, ...]) -> Int[Array, ""]:
    """The first layout that has room for all kept nodes; the number of layouts where none has."""
    by_block = topology.node_mask.reshape(topology.adjacency.shape[:2]).sum(1)
    fits = [jnp.all(_by_group(by_block, option.merged).sum(1) <= option.block) for option in options]
    return jnp.argmax(jnp.stack([*fits, jnp.array(True)]))


class RowMap(NamedTuple):
    """Where rows go in a layout; numbers out of range stand for nowhere.

    Attributes:
      rows: the row that each row of the layout was, [rows].
      place_of: the row of the layout that each row goes to, [nodes].
    """

    rows: Int[Array, " rows"]
    place_of: Int[Array, " nodes"]


def compact_rows(topology: BlockTopology, layout: CompactLayout) -> tuple[BlockTopology, RowMap]:
    """The topology of kept nodes alone, in the rows of a layout that has room for them."""
    blocks, block, _ = topology.adjacency.shape
    nodes, groups = blocks * block, -(-blocks // layout.merged)
    size = groups * layout.block
    kept = _by_group(topology.node_mask, layout.merged * block)
    place = jnp.where(kept, jnp.cumsum(kept, axis=1) - 1 + layout.block * jnp.arange(groups)[:, None], size)
    place_of = place.reshape(-1)[:nodes]
    rows = jnp.arange(nodes, nodes + size).at[place_of].set(jnp.arange(nodes), mode="drop")
    places = RowMap(rows, place_of)
    last = np.minimum(np.arange(1, groups + 1) * layout.merged * block, nodes) - 1
    behind = jnp.repeat(topology.node_graph[last], layout.block)
    graph_of = jnp.where(rows < nodes, gather_rows(topology.node_graph, places), behind)
    by_group = rows.reshape(groups, layout.block)
    own_block, column = by_group // block, by_group % block
    entry = (jnp.minimum(by_group, nodes - 1) * block)[:, :, None] + column[:, None]
    weights = topology.adjacency.reshape(-1).at[entry].get(mode="promise_in_bounds")
    joined = (own_block[:, :, None] == own_block[:, None]) & (by_group < nodes)[:, None]
    return BlockTopology(
        n_node=jnp.bincount(graph_of, length=len(topology.n_node)),
        node_graph=graph_of,
        graph_mask=topology.graph_mask,
        node_mask=rows < nodes,
        degrees=gather_rows(topology.degrees, places),
        max_nodes=topology.max_nodes,
        adjacency=jnp.where(joined, weights, 0),
    ), places


def gather_rows(x: Shaped[Array, " nodes *features"], places: RowMap) -> Shaped[Array, " rows *features"]:
    """X in the rows of a layout, 0 where there is no node."""
    return permute_rows(x, places.rows, places.place_of)


def scatter_rows(x: Shaped[Array, " rows *features"], places: RowMap) -> Shaped[Array, " nodes *features"]:
    """The inverse of `gather_rows`, 0 for nodes that were dropped."""
    return permute_rows(x, places.place_of, places.rows)


def _by_group(x: Array, size: int) -> Array:
    """Consecutive entries in groups of `size`, the last filled up with 0."""
    return jnp.pad(x, (0, -len(x) % size)).reshape(-1, size)
