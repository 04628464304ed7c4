"""The ChebyGIN convolution and its linear map."""

from typing import Literal

import jax.numpy as jnp
from flax import linen as nn
from flax.linen.initializers import variance_scaling
from jaxtyping import Array, Float

from jattn.topology import Topology

Aggregation = Literal["mean", "sum"]

# Weights of a linear map: uniform(-1/sqrt(in), 1/sqrt(in)), [in, out].
linear_init = variance_scaling(1 / 3, "fan_in", "uniform")


class Linear(nn.Module):
    """A linear map with weights and biases from uniform(-1/sqrt(in), 1/sqrt(in)).

    Attributes:
      features: output features.
      kernel_init: initialiser of the weights, [in, out].
    """

    features: int
    kernel_init: nn.initializers.Initializer = linear_init

    @nn.compact
    def __call__(self, x: Float[Array, "rows in"]) -> Float[Array, "rows out"]:
        """Maps every row."""
        bound = x.shape[-1] ** -0.5
        kernel = self.param("kernel", self.kernel_init, (x.shape[-1], self.features))
        bias = self.param(
            "bias", lambda key, shape: nn.initializers.uniform(2 * bound)(key, shape) - bound, (self.features,)
        )
        return x @ kernel + bias


class ChebyGINConv(nn.Module):
    r"""Chebyshev convolution with mean or sum aggregation (ChebyGIN).

    .. math:: Y = f([T_0 X, \dots, T_{K-1} X])

    with the terms of `Topology.chebyshev`; f is a linear map, or an MLP with one hidden ReLU layer where `hidden` is
    given. Sum aggregation multiplies every term but T_0 X by the node's degree. With `order=1` this is GCN (mean) or
    GIN (sum) over A + I. Knyazev et al. 2019, section 2.3; Defferrard et al. 2016, eq. 4.

    Attributes:
      features: output features.
      order: how many Chebyshev terms, K >= 1.
      aggregation: "mean" or "sum".
      hidden: units of f's hidden layer; a linear map where None.
    """

    features: int
    order: int
    aggregation: Aggregation = "mean"
    hidden: int | None = None

    @nn.compact
    def __call__(self, x: Float[Array, "nodes in"], topology: Topology) -> Float[Array, "nodes out"]:
        """The convolved features before the activation; rows of dropped nodes are 0."""
        terms = topology.chebyshev(x, self.order)
        if self.aggregation == "sum":
            terms = _scale_by_degree(terms, topology)
        y = terms.reshape(len(terms), -1)
        if self.hidden is not None:
            y = nn.relu(Linear(self.hidden, name="hidden_layer")(y))
        return topology.zero_dropped(Linear(self.features, name="linear")(y))


def _scale_by_degree(
    terms: Float[Array, "nodes order features"], topology: Topology
) -> Float[Array, "nodes order features"]:
    """Sum aggregation multiplies every term but T_0 by the degree (order 1: its one term, by that of A + I)."""
    if terms.shape[1] == 1:
        return terms * (topology.degrees + 1)[:, None, None]
    return jnp.concatenate([terms[:, :1], terms[:, 1:] * topology.degrees[:, None, None]], axis=1)
