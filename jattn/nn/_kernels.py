"""Matrix products with derivatives that are quick on CPUs; elsewhere they are what differentiating gives.

Their `precision` is jax's, that of `jnp.matmul`; their derivatives have it too.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax.typing import PrecisionLike
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int, Shaped

from jattn._cost_model import cost_model

SEGMENT_ARGMAX = "segment_argmax"


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def block_product(
    adjacency: Float[Array, "blocks block block"],
    x: Float[Array, "blocks block features"],
    precision: PrecisionLike = None,
) -> Float[Array, "blocks block features"]:
    """The product A x for blocks of A = A^T. Its VJP multiplies by A, which takes a third of the time that A^T does."""
    return _blocks_times(adjacency, x, "bij,bjf->bif", "bfj,bji->bfi", precision)


@functools.partial(block_product.defjvp, symbolic_zeros=True)
def _symmetric_product_jvp(
    precision: PrecisionLike, primals: tuple[Array, Array], tangents: tuple[Any, Any]
) -> tuple[Array, Array]:
    (adjacency, x), (of_adjacency, of_x) = primals, tangents
    y = block_product(adjacency, x, precision)
    # A^T, whose transpose is A.
    by_x = by_adjacency = None
    if not _is_zero(of_x):
        by_x = _blocks_times(adjacency, of_x, "bji,bjf->bif", "bfj,bij->bfi", precision)
    if not _is_zero(of_adjacency):
        by_adjacency = jnp.einsum("bij,bjf->bif", of_adjacency, x, precision=precision)
    return y, _sum_of(y, by_x, by_adjacency)


def _blocks_times(adjacency: Array, x: Array, product: str, of_rows: str, precision: PrecisionLike) -> Array:
    """The `product` of an einsum, or `of_rows` where features are few: (x^T A)^T, whose rows are long, is quicker."""
    if x.shape[-1] > cost_model().row_major_features:
        return jnp.einsum(product, adjacency, x, precision=precision)
    transposed = jax.lax.optimization_barrier(x.swapaxes(1, 2))
    rows = jnp.einsum(of_rows, transposed, adjacency, precision=precision)  # half to a third of the time
    return jax.lax.optimization_barrier(rows).swapaxes(1, 2)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def masked_linear(
    x: Float[Array, "rows inputs"],
    kept: Bool[Array, " rows"],
    weights: Float[Array, "inputs+1 out"],
    precision: PrecisionLike = None,
) -> Float[Array, "rows out"]:
    """The map x W + b in rows that are kept, 0 in others, where x has to be 0; b is the last row of `weights`.

    The bias is the weight of one more column, 1 where a row is kept: no pass over the result to add it and to drop
    rows, none over its cotangent to sum it.
    """
    return jnp.matmul(_with_kept(x, kept), weights, precision=precision)


@functools.partial(masked_linear.defjvp, symbolic_zeros=True)
def _masked_affine_jvp(
    precision: PrecisionLike, primals: tuple[Array, Array, Array], tangents: tuple[Any, Any, Any]
) -> tuple[Array, Array]:
    (x, kept, weights), (of_x, _, of_weights) = primals, tangents
    # For the weights' gradient XLA reads these columns as they lie; where x is a product, as of attention and features,
    # it would compute it anew without them, in an order that takes ten times as long.
    columns = _with_kept(x, kept)
    matmul = functools.partial(jnp.matmul, precision=precision)
    y = matmul(columns, weights)
    # Differentiating would give the last column's gradient too, and cut it off.
    by_x = None if _is_zero(of_x) else matmul(of_x, weights[:-1])
    return y, _sum_of(y, by_x, None if _is_zero(of_weights) else matmul(columns, of_weights))


def _with_kept(x: Array, kept: Array) -> Array:
    return jnp.concatenate([x, kept[:, None].astype(x.dtype)], axis=1)


class EllCoo(NamedTuple):
    """A sparse symmetric matrix: the first entries of each row side by side, the others as a list.

    A CPU sums entries side by side several times as fast as those of a list, which it adds one after another; but where
    few rows have many entries, most of a table wide enough for all of them would be empty.

    Attributes:
      columns: of the first entries of each row, [rows, width].
      values: of the same entries, 0 where a row has fewer, [rows, width].
      list_rows: rows of the other entries, [entries].
      list_columns: their columns, [entries].
      list_values: their values, [entries].
    """

    ell_columns: Int[Array, "rows width"]
    ell_values: Float[Array, "rows width"]
    coo_rows: Int[Array, " entries"]
    coo_columns: Int[Array, " entries"]
    coo_values: Float[Array, " entries"]


@jax.custom_jvp
def ell_coo_product(adjacency: EllCoo, x: Float[Array, "rows features"]) -> Float[Array, "rows features"]:
    """The product A x for a sparse A = A^T. Its VJP multiplies by A, which gathers where A^T would scatter."""
    return _gathered(adjacency, x, adjacency.ell_values, adjacency.coo_values)


@functools.partial(ell_coo_product.defjvp, symbolic_zeros=True)
def _sparse_product_jvp(primals: tuple[EllCoo, Array], tangents: tuple[EllCoo, Any]) -> tuple[Array, Array]:
    (adjacency, x), (of_adjacency, of_x) = primals, tangents
    y = ell_coo_product(adjacency, x)
    by_x = None if _is_zero(of_x) else _scattered(adjacency, of_x, y.dtype)
    of_values = (of_adjacency.ell_values, of_adjacency.coo_values)
    by_values = None
    if not all(map(_is_zero, of_values)):
        own = (adjacency.ell_values, adjacency.coo_values)
        by_values = _gathered(
            adjacency, x, *(jnp.zeros_like(v) if _is_zero(d) else d for v, d in zip(own, of_values, strict=True))
        )
    return y, _sum_of(y, by_x, by_values)


def _gathered(adjacency: EllCoo, x: Array, values: Array, list_values: Array) -> Array:
    """A x, where the entries of A are `values` and `list_values`."""
    # The list is first, and never empty: a loop that starts from a scattered array XLA does not fuse into the next
    # product, where it would compute a row anew for every entry that reads it. One entry alone would not be a scatter.
    rows, columns, list_values = _never_empty(adjacency.coo_rows, adjacency.coo_columns, list_values)
    y = jnp.zeros_like(x, jnp.result_type(x, values)).at[rows].add(list_values[:, None] * x[columns])
    for column, value in zip(adjacency.ell_columns.T, values.T, strict=True):
        y = y + value[:, None] * x.at[column].get(mode="promise_in_bounds")
    return y


def _scattered(adjacency: EllCoo, x: Array, dtype: Any) -> Array:
    """A^T x by scattering. Its transpose is `_gathered` step by step: what comes last here comes first there."""
    y = jnp.zeros_like(x, dtype)
    for column, value in reversed(list(zip(adjacency.ell_columns.T, adjacency.ell_values.T, strict=True))):
        y = y.at[column].add(value[:, None] * x, mode="promise_in_bounds")
    rows, columns, values = _never_empty(adjacency.coo_rows, adjacency.coo_columns, adjacency.coo_values)
    return y.at[columns].add(values[:, None] * x[rows])


def _never_empty(*arrays: Any) -> list[Array]:
    return [jnp.pad(array, (0, max(0, 2 - len(array)))) for array in arrays]


@jax.custom_jvp
def permute_rows(
    x: Shaped[Array, " rows *features"], rows: Int[Array, " places"], place_of: Int[Array, " rows"]
) -> Shaped[Array, " places *features"]:
    """`x[rows]`, where no row has two places; 0 where there is none. Its VJP gathers, where a scatter would take long.

    Args:
      x: the rows.
      rows: the row of each place, or one out of range.
      place_of: the place of each row, or one out of range.
    """
    return x.at[rows].get(mode="fill", fill_value=0)


@functools.partial(permute_rows.defjvp, symbolic_zeros=True)
def _lay_out_jvp(primals: tuple[Array, Array, Array], tangents: tuple[Any, Any, Any]) -> tuple[Array, Any]:
    (x, rows, place_of), (of_x, _, _) = primals, tangents
    y = permute_rows(x, rows, place_of)
    if _is_zero(of_x):
        return y, _sum_of(y)
    return y, jnp.zeros_like(y).at[place_of].add(of_x, mode="drop")  # whose transpose gathers


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def segment_max(
    x: Float[Array, "rows features"], segment: Int[Array, " rows"], segments: int, least: float = 0.0
) -> Float[Array, "segments features"]:
    """The larger of `least` and the maximum over the rows of each segment; segments ascend.

    Its VJP needs no more than which row is largest (of equal ones the first), which `jax.checkpoint` may save by the
    name `LARGEST` in place of x.
    """
    return jnp.maximum(jax.ops.segment_max(x, segment, segments, indices_are_sorted=True), least)


@functools.partial(segment_max.defjvp, symbolic_zeros=True)
def _segment_max_jvp(
    segments: int, least: float, primals: tuple[Array, Array], tangents: tuple[Any, Any]
) -> tuple[Array, Array]:
    (x, segment), (of_x, _) = primals, tangents
    largest = segment_max(x, segment, segments, least)
    if _is_zero(of_x):
        return largest, _sum_of(largest)
    is_largest = (x == largest[segment]) & (x > least)
    row = jnp.where(is_largest, jnp.arange(len(x), dtype=jnp.int32)[:, None], len(x))
    first = jax.ops.segment_min(row, segment, segments, indices_are_sorted=True)
    is_first = jnp.arange(len(x))[:, None] == checkpoint_name(first, SEGMENT_ARGMAX)[segment]
    moved = jax.ops.segment_sum(jnp.where(is_first, of_x, 0), segment, segments, indices_are_sorted=True)
    return largest, moved


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero)


def _sum_of(y: Array, *tangents: Array | None) -> Array:
    """The tangent of y: the sum of those that are not 0, in y's precision."""
    there = [tangent.astype(y.dtype) for tangent in tangents if tangent is not None]
    return sum(there[1:], start=there[0]) if there else jnp.zeros_like(y)
