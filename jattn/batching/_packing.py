"""How the graphs of a split are dealt into batches, and a batch's graphs into blocks of rows; on the host.

A batch is a list of graph ids in which every -1 ends a block: it stands for the padding graph that takes what is left
of the block's rows. All batches of a run are packed at once, so that one bucket holds every one of them.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from jraph import GraphsTuple

from jattn._cost_model import cost_model
from jattn.batching._gather import Bucket, power_of_2
from jattn.graphs import Proximity

BOUND = 1.5  # standard deviations that a batch may have more nodes than the mean
SAMPLE, SHORTLIST = 300, 3  # batches that show which sizes of blocks are worth trying on all of them, and how many


class Packed(NamedTuple):
    """Batches laid out in blocks.

    Attributes:
      ids: graph ids of every part of every batch, -1 at the end of each block and behind the last.
      bucket: holds every part.
    """

    ids: Int[np.ndarray, "*batches parts entries"]
    bucket: Bucket


def shuffled_batches(
    seed: int, epochs: int, n_node: Int[np.ndarray, " graphs"], batch: int
) -> Int[np.ndarray, "epochs steps batch"]:
    """Random batches for a whole run: every graph once an epoch, the last batch of an epoch filled up with -1.

    A batch that chance has given far more nodes than others exchanges graphs with random batches until it is within 1.5
    standard deviations of the mean: a bucket holds the largest batch, so that all others would be padded to its size.
    About one batch in fifteen gives a graph or two away. Knowing all batches beforehand, a run compiles one program.

    Args:
      seed: of the orders.
      epochs: how many orders.
      n_node: nodes of each graph.
      batch: graphs of a batch.
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
    """Exchanges graphs of batches that have too many nodes for smaller ones of random batches, in place."""
    steps, batch = batches.shape
    full = graphs // batch  # batches without -1
    if full < 2:
        return
    total = sizes[batches].sum(1)
    bound = batch * sizes[:-1].mean() + BOUND * np.sqrt(batch) * sizes[:-1].std()
    for _ in range(20 * steps):  # more than it takes, unless a few graphs are far larger than the rest
        large = total[:full].argmax()
        if total[large] <= bound:
            return
        other, place, there = rng.integers(full), rng.integers(batch), rng.integers(batch)
        gain = sizes[batches[large, place]] - sizes[batches[other, there]]
        if gain > 0 and total[other] + gain <= bound:
            batches[large, place], batches[other, there] = batches[other, there], batches[large, place]
            total[large] -= gain
            total[other] += gain


