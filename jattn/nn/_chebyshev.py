r"""Chebyshev polynomials of the graph Laplacian: filters of node features.

With L = -D^{-1/2} A D^{-1/2}, the Laplacian rescaled by its largest eigenvalue 2 (Defferrard et al. 2016, section 2.1),

.. math:: T_0 x = x, \quad T_1 x = L x, \quad T_k x = 2 L T_{k-1} x - T_{k-2} x.

`chebyshev_filter` computes sum_k T_k x W_k in the order that multiplies fewer features by L.
"""

import jax.numpy as jnp
from flax.typing import PrecisionLike
from jaxtyping import Array, Float

from jattn._choices import Aggregation
from jattn._options import expect_at_least, expect_one_of
from jattn.nn._topology import HIGHEST, Topology


def chebyshev_terms(
    x: Float[Array, "nodes features"],
    topology: Topology,
    order: int,
    aggregation: Aggregation = "mean",
    precision: PrecisionLike = HIGHEST,
) -> list[Float[Array, "nodes features"]]:
    """The terms T_0 x, ..., T_{order-1} x over the kept nodes; x has to be 0 in dropped rows.

    Order 1 has one term, D'^{-1/2} (A + I) D'^{-1/2} x, with the degrees D' of A + I (Kipf and Welling 2017, eq. 2).

    Args:
      x: the features, in whose dtype terms are computed.
      topology: the graphs.
      order: number of terms, at least 1.
      aggregation: "mean", or "sum", which multiplies every term but T_0 x by the node's degree (order 1: by the degree
        of A + I).
      precision: precision of products, as in `jnp.matmul`.

    Raises:
      ValueError: the aggregation is not known, or `order` is less than 1.

    >>> import jax, jattn
    >>> edge = jax.device_put(jattn.pad(jattn.from_arrays([[1.0], [3.0]], senders=[0, 1], receivers=[1, 0])))
    >>> terms = chebyshev_terms(edge.nodes["features"], jattn.sparse_topology(edge), order=2)
    >>> [term[:2, 0].round(3).tolist() for term in terms]  # x, and L x = -D^{-1/2} A D^{-1/2} x
    [[1.0, 3.0], [-3.0, -1.0]]
    """
    expect_one_of("aggregation", aggregation, Aggregation)
    expect_at_least(1, order=order)
    if order == 1:
        terms = [topology.normalized(self_loops=True, dtype=x.dtype, precision=precision)(x)]
        return [(topology.degrees + 1)[:, None].astype(x.dtype) * terms[0]] if aggregation == "sum" else terms
    multiply = topology.normalized(dtype=x.dtype, precision=precision)
    terms = [x, -multiply(x)]
    for _ in range(2, order):
        terms.append(-2 * multiply(terms[-1]) - terms[-2])
    if aggregation == "sum":
        terms[1:] = [topology.degrees[:, None].astype(x.dtype) * term for term in terms[1:]]
    return terms


def chebyshev_filter(
    x: Float[Array, "nodes in"],
    kernel: Float[Array, "in order out"],
    bias: Float[Array, " out"],
    topology: Topology,
    aggregation: Aggregation = "mean",
    terms: Float[Array, "nodes terms"] | None = None,
    precision: PrecisionLike = HIGHEST,
) -> Float[Array, "nodes out"]:
    r"""The bias plus the sum over k of T_k x W_k, where W_k is `kernel[:, k]`; 0 for dropped nodes.

    Wide features are mapped first, z_k = x W_k, and summed by Clenshaw's recurrence

    .. math:: b_k = z_k + 2 L b_{k+1} - b_{k+2}, \quad \sum_k T_k z_k = z_0 + L b_1 - b_2,

    which gives the same sum and concatenates no terms. Not with `topology.few_gradients`: its VJP would spread the
    gradient of few rows to their neighbors before the product. `terms` are T_0 x to T_{order-1} x side by side, if they
    are known. The other arguments are those of `chebyshev_terms`.
    """
    expect_one_of("aggregation", aggregation, Aggregation)
    width, order, features = kernel.shape
    if terms is not None or order == 1 or width < features or topology.few_gradients:
        columns = chebyshev_terms(x, topology, order, aggregation, precision) if terms is None else [terms]
        # Not a transposed kernel: parts are copied row by row, and so is their gradient, in a fifth of the time.
        of_terms = [weights.reshape(width, features) for weights in jnp.split(kernel, order, axis=1)]
        weights = jnp.concatenate([*of_terms, bias[None]])
        return topology.masked_linear(jnp.concatenate(columns, axis=1), weights, precision)
    multiply = topology.normalized(dtype=x.dtype, precision=precision)
    weights = jnp.concatenate([kernel.reshape(width, -1), jnp.pad(bias, (0, (order - 1) * features))[None]])
    z = jnp.split(topology.masked_linear(x, weights, precision), order, axis=1)
    b, b_next = z[-1], None  # b_{k+1} and b_{k+2}, which starts as 0
    for k in range(order - 2, 0, -1):
        b_k = z[k] - 2 * multiply(b)
        b, b_next = (b_k if b_next is None else b_k - b_next), b
    rest = -multiply(b) if b_next is None else -multiply(b) - b_next
    if aggregation == "sum":
        rest = topology.degrees[:, None].astype(rest.dtype) * rest
    return z[0] + rest
