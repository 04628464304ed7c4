"""The ChebyGIN convolution and the linear maps in it."""

import math
from typing import Any, cast

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen.dtypes import promote_dtype
from flax.typing import Dtype, PrecisionLike
from jaxtyping import Array, Float, PRNGKeyArray

from jattn._choices import Aggregation
from jattn.nn._chebyshev import chebyshev_filter
from jattn.nn._topology import Topology


def linear_init(key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any = jnp.float32) -> Float[Array, "*in out"]:
    """Weights from uniform(-1/sqrt(in), 1/sqrt(in)); all axes but the last are inputs. This is PyTorch's default.

    `variance_scaling(1 / 3, "fan_in", "uniform")` has the same distribution, but other bits.
    """
    bound = math.prod(shape[:-1]) ** -0.5
    return jax.random.uniform(key, shape, dtype, -bound, bound)


def linear(
    features: int, inputs: int, kernel_init: nn.initializers.Initializer = linear_init, **numbers: Any
) -> nn.Dense:
    """A linear map whose weights and biases start from uniform(-1/sqrt(in), 1/sqrt(in)).

    Args:
      features: output features.
      inputs: input features, which set the scale of the biases.
      kernel_init: initializer of the weights, [in, out].
      **numbers: `dtype`, `param_dtype`, `precision` and `name` of `flax.linen.Dense`.
    """
    return nn.Dense(features, kernel_init=kernel_init, bias_init=_bias_init(inputs), **numbers)


def _bias_init(inputs: int) -> nn.initializers.Initializer:
    bound = inputs**-0.5
    init = nn.initializers.uniform(2 * bound)
    return lambda key, shape, dtype=jnp.float32: init(key, shape, dtype) - jnp.asarray(bound, dtype)


class ChebyshevFilter(nn.Module):
    """A linear map of the Chebyshev terms of features, initialized like `linear`; its kernel is [in, order, out].

    Attributes:
      features: output features.
      order: number of terms, K >= 1.
      aggregation: "mean", or "sum", which multiplies every term but T_0 x by the node's degree.
      dtype, param_dtype, precision: as those of `flax.linen.Dense`.
    """

    features: int
    order: int
    aggregation: Aggregation
    dtype: Dtype | None = None
    param_dtype: Dtype = jnp.float32
    precision: PrecisionLike = None

    @nn.compact
    def __call__(
        self, x: Float[Array, "nodes in"], topology: Topology, terms: Float[Array, "nodes terms"] | None = None
    ) -> Float[Array, "nodes out"]:
        """The filtered features; rows that are 0 because they are dropped stay 0. Uses the `terms` of x if given."""
        inputs = x.shape[-1], self.order
        kernel = self.param("kernel", linear_init, (*inputs, self.features), self.param_dtype)
        bias = self.param("bias", _bias_init(math.prod(inputs)), (self.features,), self.param_dtype)
        x, kernel, bias, terms = promote_dtype(x, kernel, bias, terms, dtype=self.dtype)
        return chebyshev_filter(x, kernel, bias, topology, self.aggregation, terms, self.precision)


class MaskedLinear(nn.Module):
    """A linear map of the rows of kept nodes, initialized like `linear`; other rows, where x has to be 0, are 0.

    Attributes:
      features: output features.
      dtype, param_dtype, precision: as those of `flax.linen.Dense`.
    """

    features: int
    dtype: Dtype | None = None
    param_dtype: Dtype = jnp.float32
    precision: PrecisionLike = None

    @nn.compact
    def __call__(self, x: Float[Array, "nodes in"], topology: Topology) -> Float[Array, "nodes out"]:
        """The map of every kept node."""
        inputs = x.shape[-1]
        kernel = self.param("kernel", linear_init, (inputs, self.features), self.param_dtype)
        bias = self.param("bias", _bias_init(inputs), (self.features,), self.param_dtype)
        x, kernel, bias = promote_dtype(x, kernel, bias, dtype=self.dtype)
        return topology.masked_linear(x, jnp.concatenate([kernel, bias[None]]), self.precision)


class ChebyGINConv(nn.Module):
    r"""Chebyshev convolution with mean or sum aggregation (ChebyGIN).

    .. math:: Y = f([T_0 X, \dots, T_{K-1} X])

    with the terms of `chebyshev_terms`. f is a linear map, or an MLP with one hidden ReLU layer if `hidden` is given.
    Knyazev et al. 2019, section 2.3; Defferrard et al. 2016, eq. 4.

    As in the paper's code, "mean" is the symmetric normalization D^-1/2 A D^-1/2, not a mean over neighbors, and "sum"
    also multiplies every term but T_0 X by the degrees D. With `order=1` and D' the degrees of A + I, the one term is
    that of GCN, D'^-1/2 (A + I) D'^-1/2 X ("mean"), or D'^1/2 (A + I) D'^-1/2 X ("sum"). The latter stands for GIN. It
    is not the plain sum (A + I) X of Xu et al. 2019, eq. 4.1, except between nodes of equal degree.

    Attributes:
      features: output features.
      order: number of Chebyshev terms, K >= 1.
      aggregation: "mean" or "sum", as above.
      hidden: units of the hidden layer of f. None: f is a linear map.
      dtype: dtype of the computation, terms and result included. None: the common dtype of features and weights.
      param_dtype: dtype of the weights.
      precision: precision of products, as in `jnp.matmul`.
    """

    features: int
    order: int
    aggregation: Aggregation = "mean"
    hidden: int | None = None
    dtype: Dtype | None = None
    param_dtype: Dtype = jnp.float32
    precision: PrecisionLike = None

    @nn.compact
    def __call__(
        self, x: Float[Array, "nodes in"], topology: Topology, terms: Float[Array, "nodes terms"] | None = None
    ) -> Float[Array, "nodes out"]:
        """The convolved features before the activation; dropped rows that are 0 in x are 0.

        Args:
          x: the features. Rows of dropped nodes have to be finite, and do not affect other rows.
          topology: the graphs.
          terms: the Chebyshev terms of x side by side, [nodes, order * in], if they are known.
        """
        numbers: Any = {"dtype": self.dtype, "param_dtype": self.param_dtype, "precision": self.precision}

        def first(features: int, name: str) -> Array:
            layer = ChebyshevFilter(features, self.order, self.aggregation, **numbers, name=name)
            return cast(Array, layer(x, topology, terms))

        if self.hidden is None:
            return first(self.features, "linear")
        second = MaskedLinear(self.features, **numbers, name="linear")
        return cast(Array, second(nn.relu(first(self.hidden, "hidden_layer")), topology))
