"""The batches of a training run, in a bucket that belongs to the data set, the batch size and the number of devices.

`pack` makes a bucket that just holds the batches that it is given. Those of another seed need slightly other sizes, so
that another program would be compiled. Here a bucket also holds a sample of batches that is the same for all seeds, and
has some room for more edges.
"""

import numpy as np
from jaxtyping import Int
from jraph import GraphsTuple

from jattn.batching._buckets import SparseStorage
from jattn.batching._packing import Packed, ell_width, even_places, pack, shuffled_batches

SAMPLE, SAMPLE_SEED = 2048, (1 << 32) - 1  # batches of the sample, and their seed
SAMPLED = 100_000  # most graphs of the sample, if it has more than one epoch
DEVIATIONS, MORE = 6, 3  # standard deviations of edges above the mean that there is room for; if too few, so many more
MULTIPLE = 8  # of graphs, where devices share a batch


def pack_training(
    graphs: GraphsTuple, batches: Int[np.ndarray, "*batches batch"], parts: int = 1, most_rows: int | None = None
) -> Packed:
    """`pack`, in a bucket that other random batches of the same graphs and of the same size have too, most likely.

    Args:
      graphs: the split, on the host.
      batches: graph ids of each batch; -1 stands for none.
      parts: number of devices that share a batch.
      most_rows: sparse parts with more rows are divided into chunks of one size: about so many rows at most, unless a
        single graph has more. None: they never are.

    Returns:
      Ids [*batches, parts * chunks, entries] and the bucket of a chunk.

    >>> import jattn
    >>> graphs = jattn.datasets.generate_colors(train=100, validation=1, test=1)["train"]
    >>> orders = [shuffled_batches(seed, 2, graphs.n_node, batch=32) for seed in (0, 1)]
    >>> pack_training(graphs, orders[0]).bucket == pack_training(graphs, orders[1]).bucket
    True
    """
    flat = batches.reshape(-1, batches.shape[-1])
    chosen = np.unique(flat[flat >= 0])
    sample = _sample(chosen, np.asarray(graphs.n_node), batches.shape[-1])
    both = np.concatenate([sample, flat])
    ids, bucket = pack(graphs, both, parts)
    if most_rows is not None and not bucket.is_dense:
        chunks = min(-(-bucket.nodes // most_rows), -(-batches.shape[-1] // parts))
        if chunks > 1:
            ids, bucket = pack(graphs, both, parts * chunks)
            places = even_places(_sums(np.asarray(graphs.n_node), ids), parts)
            ids = np.take_along_axis(ids, np.argsort(places, axis=1)[:, :, None], 1)
            parts *= chunks
    full = (sample >= 0).all(1)
    typical = np.flatnonzero(full if full.any() else ~full)
    edges = _capacity(_sums(np.asarray(graphs.n_edge), ids), typical)
    storage = bucket.storage
    if isinstance(storage, SparseStorage):
        listed = ell_width(graphs, chosen)[1]
        storage = storage._replace(coo_capacity=_capacity(_sums(listed, ids), typical))
    entries = bucket.graphs if parts == 1 else -(-bucket.graphs // MULTIPLE) * MULTIPLE
    bucket = bucket._replace(edges=-(-(edges + 1) // 8) * 8, graphs=entries, storage=storage)
    ids = np.pad(ids[len(sample) :], [(0, 0), (0, 0), (0, entries - ids.shape[-1])], constant_values=-1)
    return Packed(ids.reshape(*batches.shape[:-1], parts, entries), bucket)


def _sample(
    chosen: Int[np.ndarray, " chosen"], n_node: Int[np.ndarray, " graphs"], batch: int
) -> Int[np.ndarray, "batches batch"]:
    """Random batches of the chosen graphs, the same for all seeds."""
    epochs = max(1, min(-(-SAMPLE // -(-len(chosen) // batch)), SAMPLED // len(chosen)))
    orders = shuffled_batches(SAMPLE_SEED, epochs, n_node[chosen], batch)
    return np.append(chosen, -1)[orders].reshape(-1, batch)


def _sums(counts: Int[np.ndarray, " graphs"], ids: Int[np.ndarray, "batches parts entries"]) -> np.ndarray:
    """The sum of the counts of the graphs of each part of each batch."""
    return np.append(counts, 0)[ids].sum(-1)


def _capacity(sums: Int[np.ndarray, "batches parts"], typical: Int[np.ndarray, " typical"]) -> int:
    """A capacity for all sums, by the typical ones; if others are far from these, the next of few possible ones."""
    mean, std = sums[typical].mean(0), sums[typical].std(0)
    deviations, most = DEVIATIONS, int(sums.max())
    while (capacity := int(np.ceil((mean + deviations * std).max()))) < most and std.any():
        deviations += MORE
    return max(capacity, most)
