"""Matrix products with derivatives that are quick on CPUs; elsewhere they are what differentiating gives."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int, Shaped

from jattn.cost_model import cost_model

LARGEST = "largest"


@jax.custom_vjp
def symmetric_product(
    adjacency: Float[Array, "blocks block block"], x: Float[Array, "blocks block features"]
) -> Float[Array, "blocks block features"]:
    """The product A x for blocks of A = A^T. Its VJP multiplies by A, which takes a third of the time that A^T does."""
    if x.shape[-1] <= cost_model().row_major_features:  # rows of (x^T A)^T are long: a half to a third of the time
        rows = jnp.einsum("bfj,bji->bfi", jax.lax.optimization_barrier(x.swapaxes(1, 2)), adjacency)
        return jax.lax.optimization_barrier(rows).swapaxes(1, 2)
    return jnp.einsum("bij,bjf->bif", adjacency, x)


def _symmetric_product_forward(adjacency: Array, x: Array) -> tuple[Array, tuple[Array, Array]]:
    return symmetric_product(adjacency, x), (adjacency, x)


def _symmetric_product_backward(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    adjacency, x = saved
    of_adjacency = jnp.einsum("bif,bjf->bij", cotangent, x).astype(adjacency.dtype)
    return of_adjacency, symmetric_product(adjacency, cotangent).astype(x.dtype)


symmetric_product.defvjp(_symmetric_product_forward, _symmetric_product_backward)


@jax.custom_vjp
def masked_affine(
    x: Float[Array, "rows inputs"], kept: Bool[Array, " rows"], weights: Float[Array, "inputs+1 out"]
) -> Float[Array, "rows out"]:
    """The map x W + b in rows that are kept, 0 in others, where x has to be 0; b is the last row of `weights`.

    The bias is the weight of one more column, 1 where a row is kept: no pass over the result to add it and to drop
    rows, none over its cotangent to sum it.
    """
    return _masked_affine_forward(x, kept, weights)[0]


def _masked_affine_forward(x: Array, kept: Array, weights: Array) -> tuple[Array, tuple[Array, Array]]:
    # For the weights' gradient XLA reads these columns as they lie; where x is a product, as of attention and features,
    # it would compute it anew without them, in an order that takes ten times as long.
    columns = jnp.concatenate([x, kept[:, None].astype(x.dtype)], axis=1)
    return columns @ weights, (columns, weights)


def _masked_affine_backward(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, None, Array]:
    columns, weights = saved
    # Differentiating would give this for the last column too, and cut it off.
    of_x = cotangent @ weights[:-1].T
    return of_x.astype(columns.dtype), None, (columns.T @ cotangent).astype(weights.dtype)


masked_affine.defvjp(_masked_affine_forward, _masked_affine_backward)


class Sparse(NamedTuple):
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

    columns: Int[Array, "rows width"]
    values: Float[Array, "rows width"]
    list_rows: Int[Array, " entries"]
    list_columns: Int[Array, " entries"]
    list_values: Float[Array, " entries"]


@jax.custom_vjp
def sparse_product(adjacency: Sparse, x: Float[Array, "rows features"]) -> Float[Array, "rows features"]:
    """The product A x for a sparse A = A^T. Its VJP multiplies by A, which gathers where A^T would scatter."""
    # The list is first, and never empty: a loop that starts from a scattered array XLA does not fuse into the next
    # product, where it would compute a row anew for every entry that reads it. One entry alone would not be a scatter.
    rows, columns, values = (
        jnp.pad(array, (0, max(0, 2 - len(array))))
        for array in (adjacency.list_rows, adjacency.list_columns, adjacency.list_values)
    )
    y = jnp.zeros_like(x, jnp.result_type(x, values)).at[rows].add(values[:, None] * x[columns])
    for columns, values in zip(adjacency.columns.T, adjacency.values.T, strict=True):
        y = y + values[:, None] * x.at[columns].get(mode="promise_in_bounds")
    return y


def _sparse_product_forward(adjacency: Sparse, x: Array) -> tuple[Array, tuple[Sparse, Array]]:
    return sparse_product(adjacency, x), (adjacency, x)


def _sparse_product_backward(saved: tuple[Sparse, Array], cotangent: Array) -> tuple[Sparse, Array]:
    adjacency, x = saved
    by_value = jnp.einsum("rf,rwf->rw", cotangent, x[adjacency.columns])
    by_list_value = (cotangent[adjacency.list_rows] * x[adjacency.list_columns]).sum(1)
    no_gradient: Any = None
    by_value, by_list_value = by_value.astype(adjacency.values.dtype), by_list_value.astype(adjacency.list_values.dtype)
    by_entry = Sparse(no_gradient, by_value, no_gradient, no_gradient, by_list_value)
    return by_entry, sparse_product(adjacency, cotangent).astype(x.dtype)


sparse_product.defvjp(_sparse_product_forward, _sparse_product_backward)


@jax.custom_vjp
def lay_out(
    x: Shaped[Array, " rows *features"], rows: Int[Array, " places"], place_of: Int[Array, " rows"]
) -> Shaped[Array, " places *features"]:
    """`x[rows]`, where no row has two places; 0 where there is none. Its VJP gathers, where a scatter would take long.

    Args:
      x: the rows.
      rows: the row of each place, or one out of range.
      place_of: the place of each row, or one out of range.
    """
    return x.at[rows].get(mode="fill", fill_value=0)


def _lay_out_forward(x: Array, rows: Array, place_of: Array) -> tuple[Array, tuple[Array, Array]]:
    return lay_out(x, rows, place_of), (rows, place_of)


def _lay_out_backward(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, None, None]:
    rows, place_of = saved
    return lay_out(cotangent, place_of, rows), None, None


lay_out.defvjp(_lay_out_forward, _lay_out_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def segment_max(
    x: Float[Array, "rows features"], segment: Int[Array, " rows"], segments: int
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
