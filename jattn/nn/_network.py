"""The network: convolutions, with poolings before some of them, a readout and an output map."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.typing import Dtype, PrecisionLike
from jaxtyping import Array, Float, Int, PRNGKeyArray
from jraph import GraphsTuple

from jattn._choices import Aggregation, Precision, Readout, check_layers, expect_one_each
from jattn._cost_model import cost_model
from jattn._options import expect_at_least, set_numbers
from jattn.graphs import GRAPH_ID, TERMS
from jattn.nn._attention_pooling import AttentionPooling, AttentionPoolingConfig, PoolingResult
from jattn.nn._compaction import (
    CompactLayout,
    compact_rows,
    gather_rows,
    layouts,
    scatter_rows,
    smallest_fitting,
)
from jattn.nn._convolution import ChebyGINConv, linear
from jattn.nn._diffpool import DiffPool, DiffPoolConfig
from jattn.nn._kernels import SEGMENT_ARGMAX, RowMap
from jattn.nn._topology import HIGHEST, BlockTopology, Topology, scalars_allowed, sparse_topology
from jattn.types import AnyArray, Params

PRECISIONS: dict[str, dict[str, Any]] = {
    "highest": {"dtype": None, "precision": HIGHEST},
    "default": {"dtype": None, "precision": jax.lax.Precision.DEFAULT},
    "bfloat16": {"dtype": jnp.bfloat16, "precision": jax.lax.Precision.DEFAULT},
}


class Output(NamedTuple):
    """The outputs of a network for a padded `GraphsTuple`.

    Attributes:
      prediction: outputs of every graph, [graphs, outputs]; logits for classification. Rows of padding have no meaning.
      poolings: attention and masks of every attention pooling, first to last.
      auxiliary: auxiliary loss of each graph for every DiffPool, first to last, [graphs] each.
    """

    prediction: Float[Array, "graphs outputs"]
    poolings: tuple[PoolingResult, ...]
    auxiliary: tuple[Float[Array, " graphs"], ...] = ()


class Nodes(NamedTuple):
    """What enters a layer.

    Attributes:
      x: features of every node, 0 in dropped rows once they are weighted, [nodes, features].
      previous: those that entered the layer before, [nodes, features].
      target: target attention, [nodes]; None where there is none, or where nodes are clusters.
      topology: which nodes share a graph or an edge, and which are dropped.
      weight: attention that has yet to multiply x, [nodes]; None if there is none.
    """

    x: Float[Array, "nodes features"]
    previous: Float[Array, "nodes previous_features"]
    target: Float[Array, " nodes"] | None
    topology: Topology
    weight: Float[Array, " nodes"] | None = None

    def weighted(self) -> "Nodes":
        """The same nodes after that product."""
        return self if self.weight is None else self._replace(x=self.weight[:, None] * self.x, weight=None)


class Network(nn.Module):
    """A graph network (GCN, GIN, ChebyNet or ChebyGIN) with attention over nodes.

    `order=1` with mean aggregation is a GCN; with sum aggregation and `hidden` it is the GIN of the paper's code.
    `order > 1` is a ChebyNet, or with sum aggregation a ChebyGIN. `ChebyGINConv` has the formulas.

    Attributes:
      filters: output features of each convolution.
      order: number of Chebyshev terms of each convolution, K.
      aggregation: "mean" (symmetric normalization) or "sum" (the same, times degrees).
      hidden: hidden units of the MLP of each convolution. None: one linear map.
      readout: "sum", "mean" or "max" over the nodes kept at the end, which are 0 for an empty graph, or "log_sum",
        log2((1 + sum) / (1 + typical_nodes)): it keeps the size, as a sum does, but grows by only 1 when it doubles.
      typical_nodes: number of nodes about which "log_sum" is 0, such as those of a graph of the training split. Without
        it every feature has the same large offset, from which training hardly tells the bias.
      outputs: outputs of a graph: 1 for regression, the number of classes for classification.
      poolings: the pooling before each convolution, or None; may be shorter than `filters`. After a DiffPool all nodes
        are clusters, so no attention pooling may follow.
      dropout: rate of dropout before the output map.
      dtype, param_dtype, precision: those of convolutions, as in `ChebyGINConv`. Scorers, softmax, DiffPool, readout
        and output map always compute in float32 at the highest precision. `save_network` leaves these fields out.

    >>> import jattn
    >>> pooling = jattn.AttentionPoolingConfig(jattn.Threshold(0.05), jattn.ScorerConfig("linear"), "previous")
    >>> network = jattn.Network(filters=(64, 64), outputs=3, poolings=(None, pooling))
    >>> graph = jax.device_put(jattn.pad(jattn.from_arrays([[1.0], [2.0]], senders=[0, 1], receivers=[1, 0])))
    >>> variables = network.init(jax.random.key(0), graph)
    >>> network.apply(variables, graph).prediction.shape  # the second graph is padding
    (2, 3)
    """

    filters: tuple[int, ...] = (64, 64)
    order: int = 2
    aggregation: Aggregation = "mean"
    hidden: int | None = None
    readout: Readout = "sum"
    typical_nodes: float = 100.0
    outputs: int = 1
    poolings: tuple[AttentionPoolingConfig | DiffPoolConfig | None, ...] = ()
    dropout: float = 0.0
    dtype: Dtype | None = None
    param_dtype: Dtype = jnp.float32
    precision: PrecisionLike = HIGHEST

    def __post_init__(self) -> None:
        expect_one_each("poolings", self.poolings)
        self.poolings = tuple(self.poolings)
        check_layers(self)
        set_numbers(self, ints=("outputs",))
        expect_at_least(1, outputs=self.outputs)
        self._check_poolings()
        super().__post_init__()

    def _check_poolings(self) -> None:
        if len(self.poolings) > len(self.filters):
            raise ValueError(f"poolings: {len(self.poolings)} entries for {len(self.filters)} convolutions")
        first, clustered = next(iter(self.poolings), None), False
        if isinstance(first, AttentionPoolingConfig) and first.score_from == "previous":
            raise ValueError(
                "poolings: nothing entered a convolution before the first one; its pooling needs score_from='current'"
            )
        for i, pooling in enumerate(self.poolings):
            if not isinstance(pooling, AttentionPoolingConfig | DiffPoolConfig | None):
                expected = "AttentionPoolingConfig(select), DiffPoolConfig(clusters) or None"
                raise ValueError(f"poolings[{i}]: {pooling!r} is not allowed, expected {expected}")
            if clustered and isinstance(pooling, AttentionPoolingConfig):
                raise ValueError(f"poolings[{i}]: after DiffPool nodes are clusters; attention has to come before it")
            clustered = clustered or isinstance(pooling, DiffPoolConfig)

    def setup(self) -> None:
        """Makes the layers; parameters are those of `conv_i`, `pool_i` and `output`."""
        numbers: Any = {"dtype": self.dtype, "param_dtype": self.param_dtype, "precision": self.precision}
        for i, features in enumerate(self.filters):
            convolution = ChebyGINConv(features, self.order, self.aggregation, self.hidden, **numbers)
            setattr(self, f"conv_{i}", convolution)
        for i, pooling in enumerate(self.poolings):
            if isinstance(pooling, AttentionPoolingConfig):
                setattr(self, f"pool_{i}", AttentionPooling(pooling, self.order, self.aggregation))
            elif pooling is not None:
                setattr(self, f"pool_{i}", DiffPool(pooling, self.order, self.aggregation, self.hidden))
        self.output = linear(self.outputs, self.filters[-1], precision=HIGHEST)

    @scalars_allowed
    def __call__(
        self,
        graph: GraphsTuple,
        topology: Topology | None = None,
        *,
        train: bool = False,
        compact: bool = False,
        dropout: Float[AnyArray, ""] | float | None = None,
    ) -> Output:
        """Runs the network.

        Args:
          graph: a padded `GraphsTuple`, as from `pad`: its last graph that has nodes counts as padding. Without padding
            a real graph would be lost; that is refused, but inside jit it can't be seen. It has `nodes["features"]`
            [nodes, features] and, for ground-truth pooling, `nodes["attention"]` [nodes].
          topology: its topology, perhaps with nodes dropped; `sparse_topology(graph)` by default.
          train: whether to drop out, which needs `rngs={"dropout": key}`. The features dropped for a graph depend on
            the key and on its index in the batch; in `make_train` on its index in the split.
          compact: after an attention pooling, compute the rows of kept nodes alone, and before a readout "max" the
            gradient of rows alone that have one: the same result, quicker. Not under `vmap`, which would run every
            number of rows, nor in forward-mode differentiation. No effect unless `can_compact`.
          dropout: the rate of dropout, in place of the field's, if that is not 0.

        Raises:
          ValueError: the graph is not padded.
        """
        topology = sparse_topology(graph) if topology is None else topology
        x = topology.mask_nodes(jnp.asarray(graph.nodes["features"], jnp.float32))
        nodes = Nodes(x, x, graph.nodes.get("attention"), topology)
        compact = compact and self.can_compact and not self.is_initializing()
        z, results = self._layers(0, nodes, graph.nodes.get(TERMS), compact=compact)
        if self.dropout and train:
            ids = graph.globals[GRAPH_ID] if GRAPH_ID in (graph.globals or {}) else jnp.arange(len(z))
            z = _drop_out(z, self.dropout if dropout is None else dropout, self.make_rng("dropout"), ids)
        poolings = tuple(result for result in results if isinstance(result, PoolingResult))
        auxiliary = tuple(result for result in results if not isinstance(result, PoolingResult))
        return Output(self.head(z), poolings, auxiliary)

    def layer(
        self,
        i: int,
        x: Float[Array, "nodes in"],
        topology: Topology,
        terms: Float[Array, "nodes terms"] | None = None,
    ) -> Float[Array, "nodes out"]:
        """The features after convolution `i`, before the ReLU that follows every layer.

        Args:
          i: index of the convolution.
          x: the features that enter it.
          topology: the graphs.
          terms: the Chebyshev terms of x side by side, [nodes, order * in], if they are known.
        """
        return cast(Array, getattr(self, f"conv_{i}")(x, topology, terms))

    def head(self, z: Float[Array, "graphs features"]) -> Float[Array, "graphs outputs"]:
        """The outputs of graphs from their features after the readout."""
        return self.output(z)

    @nn.nowrap
    def scale_readout(self, z: Float[Array, "graphs features"]) -> Float[Array, "graphs features"]:
        """The logarithm that "log_sum" takes of a sum; other readouts as they are."""
        return jnp.log2((1 + z) / (1 + self.typical_nodes)) if self.readout == "log_sum" else z

    @property
    def can_compact(self) -> bool:
        """Whether there are rows to leave out: dropped by attention pooling, or without a gradient before a maximum."""
        kinds = {type(pooling) for pooling in self.poolings if pooling is not None}
        return kinds == {AttentionPoolingConfig} or (not kinds and self.readout == "max")

    @nn.nowrap
    def with_precision(self, precision: Precision) -> "Network":
        """The same network with other `dtype` and `precision`."""
        return self.clone(**PRECISIONS[precision])

    def _layers(
        self, start: int, nodes: Nodes, terms: Array | None = None, *, compact: bool, is_pooled: bool = False
    ) -> tuple[Float[Array, "graphs features"], tuple[PoolingResult | Array, ...]]:
        """The readout after layers `start` and up, and the results of their poolings.

        `is_pooled`: the pooling before layer `start` has run already.
        """
        results: list[PoolingResult | Array] = []
        for i in range(start, len(self.filters)):
            if not (is_pooled and i == start):
                nodes, result = self._pool(i, nodes, compact=compact)
                results += [] if result is None else [result]
                if compact and result is not None:
                    if self._has_layouts(nodes.topology):
                        z, later = self._layers_of_kept(i, nodes)
                        return z, (*results, *later)
                    nodes = nodes._replace(topology=dataclasses.replace(nodes.topology, compact=True))
            topology, is_last = nodes.topology, i == len(self.filters) - 1
            if is_last and self.readout == "max" and (topology.compact or (compact and not any(self.poolings))):
                # The gradient of a maximum reaches few rows.
                topology = dataclasses.replace(topology, compact=True, few_gradients=True)
            y = self.layer(i, nodes.x, topology, terms if i == 0 else None)
            if not is_last:
                nodes = nodes._replace(x=nn.relu(y), previous=nodes.x)
        # The last ReLU is a part of the readout, so that its gradient need not keep y.
        z = nodes.topology.readout(y.astype(jnp.promote_types(y.dtype, jnp.float32)), self.readout)
        return self.scale_readout(z), tuple(results)

    def _pool(self, i: int, nodes: Nodes, *, compact: bool) -> tuple[Nodes, PoolingResult | Array | None]:
        """The nodes after the pooling before convolution `i`, and the result of that pooling.

        Where kept nodes move to compact layouts, attention has yet to multiply them, which then takes fewer rows.
        """
        pooling = self.poolings[i] if i < len(self.poolings) else None
        if pooling is None:
            return nodes, None
        pool = getattr(self, f"pool_{i}")
        if isinstance(pooling, DiffPoolConfig):
            x, topology, auxiliary = pool(nodes.x, nodes.topology)
            return Nodes(x, x, None, topology), auxiliary
        score_features = nodes.x if pooling.score_from == "current" else nodes.previous
        if compact and self._has_layouts(nodes.topology) and type(pool) is AttentionPooling:  # others may do otherwise
            weight, topology, result = pool.weigh(nodes.topology, score_features, nodes.target)
            return nodes._replace(topology=topology, weight=weight), result
        x, topology, result = pool(nodes.x, nodes.topology, score_features, nodes.target)
        return nodes._replace(x=x, topology=topology), result

    def _has_layouts(self, topology: Topology) -> bool:
        """Whether kept nodes move to compact layouts: only for layers wide enough to be worth a program for each."""
        width = max(self.hidden or 0, *self.filters)
        return isinstance(topology, BlockTopology) and width >= cost_model().compact_features

    def _layers_of_kept(
        self, start: int, nodes: Nodes
    ) -> tuple[Float[Array, "graphs features"], tuple[PoolingResult | Array, ...]]:
        """`_layers` in the smallest compact layout that holds all kept nodes, or in all rows."""
        topology = cast(BlockTopology, nodes.topology)
        options = layouts(topology)

        def in_layout(layout: CompactLayout | None) -> Callable[..., Any]:
            def run(network: Network, nodes: Nodes) -> Any:
                if layout is None:  # None stands for all rows
                    return network._layers(start, nodes.weighted(), compact=True, is_pooled=True)
                reduced, rows = compact_rows(cast(BlockTopology, nodes.topology), layout)
                # Programs for fewer rows pay where most rows may be empty.
                reduced = dataclasses.replace(reduced, compact=layout == options[0])
                return network._layers_in(start, nodes, reduced, rows)

            # The gradient computes each branch again; otherwise memory holds every branch's saved values.
            saved = jax.checkpoint_policies.save_only_these_names(SEGMENT_ARGMAX)
            return nn.remat(run, prevent_cse=False, policy=saved)

        branches = [in_layout(layout) for layout in (*options, None)]
        return nn.switch(smallest_fitting(topology, options), branches, self, nodes)

    def _layers_in(
        self, start: int, nodes: Nodes, reduced: Topology, rows: RowMap
    ) -> tuple[Float[Array, "graphs features"], tuple[PoolingResult | Array, ...]]:
        """`_layers` on other rows of the same nodes."""
        x, target, weight = (None if x is None else gather_rows(x, rows) for x in (nodes.x, nodes.target, nodes.weight))
        kept = Nodes(cast(Array, x), cast(Array, x), target, reduced, weight).weighted()
        z, results = self._layers(start, kept, compact=True, is_pooled=True)
        return z, jax.tree.map(lambda values: scatter_rows(values, rows), results)


def _drop_out(
    z: Float[Array, "graphs features"], rate: Float[AnyArray, ""] | float, key: PRNGKeyArray, ids: Int[Array, " graphs"]
) -> Float[Array, "graphs features"]:
    """Dropout of the features of each graph by its id alone: the other graphs and the devices do not matter."""
    # One draw of 32 bits serves two features. `jax.random.bernoulli` draws 32 bits for each, which takes twice as long.
    pairs = -(-z.shape[1] // 2)
    words = jax.vmap(lambda i: jax.random.bits(jax.random.fold_in(key, i), (pairs,), jnp.uint32))(ids)
    drawn = jax.lax.bitcast_convert_type(words, jnp.uint16).reshape(len(z), -1)[:, : z.shape[1]]
    least = jnp.minimum(jnp.round(jnp.float32(rate) * 2**16), 2**16 - 1).astype(jnp.uint16)
    return jnp.where(drawn >= least, z * (1 / (1 - jnp.float32(rate))), 0)


def cluster_assignment(network: Network, params: Params, graph: GraphsTuple) -> Float[Array, "nodes clusters"]:
    """The probabilities with which a network's first DiffPool assigns each node to each cluster, S of `DiffPoolConfig`.

    Args:
      network: the architecture.
      params: its weights, without an axis of seeds.
      graph: a padded `GraphsTuple`, as for the network. Rows of padding have no meaning.

    Raises:
      ValueError: the network has no DiffPool, or the graph is not padded.

    >>> import jattn
    >>> network = jattn.Network(filters=(8,), poolings=(jattn.DiffPoolConfig(clusters=3),))
    >>> graph = jax.device_put(jattn.pad(jattn.from_arrays([[1.0], [2.0]], senders=[0, 1], receivers=[1, 0])))
    >>> params = jax.jit(network.init)(jax.random.key(0), graph)["params"]
    >>> cluster_assignment(network, params, graph)[:2].sum(axis=1).tolist()
    [1.0, 1.0]
    """
    places = [i for i, pooling in enumerate(network.poolings) if isinstance(pooling, DiffPoolConfig)]
    if not places:
        raise ValueError(f"network: its poolings are {network.poolings}, expected a DiffPoolConfig among them")
    return _assignment(network, places[0], params, graph)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _assignment(network: Network, place: int, params: Params, graph: GraphsTuple) -> Float[Array, "nodes clusters"]:
    """The assignment of the DiffPool before convolution `place`."""
    _, state = network.apply(
        {"params": params}, graph, capture_intermediates=lambda module, _: module.name == "assignment"
    )
    (scores,) = state["intermediates"][f"pool_{place}"]["assignment"]["__call__"]
    return nn.softmax(scores)
