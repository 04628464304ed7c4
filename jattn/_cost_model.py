"""What is quick on a kind of device: the numbers by which batches, blocks and loops are chosen, one set a backend.

No result depends on them, rounding aside. `use_cost_model` puts another in place of the backend's:

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
    """What work costs on a kind of device, and how much of it to do at once.

    Rows are nodes of a batch, padding included. The defaults were measured on CPU cores.

    Attributes:
      sequential_floats: a device's seeds run one after another, and not side by side, where a seed's widest layer has
        more numbers, and on chunks of subgraphs; a core's cache holds so many. None never makes seeds wait.
      evaluation_rows: rows of a batch where no gradient is taken.
      precomputed_floats: numbers of the first layer's Chebyshev terms of a split, and of what making them takes, up to
        which they are computed once for all epochs; bounds memory.
      compact_wide_layers: whether layers of 256 features train quicker on the rows of kept nodes alone, which needs
        seeds to run one after another (`Network.compact`), where an experiment may choose.
      row_work: rows of a dense block that a row is multiplied by in the time of its linear maps; weighs padding against
        the size of blocks.
      block_limit: rows of a dense block, unless a graph needs more.
      dense_work: rows of a dense block that a row is multiplied by in the time in which a sparse product adds an edge;
        decides whether A is dense or sparse.
      listed_work: time of an edge in a sparse matrix's list, in edges of its table; decides the table's width.
      outer_sum_rows: rows for each node up to which graphs are laid out apart for a batched product, in place of a sum
        over each node's outer product.
      row_major_features: features up to which a product with dense blocks is computed as (x^T A)^T.
      compact_shares: shares of all rows that layouts of kept nodes have room for, ascending.
      compact_rows: rows of a dense block of kept nodes: small ones waste rows where nodes are kept unevenly, large ones
        multiply by many zeros.
      leave_one_out_rows: rows that leave-one-out predicts together: copies of a batch times its rows.
      leave_one_out_nodes: nodes of such a batch, whose graphs should be alike in size.
      progress_batches: batches of leave-one-out between two reports of progress.
      subgraph_nodes: nodes of a sparse graph from which leave-one-out may compute k-hop subgraphs in place of copies.
      subgraph_degree: edges of a node, at most, in such a graph.
      subgraph_share: share of the graph that its subgraphs may have on average.
      subgraph_rows: rows of a chunk of subgraphs; bounds memory.
      subgraph_count: subgraphs of a chunk.
      subgraph_edges: edges of a chunk that its table has no room for.
      subgraph_chunks: chunks that a device computes in one call.
      search_sources: nodes whose surroundings the host searches at once, a bit each.
    """

    sequential_floats: int | None = 160_000
    evaluation_rows: int = 1024
    precomputed_floats: int = 100_000_000
    compact_wide_layers: bool = True

    row_work: int = 96
    block_limit: int = 128
    dense_work: int = 4
    listed_work: int = 6
    outer_sum_rows: int = 4
    row_major_features: int = 8
    compact_shares: tuple[float, ...] = (0.16, 0.33, 0.5, 0.62)
    compact_rows: int = 160

    leave_one_out_rows: int = 1024
    leave_one_out_nodes: int = 500
    progress_batches: int = 100
    subgraph_nodes: int = 200
    subgraph_degree: int = 32
    subgraph_share: float = 0.75
    subgraph_rows: int = 8192
    subgraph_count: int = 128
    subgraph_edges: int = 3072
    subgraph_chunks: int = 4
    search_sources: int = 512

    def __post_init__(self) -> None:
        others = ("compact_wide_layers", "compact_shares", "row_major_features", "subgraph_share")
        expect_at_least(1, **{name: value for name, value in vars(self).items() if name not in others})
        expect_at_least(0, row_major_features=self.row_major_features, subgraph_share=self.subgraph_share)
        shares = self.compact_shares
        if not (shares and shares[0] > 0 and shares[-1] <= 1 and list(shares) == sorted(shares)):
            raise ValueError(f"compact_shares: {shares} is not allowed, expected numbers from 0 to 1, ascending")

    def runs_sequentially(self, rows: int, width: int) -> bool:
        """Whether a device's seeds run one after another, where one's widest layer is [rows, width]."""
        return self.sequential_floats is not None and rows * width > self.sequential_floats

    def cached_rows(self, rows: int, width: int) -> int:
        """`rows`, or fewer where a layer so wide has to stay within `sequential_floats`."""
        return rows if self.sequential_floats is None else min(rows, self.sequential_floats // width)


_CPU = CostModel()

# Never measured. Both have no cache that seeds side by side would spoil, and need far more rows at once to be busy:
# 16,384 rows of 512 features and ten seeds are 0.3 GB a layer. A product of dense blocks goes through matrix units,
# while a gathered row waits for memory, and an edge in a list for others that add to the same row.
_GPU = CostModel(
    sequential_floats=None,
    evaluation_rows=16_384,
    compact_wide_layers=False,
    dense_work=16,  # 64 features: 128 operations of 60 T/s for each row of a block, 256 bytes of 3 TB/s, often cached
    outer_sum_rows=8,
    row_major_features=0,  # its matrix products choose layouts themselves
    leave_one_out_rows=32_768,
    leave_one_out_nodes=4096,
    subgraph_nodes=500,  # smaller graphs do not fill it, so that copies cost no more
    subgraph_rows=32_768,
    subgraph_count=512,
    subgraph_edges=12_288,
)
_TPU = replace(
    _GPU,
    dense_work=64,  # gathers and scatters go row by row there, products by squares of 128 x 128
    listed_work=16,
    outer_sum_rows=16,
)
COST_MODELS: Mapping[str, CostModel] = types.MappingProxyType({"cpu": _CPU, "gpu": _GPU, "tpu": _TPU})

# Part of the key of what jit has compiled.
_chosen = jax.make_user_context(None)


def cost_model() -> CostModel:
    """The cost model that `use_cost_model` chose, or that of the backend; of one that has none, that of GPUs."""
    return _chosen.value or COST_MODELS.get(jax.default_backend(), _GPU)


@contextlib.contextmanager
def use_cost_model(model: CostModel) -> Iterator[None]:
    """Within, all that this thread plans and compiles goes by `model`."""
    with _chosen(model):
        yield
