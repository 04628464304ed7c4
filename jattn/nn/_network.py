"""The configured network: convolutions with poolings between them, a readout and an output map."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.typing import Dtype, PrecisionLike
from jaxtyping import Array, Float, Int, PRNGKeyArray
from jraph import GraphsTuple

from jattn._options import as_int, expect_at_least, expect_one_of, set_numbers, setting
from jattn.graphs import GRAPH_ID, TERMS
from jattn.nn._attention_pooling import AttentionPooling, AttentionPoolingConfig, PoolingResult
from jattn.nn._chebyshev import Aggregation
from jattn.nn._compaction import CompactLayout, compact, gather_rows, layouts, scatter_rows, smallest_fitting
from jattn.nn._convolution import ChebyGINConv, Linear
from jattn.nn._diffpool import DiffPool, DiffPoolConfig
from jattn.nn._kernels import SEGMENT_ARGMAX
from jattn.nn._topology import HIGHEST, BlockTopology, Readout, Topology, sparse_topology

# How convolutions compute: float32 at the highest precision that a device has, or at the one that it takes for quick
# enough (TF32 on GPUs, bfloat16 products on TPUs), or in bfloat16.
Precision = Literal["highest", "default", "bfloat16"]
PRECISIONS: dict[str, dict[str, Any]] = {
    "highest": {"dtype": None, "precision": HIGHEST},
    "default": {"dtype": None, "precision": jax.lax.Precision.DEFAULT},
    "bfloat16": {"dtype": jnp.bfloat16, "precision": jax.lax.Precision.DEFAULT},
}
Done = (
    PoolingResult | Float[Array, "graphs"]
)  # what an attention pooling did, or each graph's auxiliary loss of a DiffPool


class Output(NamedTuple):
    """What a network says of a padded `GraphsTuple`.

    Attributes:
      prediction: outputs of every graph, [graphs, outputs]; logits for classification. Padding graphs have some value.
      poolings: attention and kept nodes of every attention pooling, first to last.
      auxiliary: each graph's auxiliary loss of every DiffPool, first to last.
    """

    prediction: Float[Array, "graphs outputs"]
    poolings: tuple[PoolingResult, ...]
    auxiliary: tuple[Float[Array, " graphs"], ...] = ()


class Network(nn.Module):
    """A graph network (GCN, GIN or ChebyGIN) with attention over nodes.

    `order=1` with mean aggregation is a GCN, with sum aggregation and `hidden` the GIN of the paper's code;
    `order > 1` is a ChebyNet or, with sum aggregation, a ChebyGIN. `ChebyGINConv` has the formulas.

    Attributes:
      filters: output features of each convolution.
      order: Chebyshev terms of each convolution, K.
      aggregation: "mean" (symmetric normalisation) or "sum" (the same, times degrees).
      hidden: hidden units of each convolution's MLP, or None for one linear map.
      readout: "sum", "mean" or "max" over the nodes kept at the end; each 0 for an empty graph.
      outputs: outputs a graph; 1 for regression, classes for classification.
      poolings: for each convolution the pooling before it, or None; shorter than `filters` where the rest have none.
        After a `DiffPool` all nodes are clusters, so no attention pooling may follow.
      dropout: rate of dropout before the output map.
      compact: after a pooling, compute the rows of kept nodes alone where the topology has blocks: the same result,
        quicker where convolutions are wide. Not under `vmap`, where all sizes of which one is chosen are run.
      dtype, param_dtype, precision: those of convolutions, as `ChebyGINConv` has them. Scorers, softmax, DiffPool,
        readout and output map compute in float32 at the highest precision, whatever these say. `save_network` leaves
        them out.
    """

    filters: tuple[int, ...] = (64, 64)
    order: int = 2
    aggregation: Aggregation = "mean"
    hidden: int | None = None
    readout: Readout = "sum"
    outputs: int = 1
    poolings: tuple[AttentionPoolingConfig | DiffPoolConfig | None, ...] = ()
    dropout: float = 0.0
    compact: bool = setting(False, "nothing")
    dtype: Dtype | None = None
    param_dtype: Dtype = jnp.float32
    precision: PrecisionLike = HIGHEST

    def __post_init__(self) -> None:
        self.filters = tuple(as_int(f"filters[{i}]", width) for i, width in enumerate(self.filters))
        self.poolings = tuple(self.poolings)
        set_numbers(self, ints=("order", "outputs"), floats=("dropout",), optional_ints=("hidden",), bools=("compact",))
        expect_one_of("aggregation", self.aggregation, Aggregation)
        expect_one_of("readout", self.readout, Readout)
        if min(self.filters, default=0) < 1:
            raise ValueError(f"filters: {self.filters} is not allowed, expected one positive number a convolution")
        expect_at_least(1, order=self.order, outputs=self.outputs, hidden=self.hidden)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: {self.dropout} is not allowed, expected 0 or more and less than 1")
        self._check_poolings()
        super().__post_init__()

    def _check_poolings(self) -> None:
        if len(self.poolings) > len(self.filters):
            raise ValueError(f"poolings: {len(self.poolings)} entries for {len(self.filters)} convolutions")
        first, clustered = next(iter(self.poolings), None), False
        if isinstance(first, AttentionPoolingConfig) and first.score_from == "previous":
            raise ValueError(
                "poolings: nothing entered a convolution before the first one; let its pooling read 'current'"
            )
        for i, pooling in enumerate(self.poolings):
            if not isinstance(pooling, AttentionPoolingConfig | DiffPoolConfig | None):
                expected = "AttentionPooling(rule), DiffPool(clusters) or None"
                raise ValueError(f"poolings[{i}]: {pooling!r} is no pooling, expected {expected}")
            if clustered and isinstance(pooling, AttentionPoolingConfig):
                raise ValueError(f"poolings[{i}]: after DiffPool nodes are clusters; attention has to be before it")
            clustered = clustered or isinstance(pooling, DiffPoolConfig)
        if clustered and self.compact:
            raise ValueError("compact: with DiffPool there are no dropped rows to leave out; expected False")

    @nn.compact
    def __call__(self, graph: GraphsTuple, topology: Topology | None = None, *, train: bool = False) -> Output:
        """Runs the network.

        Args:
          graph: a padded `GraphsTuple`, as from `pad`: its last graph that has nodes counts as padding. Without padding
            a real graph would be lost; that is refused, but inside jit it can't be seen. It has `nodes["features"]`
            [nodes, features] and, for ground-truth pooling, `nodes["attention"]` [nodes].
          topology: its topology, perhaps with nodes dropped; `edges(graph)` where not given.
          train: whether to drop out, which needs `rngs={"dropout": key}`; what a graph loses follows from the key and
            its place in the batch, in `make_train` its place in the split.

        Raises:
          ValueError: the graph is not padded.
        """
        topology = sparse_topology(graph) if topology is None else topology
        x = topology.mask_nodes(graph.nodes["features"].astype(jnp.float32))
        z, done = self._pool(0, x, x, graph.nodes.get("attention"), topology, graph.nodes.get(TERMS))
        if self.dropout and train:
            ids = graph.globals[GRAPH_ID] if GRAPH_ID in (graph.globals or {}) else jnp.arange(len(z))
            z = _drop_out(z, self.dropout, self.make_rng("dropout"), ids)
        poolings = tuple(of for of in done if isinstance(of, PoolingResult))
        auxiliary = tuple(of for of in done if not isinstance(of, PoolingResult))
        return Output(self.output_map()(z), poolings, auxiliary)

    @nn.nowrap
    def convolution(self, i: int) -> ChebyGINConv:
        """Convolution `i`, whose parameters are those of the network called `conv_i`."""
        shape = self.filters[i], self.order, self.aggregation, self.hidden
        return ChebyGINConv(*shape, self.dtype, self.param_dtype, self.precision, name=f"conv_{i}")

    @nn.nowrap
    def output_map(self) -> Linear:
        """The map from a graph's features to its outputs, whose parameters are those called `output`."""
        return Linear(self.outputs, precision=HIGHEST, name="output")

    @nn.nowrap
    def at(self, precision: Precision) -> "Network":
        """The same network with other `dtype` and `precision`."""
        return self.clone(**PRECISIONS[precision])

    def _pool(
        self,
        i: int,
        x: Array,
        previous: Array,
        target: Array | None,
        topology: Topology,
        terms: Array | None = None,
    ) -> tuple[Float[Array, "graphs features"], tuple[Done, ...]]:
        """The network from the pooling before convolution `i` on: the readout, and what its poolings do."""
        pooling = self.poolings[i] if i < len(self.poolings) else None
        if pooling is None:
            return self._convolve(i, x, target, topology, terms)
        if isinstance(pooling, DiffPoolConfig):
            cluster_pool = DiffPool(pooling, self.order, self.aggregation, self.hidden, name=f"pool_{i}")
            x, topology, auxiliary = cluster_pool(x, topology)
            z, later = self._convolve(i, x, None, topology)
            return z, (auxiliary, *later)
        scored = x if pooling.score_from == "current" else previous
        pool = AttentionPooling(pooling, self.order, self.aggregation, name=f"pool_{i}")
        x, topology, pooled = pool(x, topology, scored, target)
        if not self.compact or not isinstance(topology, BlockTopology) or self.is_initializing():
            z, later = self._convolve(i, x, target, topology)
        else:
            z, later = self._convolve_kept(i, x, target, topology)
        return z, (pooled, *later)

    def _convolve(
        self, i: int, x: Array, target: Array | None, topology: Topology, terms: Array | None = None
    ) -> tuple[Float[Array, "graphs features"], tuple[Done, ...]]:
        """The network from convolution `i` on."""
        y = self.convolution(i)(x, topology, terms)
        if i < len(self.filters) - 1:
            return self._pool(i + 1, nn.relu(y), x, target, topology)
        return topology.readout(y.astype(jnp.promote_types(y.dtype, jnp.float32)), self.readout), ()

    def _convolve_kept(
        self, i: int, x: Array, target: Array | None, topology: BlockTopology
    ) -> tuple[Float[Array, "graphs features"], tuple[Done, ...]]:
        """`_convolve` on the rows of kept nodes."""

        def in_layout(layout: CompactLayout) -> Callable[..., Any]:
            def convolve(network: Network, x: Array, target: Array | None, topology: BlockTopology) -> Any:
                reduced, places = compact(topology, layout)
                target = None if target is None else gather_rows(target, places)
                z, poolings = network._convolve(i, gather_rows(x, places), target, reduced)
                return z, jax.tree.map(lambda of_row: scatter_rows(of_row, places), poolings)

            return convolve

        def in_place(network: Network, x: Array, target: Array | None, topology: BlockTopology) -> Any:
            return network._convolve(i, x, target, topology)

        options = layouts(topology)
        branches = [
            nn.remat(branch, prevent_cse=False, policy=jax.checkpoint_policies.save_only_these_names(SEGMENT_ARGMAX))
            for branch in [*map(in_layout, options), in_place]
        ]
        return nn.switch(smallest_fitting(topology, options), branches, self, x, target, topology)


def _drop_out(
    z: Float[Array, "graphs features"], rate: float, key: PRNGKeyArray, ids: Int[Array, " graphs"]
) -> Float[Array, "graphs features"]:
    """Dropout of a graph's features by its id alone, so that neither batch mates nor devices that share them matter."""
    # 16 bits a feature, drawn as 32 for two: `bernoulli`, which draws 32 for each, takes twice as long.
    pairs = -(-z.shape[1] // 2)
    words = jax.vmap(lambda i: jax.random.bits(jax.random.fold_in(key, i), (pairs,), jnp.uint32))(ids)
    drawn = jax.lax.bitcast_convert_type(words, jnp.uint16).reshape(len(z), -1)[:, : z.shape[1]]
    return jnp.where(drawn >= round(rate * 2**16), z / (1 - rate), 0)
