"""Attention: how a node's score is computed from its features, and what scores should be (ground truth)."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from jattn._choices import Aggregation
from jattn._options import expect_at_least, expect_one_of, set_numbers
from jattn.nn._convolution import ChebyGINConv, linear, linear_init
from jattn.nn._topology import HIGHEST, SUM_OFFSET, Topology

Kind = Literal["linear", "mlp", "gnn", "ground_truth"]
Distribution = Literal["normal", "uniform", "default"]


@dataclass(frozen=True)
class ScorerConfig:
    """What scores nodes.

    Attributes:
      kind: "linear" (p . x, no bias; Knyazev et al. 2019, section 2.2), "mlp" (one hidden ReLU layer), "gnn" (a
        graph network of `layers` convolutions with `filters` features, the last with 1) or "ground_truth" (target
        attention itself, no weights).
      hidden: hidden units of the MLP.
      filters: features of the graph network's layers before the last.
      layers: convolutions of the graph network.
      init: distribution of the linear scorer's weights or the MLP's first ones: "normal" N(0, scale), "uniform"
        U(-scale, scale) or "default" (that of every linear map). A graph network always has the default.
      scale: standard deviation or bound of `init`.
    """

    kind: Kind = "linear"
    hidden: int = 32
    filters: int = 32
    layers: int = 3
    init: Distribution = "default"
    scale: float = 1.0

    def __post_init__(self) -> None:
        set_numbers(self, ints=("hidden", "filters", "layers"), floats=("scale",))
        expect_one_of("kind", self.kind, Kind)
        expect_one_of("init", self.init, Distribution)
        expect_at_least(1, hidden=self.hidden, filters=self.filters, layers=self.layers)
        expect_at_least(0, scale=self.scale)


class Scorer(nn.Module):
    """Scores nodes from their features, as a `ScorerConfig` says, at the highest precision.

    Attributes:
      config: the kind of scorer.
      order: Chebyshev order of the model; a scorer that is a graph network uses at most 2.
      aggregation: aggregation of the model, for a scorer that is a graph network.
    """

    config: ScorerConfig
    order: int
    aggregation: Aggregation

    @nn.compact
    def __call__(self, x: Float[Array, "nodes features"], topology: Topology) -> Float[Array, " nodes"]:
        """Unbounded scores, [nodes]; those of dropped nodes have no meaning."""
        match self.config.kind:
            case "linear":
                initializer = self._initializer()
                scores = nn.Dense(1, False, precision=HIGHEST, kernel_init=initializer, name="projection")(x)
            case "mlp":
                hidden, initializer = self.config.hidden, self._initializer()
                first = linear(hidden, x.shape[-1], initializer, precision=HIGHEST, name="hidden_layer")
                scores = linear(1, hidden, precision=HIGHEST, name="linear")(nn.relu(first(x)))
            case "gnn":
                for _ in range(self.config.layers - 1):
                    x = nn.relu(self._convolution(self.config.filters)(x, topology))
                scores = self._convolution(1)(x, topology)
            case other:
                raise ValueError(f"scorer {other!r} has no weights: expected 'linear', 'mlp' or 'gnn'")
        return scores[:, 0]

    def _convolution(self, features: int) -> ChebyGINConv:
        return ChebyGINConv(features, min(self.order, 2), self.aggregation, precision=HIGHEST)

    def _initializer(self) -> nn.initializers.Initializer:
        scale = self.config.scale
        match self.config.init:
            case "normal":
                return nn.initializers.normal(scale)
            case "uniform":
                return lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, -scale, scale)
            case _:
                return linear_init


def normalize_target(target: Float[Array, " nodes"], topology: Topology) -> Float[Array, " nodes"]:
    """Target attention divided by (its sum over the kept nodes of the graph + 1e-7); 0 for dropped nodes.

    >>> import jattn
    >>> graph = jax.device_put(jattn.pad(jattn.from_arrays([[1.0]] * 3, [], [], attention=[1, 0, 3])))
    >>> jattn.normalize_target(graph.nodes["attention"], jattn.sparse_topology(graph))[:3].round(3).tolist()
    [0.25, 0.0, 0.75]
    """
    target = topology.mask_nodes(target)
    return target / topology.broadcast_to_nodes(topology.sum(target) + SUM_OFFSET)