def pack(
    graphs: GraphsTuple, batches: Int[np.ndarray, "*batches batch"], parts: int = 1, dense: bool | None = None
) -> Packed:
    """Lays batches out in blocks, largest graphs first, each in the first block that has room for it.

    Args:
      graphs: the host-side split.
      batches: graph ids of each batch, -1 where there is none.
      parts: devices that share a batch; each gets as many blocks, and hence as many rows, as the others.
      dense: whether A is kept as dense blocks; whichever is quicker where None.

    Raises:
      ValueError: A is not to be dense, but all nodes of a graph are joined.
    """
    flat = np.asarray(batches).reshape(-1, batches.shape[-1])
    n_node, n_edge = (np.append(np.asarray(n), 0)[flat] for n in (graphs.n_node, graphs.n_edge))
    order = np.argsort(-n_node, axis=1, kind="stable")
    flat, n_node, n_edge = (np.take_along_axis(x, order, 1) for x in (flat, n_node, n_edge))
    largest, costs = int(n_node.max(initial=1)), cost_model()
    width, others = ell_width(graphs, np.unique(flat[flat >= 0]))
    n_other = np.append(others, 0)[flat]
    work = width + costs.listed_work * n_other.sum() / max(n_node.sum(), 1)  # of a row, where A is sparse
    if dense is False and isinstance(graphs.edges, Proximity):
        raise ValueError("dense: all nodes of these graphs are joined; expected True, or None")
    if dense is None:
        dense = isinstance(graphs.edges, Proximity) or bool(largest <= costs.dense_work * work)
    block, place = (_best_blocks if dense else _one_block)(n_node, flat >= 0, parts)
    blocks = -(-max(int(place.max(initial=0)) + 1, 1) // parts)  # of a part
    ids, edges, rest = _lay_out(flat, place, (n_edge, n_other), blocks, parts)
    bucket = Bucket(
        nodes=blocks * block,
        edges=-(-(int(edges.max(initial=0)) + 1) // 8) * 8,
        graphs=ids.shape[-1],
        max_nodes=largest,
        block_size=block,
        dense=dense,
        ell_width=width,
        coo_capacity=int(rest.max(initial=0)),
    )
    return Packed(ids.reshape(*batches.shape[:-1], parts, -1), bucket)


def evaluation_batches(
    graphs: GraphsTuple,
    nodes: int,
    parts: int = 1,
    sizes: tuple[int, ...] = (),
    chosen: Int[np.ndarray, " chosen"] | None = None,
) -> Iterator[tuple[Int[np.ndarray, "parts steps entries"], Bucket]]:
    """Batches that cover a split, or some graphs of it, once; a bucket for each class of size.

    Within a class the order is random: small graphs fill the rows that large ones leave of a block.

    Args:
      graphs: the host-side split.
      nodes: nodes of a batch at most, or those of the largest graph of its class if that has more; this bounds memory.
      parts: devices that share the batches; each gets as many steps as the others, the last of them perhaps empty.
      sizes: largest sizes of the classes, ascending; one more class holds what is larger.
      chosen: the graphs to cover; all where not given.

    Yields:
      For every class that has graphs: ids as `pack` lays them out, and their bucket.
    """
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
    """The same batches in a bucket whose sizes are powers of 2, so that a few programs serve graphs of many sizes."""
    block = power_of_2(bucket.block_size or bucket.nodes)
    blocks = bucket.nodes // (bucket.block_size or bucket.nodes)
    more = power_of_2(blocks, 1)
    graphs, nodes = power_of_2(bucket.graphs + more - blocks, 4), more * block  # a further block is a padding graph's
    rounded = Bucket(
        nodes=nodes,
        edges=power_of_2(bucket.edges, 4 * nodes),
        graphs=graphs,
        max_nodes=power_of_2(bucket.max_nodes),
        block_size=block,
        dense=bucket.dense,
        ell_width=0 if bucket.dense else power_of_2(bucket.ell_width, 4),
        coo_capacity=0 if bucket.dense else power_of_2(bucket.coo_capacity or 0, nodes),
    )
    fill = [(0, 0)] * (batches.ndim - 1) + [(0, graphs - bucket.graphs)]
    return np.pad(batches, fill, constant_values=-1), rounded


def size_classes(graphs: GraphsTuple, ratio: float = 1.5, least: int = 1000) -> tuple[int, ...]:
    """Sizes for `plan` that part a split into classes, of graphs at most `ratio` times the smallest if they are enough.

    Args:
      graphs: the host-side split.
      ratio: about how far sizes within a class may differ.
      least: graphs that make a class worth a compiled program of its own.
    """
    n_node = np.sort(np.asarray(graphs.n_node))
    classes, rest = [], n_node
    while len(rest):
        smaller = rest[rest < min(rest[-1] / ratio, rest[max(len(rest) - least, 0)])]
        if len(smaller) < least:
            break
        classes.append(int(smaller[-1]))
        rest = smaller
    return tuple(reversed(classes))


def ell_width(graphs: GraphsTuple, chosen: Int[np.ndarray, " chosen"]) -> tuple[int, Int[np.ndarray, " graphs"]]:
    """How many edges of a node to lay side by side, and how many others each graph has then.

    Args:
      graphs: the host-side split.
      chosen: the graphs for which that is to be quickest.
    """
    graph_of = np.repeat(np.arange(len(graphs.n_node)), graphs.n_node)
    degree = np.bincount(np.asarray(graphs.receivers), minlength=len(graph_of))
    of_chosen = degree[np.isin(graph_of, chosen)] if len(chosen) < len(graphs.n_node) else degree
    having = np.cumsum(np.bincount(of_chosen, minlength=1)[::-1])[::-1][1:]  # nodes that have 1, 2, ... edges or more
    others = having.sum() - np.insert(np.cumsum(having), 0, 0)  # edges beyond the first 0, 1, ... of each node
    width = int(np.argmin(np.arange(len(others)) * len(of_chosen) + cost_model().listed_work * others))
    beyond = np.bincount(graph_of, np.maximum(degree - width, 0), minlength=len(graphs.n_node))
    return width, beyond.astype(np.int64)


def _one_block(n_node: np.ndarray, real: np.ndarray, parts: int) -> tuple[int, np.ndarray]:
    """Rows of a block, one for each part, and the block of every graph, [batches, batch], -1 where there is none."""
    room = -(-(int(n_node.sum(1).max(initial=0)) + parts) // parts)
    while True:
        block = -(-max(room, int(n_node.max(initial=1))) // 8) * 8
        place = _first_fit(n_node, real, block)
        if place.max(initial=0) < parts:
            return block, place
        room = int(1.02 * room) + 1


def _best_blocks(n_node: np.ndarray, real: np.ndarray, parts: int) -> tuple[int, np.ndarray]:
    """As `_one_block`, for the blocks that make least work of dense products."""
    largest, costs = int(n_node.max(initial=1)), cost_model()

    def work(batches: np.ndarray, block: int) -> tuple[int, int, np.ndarray]:
        place = _first_fit(n_node[batches], real[batches], block)
        blocks = int(place.max(initial=0)) + 1
        return -(-blocks // parts) * block * (costs.row_work + block), block, place

    fullest = np.argsort(-n_node.sum(1), kind="stable")[:SAMPLE]
    sizes = range(largest, max(costs.block_limit, largest) + 1)
    shortlist = sorted(sizes, key=lambda block: work(fullest, block)[0])[:SHORTLIST]
    everywhere = np.arange(len(n_node))
    return min((work(everywhere, block) for block in shortlist), key=lambda choice: choice[0])[1:]


def _first_fit(n_node: np.ndarray, real: np.ndarray, block: int) -> np.ndarray:
    """The first block with room for each graph, all batches side by side."""
    # Blocks hold at least half of what they can, but for the last.
    most = 2 * -(-int(n_node.sum(1).max(initial=0)) // block) + 2
    free = np.full((len(n_node), most), block, np.int32)
    place = np.full(n_node.shape, -1, np.int32)
    rows = np.arange(len(n_node))
    for i in range(n_node.shape[1]):
        place[:, i] = (free >= n_node[:, i, None]).argmax(1)
        free[rows, place[:, i]] -= n_node[:, i]
    return np.where(real, place, -1)


def _lay_out(
    ids: np.ndarray, place: np.ndarray, counts: Sequence[np.ndarray], blocks: int, parts: int
) -> tuple[np.ndarray, ...]:
    """Ids in order of blocks, -1 at the end of each, [batches, parts, entries], and the sums of counts of each part."""
    batches, nowhere = len(ids), parts * blocks
    ends = np.broadcast_to(np.arange(nowhere), (batches, nowhere))
    block_of = np.concatenate([np.where(place < 0, nowhere, place), ends], axis=1)
    order = np.argsort(block_of, axis=1, kind="stable")  # a block's end behind its graphs
    block_of = np.take_along_axis(block_of, order, 1)
    entries = np.take_along_axis(np.concatenate([ids, np.full_like(ends, -1)], axis=1), order, 1)
    part_of = block_of // blocks
    count = (part_of[:, :, None] == np.arange(parts)).sum(1)  # [batches, parts]
    laid_out = np.full((batches, parts, int(count.max(initial=1))), -1, np.int32)
    batch, entry = np.nonzero(part_of < parts)
    part = part_of[batch, entry]
    laid_out[batch, part, entry - (np.cumsum(count, axis=1) - count)[batch, part]] = entries[batch, entry]
    of_part = [(place >= 0) & (place // blocks == part) for part in range(parts)]
    return laid_out, *(np.stack([np.where(here, count, 0).sum(1) for here in of_part]) for count in counts)
