"""The configured network: convolutions with attention pooling between them, a readout and an output map."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float
from jraph import GraphsTuple

from jattn.chebyshev import Aggregation
from jattn.layers import ChebyGINConv, Linear
from jattn.options import expect_one_of
from jattn.pooling import AttentionPooling, Pool, Pooled
from jattn.topology import Topology, edges

Readout = Literal["sum", "mean", "max"]


class Output(NamedTuple):
    """What a network says of a padded `GraphsTuple`.

    Attributes:
      prediction: outputs of every graph, [graphs, outputs]; logits for classification. Padding graphs have some value.
      poolings: attention and kept nodes of every pooling layer, first to last.
    """

    prediction: Float[Array, "graphs outputs"]
    poolings: tuple[Pooled, ...]


class Network(nn.Module):
    """A graph network (GCN, GIN or ChebyGIN) with attention over nodes.

    `order=1` with mean aggregation is a GCN, with sum aggregation and `hidden` a GIN; `order > 1` is a ChebyNet or,
    with sum aggregation, a ChebyGIN.

    Attributes:
      filters: output features of each convolution.
      order: Chebyshev terms of each convolution, K.
      aggregation: "mean" or "sum" over neighbours.
      hidden: hidden units of each convolution's MLP, or None for one linear map.
      readout: "sum", "mean" or "max" over the nodes kept at the end; each 0 for an empty graph.
      outputs: outputs a graph; 1 for regression, classes for classification.
      poolings: for each convolution the pooling before it, or None; shorter than `filters` where the rest have none.
      dropout: rate of dropout before the output map.
    """

    filters: tuple[int, ...] = (64, 64)
    order: int = 2
    aggregation: Aggregation = "mean"
    hidden: int | None = None
    readout: Readout = "sum"
    outputs: int = 1
    poolings: tuple[AttentionPooling | None, ...] = ()
    dropout: float = 0.0

    def __post_init__(self) -> None:
        self.filters, self.poolings = tuple(self.filters), tuple(self.poolings)
        expect_one_of("aggregation", self.aggregation, Aggregation)
        expect_one_of("readout", self.readout, Readout)
        for name, value in (("filters", min(self.filters, default=0)), ("outputs", self.outputs)):
            if value < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not allowed, expected at least one and at least 1")
        if self.order < 1:
            raise ValueError(f"order: {self.order} Chebyshev terms, expected at least 1")
        if len(self.poolings) > len(self.filters):
            raise ValueError(f"poolings: {len(self.poolings)} entries for {len(self.filters)} convolutions")
        if self.poolings and self.poolings[0] is not None and self.poolings[0].reads == "previous":
            raise ValueError(
                "poolings: nothing entered a convolution before the first one; let its pooling read 'current'"
            )
        super().__post_init__()

    @nn.compact
    def __call__(self, graph: GraphsTuple, topology: Topology | None = None, *, train: bool = False) -> Output:
        """Runs the network.

        Args:
          graph: a padded `GraphsTuple`, as from `pad`, with `nodes["features"]` [nodes, features] and, for ground-truth
            pooling, `nodes["attention"]` [nodes]. Its last graph that has nodes counts as padding, so without padding a
            real one is lost.
          topology: its topology, perhaps with nodes dropped; `edges(graph)` where not given.
          train: whether to drop out, which needs `rngs={"dropout": key}`.
        """
        topology = edges(graph) if topology is None else topology
        x = previous = topology.zero_dropped(graph.nodes["features"].astype(jnp.float32))
        poolings = []
        for i, features in enumerate(self.filters):
            pooling = self.poolings[i] if i < len(self.poolings) else None
            if pooling is not None:
                scored = x if pooling.reads == "current" else previous
                pool = Pool(pooling, self.order, self.aggregation, name=f"pool_{i}")
                x, topology, pooled = pool(x, scored, graph.nodes.get("attention"), topology)
                poolings.append(pooled)
            previous = x
            convolution = ChebyGINConv(features, self.order, self.aggregation, self.hidden, name=f"conv_{i}")
            x = nn.relu(convolution(x, topology))
        z = getattr(topology, self.readout)(x)
        if self.dropout:
            z = nn.Dropout(self.dropout, deterministic=not train)(z)
        return Output(Linear(self.outputs, name="output")(z), tuple(poolings))
