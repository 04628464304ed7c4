"""Matrix products and maxima whose derivatives are written by hand, because those are faster on CPUs.

The values are those of plain differentiation. `precision` is that of `jnp.matmul`, for a product and its derivatives.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax.typing import PrecisionLike
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int, Shaped

from jattn._cost_model import cost_model

SEGMENT_ARGMAX = "segment_argmax"  # the name under which `jax.checkpoint` may save it


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def block_product(
    adjacency: Float[Array, "blocks block block"],
    x: Float[Array, "blocks block features"],
    precision: PrecisionLike = None,
) -> Float[Array, "blocks block features"]:
    """Returns A x for the blocks of a symmetric A. Its VJP multiplies by A, which is three times as fast as by A^T."""
    return _multiply_blocks(adjacency, x, "bij,bjf->bif", "bfj,bji->bfi", precision)


@functools.partial(block_product.defjvp, symbolic_zeros=True)
def _block_product_jvp(
    precision: PrecisionLike, primals: tuple[Array, Array], tangents: tuple[Any, Any]
) -> tuple[Array, Array]:
    (adjacency, x), (adjacency_dot, x_dot) = primals, tangents
    y = block_product(adjacency, x, precision)
    # By A^T here, so that the VJP, its transpose, multiplies by A.
    by_x = by_adjacency = None
    if not _is_zero(x_dot):
        by_x = _multiply_blocks(adjacency, x_dot, "bji,bjf->bif", "bfj,bij->bfi", precision)
    if not _is_zero(adjacency_dot):
        by_adjacency = jnp.einsum("bij,bjf->bif", adjacency_dot, x, precision=precision)
    return y, _sum_tangents(y, by_x, by_adjacency)


def _multiply_blocks(
    adjacency: Array, x: Array, product: str, transposed_product: str, precision: PrecisionLike
) -> Array:
    """The einsum `product`; with few features `transposed_product`: (x^T A)^T has long rows, which is faster."""
    if x.shape[-1] > cost_model().row_major_features:
        return jnp.einsum(product, adjacency, x, precision=precision)
    transposed = jax.lax.optimization_barrier(x.swapaxes(1, 2))
    rows = jnp.einsum(transposed_product, transposed, adjacency, precision=precision)  # 2 to 3 times as fast
    return jax.lax.optimization_barrier(rows).swapaxes(1, 2)


class RowMap(NamedTuple):
    """Which rows are moved to which new ones; numbers out of range stand for none.

    Attributes:
      source: the old row of each new one, [new_rows].
      target: the new row of each old one, [rows].
    """

    source: Int[Array, " new_rows"]
    target: Int[Array, " rows"]


def rows_first(mask: Bool[Array, " rows"]) -> RowMap:
    """Moves the rows in `mask` to the first ones, in their order, and no rows to the others."""
    rows = len(mask)
    target = jnp.where(mask, jnp.cumsum(mask) - 1, rows)
    return RowMap(jnp.full(rows, rows).at[target].set(jnp.arange(rows), mode="drop"), target)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def masked_linear(
    x: Float[Array, "rows inputs"],
    kept: Bool[Array, " rows"],
    weights: Float[Array, "inputs+1 out"],
    precision: PrecisionLike = None,
) -> Float[Array, "rows out"]:
    """Returns x W + b in kept rows and 0 in the others, where x has to be 0; b is the last row of `weights`.

    The bias is the weight of one more column, which is 1 in kept rows. This saves a pass over the result to add it and
    to mask rows, and a pass over the cotangent to sum it.
    """
    return jnp.matmul(_with_kept(x, kept), weights, precision=precision)


@functools.partial(masked_linear.defjvp, symbolic_zeros=True)
def _masked_linear_jvp(
    precision: PrecisionLike, primals: tuple[Array, Array, Array], tangents: tuple[Any, Any, Any]
) -> tuple[Array, Array]:
    (x, kept, weights), (x_dot, _, weights_dot) = primals, tangents
    # The weights' gradient reads these columns. Without them XLA would recompute an x that is itself a product, such as
    # attention times features, in an order that takes ten times as long.
    columns = _with_kept(x, kept)
    matmul = functools.partial(jnp.matmul, precision=precision)
    y = matmul(columns, weights)
    # Plain differentiation would compute the last column's gradient too, and then drop it.
    by_x = None if _is_zero(x_dot) else matmul(x_dot, weights[:-1])
    return y, _sum_tangents(y, by_x, None if _is_zero(weights_dot) else matmul(columns, weights_dot))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def compact_linear(
    x: Float[Array, "rows inputs"],
    kept: Bool[Array, " rows"],
    weights: Float[Array, "inputs+1 out"],
    precision: PrecisionLike = None,
    few_gradients: bool = False,
) -> Float[Array, "rows out"]:
    """`masked_linear`, computed in kept rows alone; its VJP with `few_gradients` where a row's cotangent is not 0.

    These rows move to the first ones, and a product has the smallest of several static numbers of rows that holds them.
    No forward-mode differentiation; and `vmap` would run every number of rows.
    """
    return _compact_linear_fwd(x, kept, weights, precision, few_gradients)[0]


def _compact_linear_fwd(
    x: Array, kept: Array, weights: Array, precision: PrecisionLike, few_gradients: bool
) -> tuple[Array, tuple[Array, Array, RowMap]]:
    columns, moved = _with_kept(x, kept), rows_first(kept)

    def product(rows: int) -> Callable[[Array, Array, RowMap], Array]:
        def run(columns: Array, weights: Array, moved: RowMap) -> Array:
            return _move_back(moved, jnp.matmul(_move_first(moved, rows, columns), weights, precision=precision))

        return run

    return _by_size(product, kept, columns, weights, moved), (columns, weights, moved)


def _compact_linear_bwd(
    precision: PrecisionLike, few_gradients: bool, saved: tuple[Array, Array, RowMap], y_bar: Array
) -> tuple[Array, None, Array]:
    columns, weights, moved = saved
    if few_gradients:
        moved = rows_first(jnp.any(y_bar != 0, axis=1))
    needed = moved.target < len(columns)

    def products(rows: int) -> Callable[[Array, Array, Array, RowMap], tuple[Array, Array]]:
        def run(columns: Array, weights: Array, y_bar: Array, moved: RowMap) -> tuple[Array, Array]:
            columns, y_bar = _move_first(moved, rows, columns), _move_first(moved, rows, y_bar)
            matmul = functools.partial(jnp.matmul, precision=precision)
            x_bar, weights_bar = _move_back(moved, matmul(y_bar, weights[:-1].T)), matmul(columns.T, y_bar)
            return x_bar.astype(columns.dtype), weights_bar.astype(weights.dtype)

        return run

    x_bar, weights_bar = _by_size(products, needed, columns, weights, y_bar, moved)
    return x_bar, None, weights_bar


compact_linear.defvjp(_compact_linear_fwd, _compact_linear_bwd)


def _by_size(function: Callable[[int], Callable[..., Any]], needed: Array, *arrays: Any) -> Any:
    """`function(rows)` of the arrays, with the smallest eighth of their rows that has room for the needed ones."""
    rows = len(needed)
    sizes = sorted({min(rows, -(-rows * eighths // 64) * 8) for eighths in range(1, 9)})
    return jax.lax.switch(jnp.searchsorted(jnp.array(sizes), needed.sum()), [function(size) for size in sizes], *arrays)


# The barriers keep XLA from fusing a gather with the product, which would then take as long as that of all rows.
def _move_first(moved: RowMap, rows: int, x: Array) -> Array:
    """The first `rows` of the moved rows; where that is all, rows stay in their places."""
    if rows == len(x):
        return x
    return jax.lax.optimization_barrier(x.at[moved.source[:rows]].get(mode="fill", fill_value=0))


def _move_back(moved: RowMap, x: Array) -> Array:
    """The inverse of `_move_first`, 0 in other rows."""
    if len(x) == len(moved.target):
        return x
    return jax.lax.optimization_barrier(x).at[moved.target].get(mode="fill", fill_value=0)


def _with_kept(x: Array, kept: Array) -> Array:
    return jnp.concatenate([x, kept[:, None].astype(x.dtype)], axis=1)


class EllCoo(NamedTuple):
    """A sparse symmetric matrix: an ELL table of the first entries of each row, and a COO list of the others.

    A CPU sums a table several times as fast as a list, which it adds entry by entry. But if few rows have many entries,
    a table that is wide enough for all of them is mostly empty.

    Attributes:
      ell_columns: columns of the first entries of each row, [rows, width].
      ell_values: values of the same entries, 0 if a row has fewer, [rows, width].
      coo_rows: rows of the other entries, [entries].
      coo_columns: columns of the other entries, [entries].
      coo_values: values of the other entries, [entries].
    """

    ell_columns: Int[Array, "rows width"]
    ell_values: Float[Array, "rows width"]
    coo_rows: Int[Array, " entries"]
    coo_columns: Int[Array, " entries"]
    coo_values: Float[Array, " entries"]


@jax.custom_jvp
def ell_coo_product(adjacency: EllCoo, x: Float[Array, "rows features"]) -> Float[Array, "rows features"]:
    """Returns A x for a symmetric sparse A. Its VJP multiplies by A, which gathers; A^T would scatter."""
    return _gather_product(adjacency, x, adjacency.ell_values, adjacency.coo_values)


@functools.partial(ell_coo_product.defjvp, symbolic_zeros=True)
def _ell_coo_product_jvp(primals: tuple[EllCoo, Array], tangents: tuple[EllCoo, Any]) -> tuple[Array, Array]:
    (adjacency, x), (adjacency_dot, x_dot) = primals, tangents
    y = ell_coo_product(adjacency, x)
    by_x = None if _is_zero(x_dot) else _scatter_product(adjacency, x_dot, y.dtype)
    value_dots = (adjacency_dot.ell_values, adjacency_dot.coo_values)
    by_values = None
    if not all(map(_is_zero, value_dots)):
        values = (adjacency.ell_values, adjacency.coo_values)
        dots = (jnp.zeros_like(v) if _is_zero(dot) else dot for v, dot in zip(values, value_dots, strict=True))
        by_values = _gather_product(adjacency, x, *dots)
    return y, _sum_tangents(y, by_x, by_values)


def _gather_product(adjacency: EllCoo, x: Array, ell_values: Array, coo_values: Array) -> Array:
    """A x for an A with these values in place of its own."""
    # The list comes first and is never empty: XLA does not fuse a scattered array into the next product. Fused, a row
    # would be recomputed for every entry that reads it. A list of one entry would not be a scatter, so it has two.
    rows, columns, coo_values = _never_empty(adjacency.coo_rows, adjacency.coo_columns, coo_values)
    y = jnp.zeros_like(x, jnp.result_type(x, ell_values)).at[rows].add(coo_values[:, None] * x[columns])
    for column, value in zip(adjacency.ell_columns.T, ell_values.T, strict=True):
        y = y + value[:, None] * x.at[column].get(mode="promise_in_bounds")
    return y


def _scatter_product(adjacency: EllCoo, x: Array, dtype: Any) -> Array:
    """A^T x by scattering, in the reverse order of `_gather_product`, which so is its transpose step by step."""
    y = jnp.zeros_like(x, dtype)
    for column, value in reversed(list(zip(adjacency.ell_columns.T, adjacency.ell_values.T, strict=True))):
        y = y.at[column].add(value[:, None] * x, mode="promise_in_bounds")
    rows, columns, values = _never_empty(adjacency.coo_rows, adjacency.coo_columns, adjacency.coo_values)
    return y.at[columns].add(values[:, None] * x[rows])


def _never_empty(*arrays: Any) -> list[Array]:
    return [jnp.pad(array, (0, max(0, 2 - len(array)))) for array in arrays]


@jax.custom_jvp
def permute_rows(
    x: Shaped[Array, " rows *features"], source: Int[Array, " new_rows"], target: Int[Array, " rows"]
) -> Shaped[Array, " new_rows *features"]:
    """Returns x[source], 0 where `source` is out of range. Its VJP gathers by `target`; a scatter would be slow.

    Args:
      x: the rows.
      source: the old row of each new one, each old row at most once; out of range for none.
      target: the new row of each old one; out of range for none.
    """
    return x.at[source].get(mode="fill", fill_value=0)


@functools.partial(permute_rows.defjvp, symbolic_zeros=True)
def _permute_rows_jvp(primals: tuple[Array, Array, Array], tangents: tuple[Any, Any, Any]) -> tuple[Array, Any]:
    (x, source, target), (x_dot, _, _) = primals, tangents
    y = permute_rows(x, source, target)
    if _is_zero(x_dot):
        return y, _sum_tangents(y)
    return y, jnp.zeros_like(y).at[target].add(x_dot, mode="drop")  # its transpose gathers


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def segment_max(
    x: Float[Array, "rows features"], segment: Int[Array, " rows"], segments: int, least: float = 0.0
) -> Float[Array, "segments features"]:
    """Returns the maximum of `least` and of the rows of each segment; segments ascend.

    Its VJP needs only the index of the largest row, the first of equal ones. `jax.checkpoint` may save that index, by
    the name `SEGMENT_ARGMAX`, in place of x.
    """
    return jnp.maximum(jax.ops.segment_max(x, segment, segments, indices_are_sorted=True), least)


@functools.partial(segment_max.defjvp, symbolic_zeros=True)
def _segment_max_jvp(
    segments: int, least: float, primals: tuple[Array, Array], tangents: tuple[Any, Any]
) -> tuple[Array, Array]:
    (x, segment), (x_dot, _) = primals, tangents
    largest = segment_max(x, segment, segments, least)
    if _is_zero(x_dot):
        return largest, _sum_tangents(largest)
    is_largest = (x == largest[segment]) & (x > least)
    row = jnp.where(is_largest, jnp.arange(len(x), dtype=jnp.int32)[:, None], len(x))
    first = jax.ops.segment_min(row, segment, segments, indices_are_sorted=True)
    is_first = jnp.arange(len(x))[:, None] == checkpoint_name(first, SEGMENT_ARGMAX)[segment]
    largest_dot = jax.ops.segment_sum(jnp.where(is_first, x_dot, 0), segment, segments, indices_are_sorted=True)
    return largest, largest_dot


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero)


def _sum_tangents(y: Array, *tangents: Array | None) -> Array:
    """The tangent of y: the sum of the tangents that are not None, in y's dtype."""
    known = [tangent.astype(y.dtype) for tangent in tangents if tangent is not None]
    return sum(known[1:], start=known[0]) if known else jnp.zeros_like(y)
