"""Matrix products with derivatives that are quick on CPUs; elsewhere they are what differentiating gives."""

import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

LARGEST = "largest"


@jax.custom_vjp
def linear_map(x: Float[Array, "rows in"], kernel: Float[Array, "in out"]) -> Float[Array, "rows out"]:
    """The product x W. Its VJP transposes x beforehand: XLA takes twice as long for a transposed left side."""
    return x @ kernel


def _linear_map_forward(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return linear_map(x, kernel), (x, kernel)


def _linear_map_backward(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    x, kernel = saved
    return cotangent @ kernel.T, jax.lax.optimization_barrier(x.T) @ cotangent


linear_map.defvjp(_linear_map_forward, _linear_map_backward)


@jax.custom_vjp
def symmetric_product(
    adjacency: Float[Array, "blocks block block"], x: Float[Array, "blocks block features"]
) -> Float[Array, "blocks block features"]:
    """The product A x for blocks of A = A^T. Its VJP multiplies by A, which takes a third of the time that A^T does."""
    return jnp.einsum("bij,bjf->bif", adjacency, x)


def _symmetric_product_forward(adjacency: Array, x: Array) -> tuple[Array, tuple[Array, Array]]:
    return symmetric_product(adjacency, x), (adjacency, x)


def _symmetric_product_backward(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    adjacency, x = saved
    return jnp.einsum("bif,bjf->bij", cotangent, x), symmetric_product(adjacency, cotangent)


symmetric_product.defvjp(_symmetric_product_forward, _symmetric_product_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def segment_max(
    x: Float[Array, "rows features"], segment: Int[Array, "rows"], segments: int
) -> Float[Array, "segments features"]:
    """The larger of 0 and the maximum over the rows of each segment; segments ascend.

    Its VJP needs no more than which row is largest (of equal ones the first), which `jax.checkpoint` may save by the
    name `LARGEST` in place of x.
    """
    return jnp.maximum(jax.ops.segment_max(x, segment, segments, indices_are_sorted=True), 0)


def _segment_max_forward(x: Array, segment: Array, segments: int) -> tuple[Array, tuple[Array, Array]]:
    largest = segment_max(x, segment, segments)
    is_largest = (x == largest[segment]) & (x > 0)
    row = jnp.where(is_largest, jnp.arange(len(x), dtype=jnp.int32)[:, None], len(x))
    first = jax.ops.segment_min(row, segment, segments, indices_are_sorted=True)
    return largest, (checkpoint_name(first, LARGEST), segment)


def _segment_max_backward(segments: int, saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, None]:
    first, segment = saved
    is_first = jnp.arange(len(segment))[:, None] == first[segment]
    return jnp.where(is_first, cotangent[segment], 0), None


segment_max.defvjp(_segment_max_forward, _segment_max_backward)
