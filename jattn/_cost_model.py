"""Cost models of devices: numbers that decide the sizes of batches, blocks and loops, one set per backend.

Results do not depend on them, except for rounding. `use_cost_model` replaces the cost model of the backend:

    with use_cost_model(dataclasses.replace(cost_model(), evaluation_rows=8192)):
        predictions = predict_seeds(network, params, graphs)
"""

import contextlib
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import jax

from jattn._options import expect_at_least


@dataclass(frozen=True)
class CostModel:
    """Costs of operations on a kind of device, and how much to compute at once.

    Rows are nodes of a batch, padding included. The defaults were measured on CPU cores.

    Attributes:
      sequential_floats: numbers that fit into the cache of a core. If the widest layer of a seed, or of a chunk of
        subgraphs, has more, the seeds of a device run one after another instead of vectorised. None: always vectorised.
      chunk_floats: a training step on sparse graphs takes its batch in chunks, one after another. The widest layer of a
        chunk has about so many numbers at most, unless a single graph has more. None: all at once.
      evaluation_rows: rows of a batch for which no gradient is computed.
      precomputed_floats: the first layer's Chebyshev terms of a split are computed once for all epochs if they, and
        the memory for computing them, take at most so many numbers.
      compact: whether `TrainConfig.compact` has an effect: products of the rows alone that matter, with the seeds of a
        device one after another. False: all rows, with vectorised seeds.
      row_work: cost of the linear maps of a row, in rows of a dense block that it could be multiplied by in that time;
        weighs padding against the size of blocks.
      block_limit: rows of a dense block, unless a graph has more nodes.
      dense_work: cost of an edge in a sparse product, in rows of a dense block; decides whether A is dense or sparse.
      listed_work: cost of an edge in the COO list, in edges of the ELL table; decides the width of the table.
      outer_sum_rows: up to so many rows per node, graphs are laid out separately for a batched product instead of
        summing the outer product of each node.
      row_major_features: up to so many features, a product with dense blocks is computed as (x^T A)^T.
      compact_features: fewest features of the widest layer for which dense blocks have compact layouts. Each layout is
        one more program to compile.
      compact_shares: capacities of compact layouts, as shares of all rows, ascending.
      compact_rows: rows of a dense block of kept nodes. Small blocks waste rows if graphs keep different shares of
        their nodes; large ones multiply by many zeros.
      leave_one_out_rows: rows that leave-one-out predicts at once: copies of a batch times its rows.
      leave_one_out_nodes: nodes of such a batch, whose graphs should be similar in size.
      progress_batches: batches of leave-one-out between two reports of progress.
      subgraph_nodes: fewest nodes of a graph for which leave-one-out uses k-hop subgraphs instead of copies.
      subgraph_degree: most edges of a node of such a graph.
      subgraph_share: largest share of such a graph's nodes that its subgraphs may have on average.
      subgraph_rows: rows of a chunk of subgraphs; bounds memory. Graphs with a larger subgraph are copied.
      subgraph_count: subgraphs of a chunk.
      subgraph_edges: edges of a chunk in its COO list. Graphs with a subgraph that has more are copied.
      subgraph_chunks: chunks that a device computes in one call.
      search_sources: nodes whose k-hop neighborhoods the host searches at once, one bit each.

    >>> CostModel(evaluation_rows=4096).evaluation_rows
    4096
    """

    sequential_floats: int | None = 160_000
    chunk_floats: int | None = 100_000
    evaluation_rows: int = 1024
    precomputed_floats: int = 100_000_000
    compact: bool = True

    row_work: int = 96
    block_limit: int = 128
    dense_work: int = 4
    listed_work: int = 6
    outer_sum_rows: int = 4
    row_major_features: int = 8
    compact_features: int = 256
    compact_shares: tuple[float, ...] = (0.16, 0.33, 0.5, 0.62)
    compact_rows: int = 160

    leave_one_out_rows: int = 1024
    leave_one_out_nodes: int = 500
    progress_batches: int = 100
    subgraph_nodes: int = 200
    subgraph_degree: int = 32
    subgraph_share: float = 0.6
    subgraph_rows: int = 4096
    subgraph_count: int = 64
    subgraph_edges: int = 1536
    subgraph_chunks: int = 4
    search_sources: int = 512

    def __post_init__(self) -> None:
        not_counts = ("compact", "compact_shares", "row_major_features", "subgraph_share")
        expect_at_least(1, **{name: value for name, value in vars(self).items() if name not in not_counts})
        expect_at_least(0, row_major_features=self.row_major_features, subgraph_share=self.subgraph_share)
        shares = self.compact_shares
        if not (shares and shares[0] > 0 and shares[-1] <= 1 and list(shares) == sorted(shares)):
            raise ValueError(f"compact_shares: {shares} is not allowed, expected numbers from 0 to 1, ascending")

    def runs_sequentially(self, rows: int, width: int) -> bool:
        """Whether the seeds of a device run one after another if the widest layer of one is [rows, width]."""
        return self.sequential_floats is not None and rows * width > self.sequential_floats

    def chunk_rows(self, width: int) -> int | None:
        """Most rows of a chunk of a training step if its widest layer has so many features."""
        return None if self.chunk_floats is None else max(1, self.chunk_floats // width)

    def cached_rows(self, rows: int, width: int) -> int:
        """`rows`, or fewer if a layer of this width would exceed `sequential_floats`."""
        return rows if self.sequential_floats is None else min(rows, self.sequential_floats // width)


_CPU = CostModel()

# Not measured. GPUs and TPUs have no small cache that limits vectorised seeds, and need far more rows at once to be
# busy: 16,384 rows of 512 features and ten seeds take 0.3 GB per layer. Products of dense blocks run on matrix units,
# while a gathered row waits for memory, and an edge of a COO list for others that add to the same row.
_GPU = CostModel(
    sequential_floats=None,
    chunk_floats=None,
    evaluation_rows=16_384,
    compact=False,
    dense_work=16,  # 64 features: 128 operations of 60 T/s for each row of a block, 256 bytes of 3 TB/s, often cached
    outer_sum_rows=8,
    row_major_features=0,  # matrix products choose their own layouts
    leave_one_out_rows=32_768,
    leave_one_out_nodes=4096,
    subgraph_nodes=500,  # smaller graphs do not fill the device, so that copies cost no more
    subgraph_rows=32_768,
    subgraph_count=512,
    subgraph_edges=12_288,
)
_TPU = replace(
    _GPU,
    dense_work=64,  # gathers and scatters run row by row, products by squares of 128 x 128
    listed_work=16,
    outer_sum_rows=16,
)
COST_MODELS: Mapping[str, CostModel] = types.MappingProxyType({"cpu": _CPU, "gpu": _GPU, "tpu": _TPU})

# Part of the key of compiled programs.
_chosen = jax.make_user_context(None)


def cost_model() -> CostModel:
    """The cost model set by `use_cost_model`, or else that of the backend (for unknown backends, that of GPUs).

    >>> cost_model() == COST_MODELS[jax.default_backend()]
    True
    """
    return _chosen.value or COST_MODELS.get(jax.default_backend(), _GPU)


@contextlib.contextmanager
def use_cost_model(model: CostModel) -> Iterator[None]:
    """Context in which this thread plans and compiles with the given cost model.

    >>> with use_cost_model(CostModel(evaluation_rows=64)):
    ...     cost_model().evaluation_rows
    64
    """
    with _chosen(model):
        yield
