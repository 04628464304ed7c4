"""Assigns the graphs of a split to batches, and the graphs of a batch to blocks of rows, on the host.

A batch is a list of graph ids. Each -1 ends a block: it stands for the padding graph that takes the rest of the block's
rows. All batches of a run are packed at once, so that one bucket holds each of them.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from jraph import GraphsTuple

from jattn._cost_model import cost_model
from jattn.batching._buckets import Bucket, DenseStorage, SparseStorage, power_of_2
from jattn.graphs import Proximity, expect_one_tuple

MAX_DEVIATION = 1.5  # the nodes of a batch may exceed the mean by this many standard deviations
SAMPLE, SHORTLIST = 300, 3  # batches on which all block sizes are tried, and block sizes then tried on all batches


class Packed(NamedTuple):
    """Batches laid out in blocks.

    Attributes:
      ids: graph ids of every part of every batch, with -1 at the end of each block and after the last one.
      bucket: a size that holds each part.
    """

    ids: Int[np.ndarray, "*batches parts entries"]
    bucket: Bucket


def shuffled_batches(
    seed: int, epochs: int, n_node: Int[np.ndarray, " graphs"], batch: int
) -> Int[np.ndarray, "epochs steps batch"]:
    """Random batches for a whole run: each graph once per epoch; -1 fills up the last batch of an epoch.

    A bucket holds the largest batch, and all others are padded to its size. So a batch with far more nodes than the
    mean exchanges graphs with random batches until it is within 1.5 standard deviations. About one batch in fifteen
    exchanges a graph or two. As all batches are known beforehand, a run compiles one program.

    Args:
      seed: of the random orders.
      epochs: number of epochs.
      n_node: number of nodes of each graph.
      batch: graphs per batch.

    >>> shuffled_batches(seed=0, epochs=1, n_node=np.array([3, 4, 5]), batch=2).shape
    (1, 2, 2)
    """
    graphs, sizes = len(n_node), np.append(n_node, 0)
    steps = -(-graphs // batch)
    rng = np.random.default_rng(seed)
    orders = np.full((epochs, steps * batch), -1, np.int32)
    for order in orders:
        order[:graphs] = rng.permutation(graphs)
        _balance_sizes(order.reshape(steps, batch), sizes, graphs, rng)
    return orders.reshape(epochs, steps, batch)


def _balance_sizes(batches: np.ndarray, sizes: np.ndarray, graphs: int, rng: np.random.Generator) -> None:
    """Exchanges graphs of batches with too many nodes for smaller graphs of random batches, in place."""
    steps, batch = batches.shape
    full = graphs // batch  # batches without -1
    if full < 2:
        return
    total = sizes[batches].sum(1)
    bound = batch * sizes[:-1].mean() + MAX_DEVIATION * np.sqrt(batch) * sizes[:-1].std()
    for _ in range(20 * steps):  # enough, unless a few graphs are far larger than the rest
        large = total[:full].argmax()
        if total[large] <= bound:
            return
        other, slot, other_slot = rng.integers(full), rng.integers(batch), rng.integers(batch)
        gain = sizes[batches[large, slot]] - sizes[batches[other, other_slot]]
        if gain > 0 and total[other] + gain <= bound:
            batches[large, slot], batches[other, other_slot] = batches[other, other_slot], batches[large, slot]
            total[large] -= gain
            total[other] += gain


def pack(
    graphs: GraphsTuple, batches: Int[np.ndarray, "*batches batch"], parts: int = 1, dense: bool | None = None
) -> Packed:
    """Lays batches out in blocks: the largest graphs first, each in the first block with room for it.

    Args:
      graphs: the split, on the host.
      batches: graph ids of each batch; -1 stands for none.
      parts: number of devices that share a batch; all get the same number of blocks, and so of rows, and about as many
        nodes. With one block a part, graphs then go to the emptiest block; or else full blocks change places.
      dense: whether A is stored as dense blocks. None: whichever is faster.

    Raises:
      ValueError: `dense` is False, but the graphs are complete (`Proximity`).

    >>> import jraph, jattn
    >>> graphs = jraph.batch_np([jattn.from_arrays(np.ones((nodes, 1)), [0, 1], [1, 0]) for nodes in (2, 3, 4)])
    >>> ids, bucket = pack(graphs, np.array([[0, 1, 2]]), dense=False)
    >>> ids.tolist(), bucket.nodes
    ([[[2, 1, 0, -1]]], 16)
    """
    expect_one_tuple(graphs)
    flat = np.asarray(batches).reshape(-1, batches.shape[-1])
    n_node, n_edge = (np.append(np.asarray(n), 0)[flat] for n in (graphs.n_node, graphs.n_edge))
    order = np.argsort(-n_node, axis=1, kind="stable")
    flat, n_node, n_edge = (np.take_along_axis(x, order, 1) for x in (flat, n_node, n_edge))
    largest = int(n_node.max(initial=1))
    width, n_coo = ell_width(graphs, np.unique(flat[flat >= 0]))
    n_coo = np.append(n_coo, 0)[flat]
    if dense is False and isinstance(graphs.edges, Proximity):
        raise ValueError("dense: all nodes of these graphs are joined; expected True, or None")
    if dense is None:
        dense = isinstance(graphs.edges, Proximity) or _prefers_blocks(
            largest, width, n_coo.sum() / max(n_node.sum(), 1)
        )
    block, block_index = (_best_blocks if dense else _one_block)(n_node, flat >= 0, parts)
    blocks = -(-max(int(block_index.max(initial=0)) + 1, 1) // parts)  # of a part
    ids, edges, coo_edges = _lay_out(flat, block_index, (n_edge, n_coo), blocks, parts)
    bucket = Bucket(
        nodes=blocks * block,
        edges=-(-(int(edges.max(initial=0)) + 1) // 8) * 8,
        graphs=ids.shape[-1],
        max_nodes=largest,
        block_size=block,
        storage=DenseStorage() if dense else SparseStorage(width, int(coo_edges.max(initial=0))),
    )
    return Packed(ids.reshape(*batches.shape[:-1], parts, -1), bucket)


def evaluation_batches(
    graphs: GraphsTuple,
    nodes: int,
    parts: int = 1,
    sizes: tuple[int, ...] = (),
    chosen: Int[np.ndarray, " chosen"] | None = None,
) -> Iterator[tuple[Int[np.ndarray, "parts steps entries"], Bucket]]:
    """Batches that cover a split, or some graphs of it, once, with one bucket for each size class.

    Within a class the order is random, so that small graphs fill the rows that large ones leave.

    Args:
      graphs: the split, on the host.
      nodes: most nodes of a batch, unless the largest graph of its class has more; this bounds memory.
      parts: number of devices that share the batches; all get the same number of steps, the last of them maybe empty.
      sizes: number of nodes of the largest graph of each size class, ascending; one more class has larger graphs.
      chosen: indices of the graphs to cover; default: all.

    Yields:
      For each class that has graphs: ids as laid out by `pack`, and their bucket.

    >>> import jraph, jattn
    >>> graphs = jraph.batch_np([jattn.from_arrays(np.ones((nodes, 1)), [0, 1], [1, 0]) for nodes in (2, 3, 4)])
    >>> [ids.shape for ids, _ in evaluation_batches(graphs, nodes=5)]  # parts, steps, entries
    [(1, 2, 3)]
    """
    expect_one_tuple(graphs)
    n_node = np.asarray(graphs.n_node)
    chosen = np.arange(len(n_node)) if chosen is None else chosen
    by_size = chosen[np.argsort(n_node[chosen], kind="stable")]
    for ids in np.split(by_size, np.searchsorted(n_node[by_size], sizes, side="right")):
        if not len(ids):
            continue
        room = max(nodes, int(n_node[ids].max()))  # the bucket has to hold the largest graph anyway
        steps: list[list[int]] = [[]]
        total = 0
        for i in np.random.default_rng(0).permutation(ids).tolist():
            if steps[-1] and total + n_node[i] > room:
                steps.append([])
                total = 0
            steps[-1].append(i)
            total += int(n_node[i])
        batches = np.full((-(-len(steps) // parts) * parts, max(map(len, steps))), -1, np.int32)
        for row, members in zip(batches, steps, strict=False):
            row[: len(members)] = members
        packed = pack(graphs, batches)
        yield packed.ids.reshape(parts, -1, packed.ids.shape[-1]), packed.bucket


def round_up(
    batches: Int[np.ndarray, "*batches entries"], bucket: Bucket
) -> tuple[Int[np.ndarray, "*batches more"], Bucket]:
    """The same batches in a bucket of sizes that are powers of 2, so that a few programs serve graphs of many sizes."""
    block = power_of_2(bucket.block_size or bucket.nodes)
    blocks = bucket.nodes // (bucket.block_size or bucket.nodes)
    more = power_of_2(blocks, 1)
    graphs, nodes = power_of_2(bucket.graphs + more - blocks, 4), more * block  # a further block is a padding graph's
    storage = bucket.storage
    if isinstance(storage, SparseStorage):
        storage = SparseStorage(power_of_2(storage.ell_width, 4), power_of_2(storage.coo_capacity or 0, nodes))
    rounded = Bucket(
        nodes=nodes,
        edges=power_of_2(bucket.edges, 4 * nodes),
        graphs=graphs,
        max_nodes=power_of_2(bucket.max_nodes),
        block_size=block,
        storage=storage,
    )
    fill = [(0, 0)] * (batches.ndim - 1) + [(0, graphs - bucket.graphs)]
    return np.pad(batches, fill, constant_values=-1), rounded


def size_classes(graphs: GraphsTuple, ratio: float = 1.5, least: int = 1000) -> tuple[int, ...]:
    """Size classes of a split for `evaluation_batches`: within a class, graphs have similar numbers of nodes.

    Args:
      graphs: the split, on the host.
      ratio: about the ratio of the largest to the smallest graph of a class.
      least: fewest graphs of a class; a smaller one is not worth a compiled program.

    Returns:
      The number of nodes of the largest graph of each class but the last, ascending.

    >>> import jraph, jattn
    >>> graphs = jraph.batch_np([jattn.from_arrays(np.ones((nodes, 1)), [0, 1], [1, 0]) for nodes in (2, 3, 4)])
    >>> size_classes(graphs, least=1)
    (2,)
    """
    n_node = np.sort(np.asarray(graphs.n_node))
    classes, remaining = [], n_node
    while len(remaining):
        smaller = remaining[remaining < min(remaining[-1] / ratio, remaining[max(len(remaining) - least, 0)])]
        if len(smaller) < least:
            break
        classes.append(int(smaller[-1]))
        remaining = smaller
    return tuple(reversed(classes))


def prediction_classes(graphs: GraphsTuple) -> tuple[int, ...]:
    """Size classes of a split for predictions: those of `size_classes` if A is stored as dense blocks, or else one.

    Sparse storage packs graphs of all sizes into the same rows, so that a class would save nothing, and cost a program.
    """
    if isinstance(graphs.edges, Proximity):
        return size_classes(graphs)
    width, n_coo = ell_width(graphs, np.arange(len(graphs.n_node)))
    nodes, largest = int(np.sum(graphs.n_node)), int(np.max(graphs.n_node, initial=1))
    return size_classes(graphs) if _prefers_blocks(largest, width, n_coo.sum() / max(nodes, 1)) else ()


def _prefers_blocks(largest: int, width: int, listed: float) -> bool:
    """Whether dense blocks are faster than sparse storage.

    Args:
      largest: nodes of the largest graph.
      width: columns of the ELL table.
      listed: entries of the COO list for each node.
    """
    costs = cost_model()
    return bool(largest <= costs.dense_work * (width + costs.listed_work * listed))


def ell_width(graphs: GraphsTuple, chosen: Int[np.ndarray, " chosen"]) -> tuple[int, Int[np.ndarray, " graphs"]]:
    """The fastest width of the ELL table for some graphs, and the number of edges of each graph beyond it (COO).

    Args:
      graphs: the split, on the host.
      chosen: indices of the graphs for which the width is chosen.
    """
    node_graph = np.repeat(np.arange(len(graphs.n_node)), graphs.n_node)
    degree = np.bincount(np.asarray(graphs.receivers), minlength=len(node_graph))
    chosen_degree = degree[np.isin(node_graph, chosen)] if len(chosen) < len(graphs.n_node) else degree
    at_least = np.cumsum(np.bincount(chosen_degree, minlength=1)[::-1])[::-1][1:]  # nodes of at least 1, 2, ... edges
    beyond = at_least.sum() - np.insert(np.cumsum(at_least), 0, 0)  # edges beyond the first 0, 1, ... of each node
    width = int(np.argmin(np.arange(len(beyond)) * len(chosen_degree) + cost_model().listed_work * beyond))
    n_coo = np.bincount(node_graph, np.maximum(degree - width, 0), minlength=len(graphs.n_node))
    return width, n_coo.astype(np.int64)


def _one_block(n_node: np.ndarray, real: np.ndarray, parts: int) -> tuple[int, np.ndarray]:
    """Rows of a block, with one block per part, and the block of each graph, [batches, batch]; -1: no graph."""
    emptiest, nodes = _emptiest(n_node, real, parts)
    room = -(-(int(n_node.sum(1).max(initial=0)) + parts) // parts)
    while True:
        block = -(-max(room, int(n_node.max(initial=1))) // 8) * 8
        first_fit = _first_fit(n_node, real, block)
        if first_fit.max(initial=0) < parts:
            # First fit needs the least room, but fills one block after another: only where the other does not fit.
            return block, np.where(nodes.max(1, keepdims=True) <= block, emptiest, first_fit)
        room = int(1.02 * room) + 1


def _best_blocks(n_node: np.ndarray, real: np.ndarray, parts: int) -> tuple[int, np.ndarray]:
    """As `_one_block`, but with the block size for which dense products take least work."""
    largest, costs = int(n_node.max(initial=1)), cost_model()

    def work(batches: np.ndarray, block: int) -> tuple[int, int, np.ndarray]:
        block_index = _first_fit(n_node[batches], real[batches], block)
        blocks = int(block_index.max(initial=0)) + 1
        return -(-blocks // parts) * block * (costs.row_work + block), block, block_index

    fullest = np.argsort(-n_node.sum(1), kind="stable")[:SAMPLE]
    sizes = range(largest, max(costs.block_limit, largest) + 1)
    shortlist = sorted(sizes, key=lambda block: work(fullest, block)[0])[:SHORTLIST]
    all_batches = np.arange(len(n_node))
    _, block, block_index = min((work(all_batches, block) for block in shortlist), key=lambda choice: choice[0])
    return block, block_index if parts == 1 else _dealt(block_index, n_node, parts)


def _dealt(block_index: np.ndarray, n_node: np.ndarray, parts: int) -> np.ndarray:
    """The same blocks in other places, so that parts have about as many nodes."""
    rows = np.arange(len(n_node))[:, None]
    blocks = -(-(int(block_index.max(initial=0)) + 1) // parts) * parts
    nodes = np.zeros((len(n_node), blocks), np.int64)
    np.add.at(nodes, (np.broadcast_to(rows, block_index.shape), block_index), np.where(block_index < 0, 0, n_node))
    places = np.take_along_axis(even_places(nodes, parts), np.maximum(block_index, 0), 1)
    return np.where(block_index < 0, -1, places)


def even_places(nodes: Int[np.ndarray, "batches blocks"], parts: int) -> Int[np.ndarray, "batches blocks"]:
    """The place of each block so that parts, of as many blocks each, have about as many nodes: the fullest first."""
    blocks = nodes.shape[1]
    turn, part = np.divmod(np.arange(blocks), parts)
    there_and_back = np.where(turn % 2, parts - 1 - part, part) * (blocks // parts) + turn
    places = np.empty_like(nodes)
    np.put_along_axis(places, np.argsort(-nodes, axis=1, kind="stable"), there_and_back[None], 1)
    return places


def _emptiest(n_node: np.ndarray, real: np.ndarray, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """The emptiest of some blocks for each graph, and the nodes of each block; all batches at once."""
    nodes = np.zeros((len(n_node), blocks), np.int64)
    block_index = np.full(n_node.shape, -1, np.int32)
    rows = np.arange(len(n_node))
    for i in range(n_node.shape[1]):
        block_index[:, i] = nodes.argmin(1)
        nodes[rows, block_index[:, i]] += n_node[:, i]
    return np.where(real, block_index, -1), nodes


def _first_fit(n_node: np.ndarray, real: np.ndarray, block: int) -> np.ndarray:
    """The first block with room for each graph; all batches at once."""
    # All blocks but the last are at least half full.
    max_blocks = 2 * -(-int(n_node.sum(1).max(initial=0)) // block) + 2
    free = np.full((len(n_node), max_blocks), block, np.int32)
    block_index = np.full(n_node.shape, -1, np.int32)
    rows = np.arange(len(n_node))
    for i in range(n_node.shape[1]):
        block_index[:, i] = (free >= n_node[:, i, None]).argmax(1)
        free[rows, block_index[:, i]] -= n_node[:, i]
    return np.where(real, block_index, -1)


def _lay_out(
    ids: np.ndarray, block_index: np.ndarray, counts: Sequence[np.ndarray], blocks: int, parts: int
) -> tuple[np.ndarray, ...]:
    """Ids by block, -1 at the end of each block, [batches, parts, entries], and the sums of counts of each part."""
    batches, no_block = len(ids), parts * blocks
    ends = np.broadcast_to(np.arange(no_block), (batches, no_block))
    entry_block = np.concatenate([np.where(block_index < 0, no_block, block_index), ends], axis=1)
    order = np.argsort(entry_block, axis=1, kind="stable")  # the end of a block after its graphs
    entry_block = np.take_along_axis(entry_block, order, 1)
    entries = np.take_along_axis(np.concatenate([ids, np.full_like(ends, -1)], axis=1), order, 1)
    entry_part = entry_block // blocks
    count = (entry_part[:, :, None] == np.arange(parts)).sum(1)  # [batches, parts]
    laid_out = np.full((batches, parts, int(count.max(initial=1))), -1, np.int32)
    batch, entry = np.nonzero(entry_part < parts)
    part = entry_part[batch, entry]
    laid_out[batch, part, entry - (np.cumsum(count, axis=1) - count)[batch, part]] = entries[batch, entry]
    part_masks = [(block_index >= 0) & (block_index // blocks == part) for part in range(parts)]
    return laid_out, *(np.stack([np.where(mask, count, 0).sum(1) for mask in part_masks]) for count in counts)
