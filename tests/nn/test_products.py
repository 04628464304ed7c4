"""Products with derivatives of their own give what differentiating the plain ones gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jattn._cost_model import cost_model
from jattn.nn._kernels import (
    SEGMENT_ARGMAX,
    EllCoo,
    block_product,
    compact_linear,
    ell_coo_product,
    masked_linear,
    permute_rows,
    segment_max,
)

pytestmark = pytest.mark.default_xla


def plain_symmetric(adjacency, x):
    return jnp.einsum("bij,bjf->bif", adjacency, x)


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes]


(KERNEL,) = arrays((3, 5))
FEW_FEATURES = cost_model().row_major_features
HALF, FEATURES, SUMS, MANY, MANY_SUMS = arrays(
    (2, 4, 4), (2, 4, 3), (2, 4, 3), (2, 4, FEW_FEATURES + 1), (2, 4, FEW_FEATURES + 1)
)

# A sparse A of 5 nodes: a loop at node 0 and the circle 0 - 1 - 2 - 3, of which 3 - 0 is in the list.
COLUMNS, LIST_ROWS, LIST_COLUMNS = (
    jnp.array([[0, 1], [0, 2], [1, 3], [2, 3], [4, 4]]),
    jnp.array([0, 3]),
    jnp.array([3, 0]),
)
VALUES = jnp.array([0.5, 2, 2, 3, 3, 4, 4, 0, 0, 0, 1.5, 1.5])  # of the table, then of the list
NODES, NODE_SUMS = arrays((5, 3), (5, 3))


def sparse(values, x):
    return ell_coo_product(EllCoo(COLUMNS, values[:10].reshape(5, 2), LIST_ROWS, LIST_COLUMNS, values[10:]), x)


def plain_sparse(values, x):
    adjacency = jnp.zeros((5, 5)).at[jnp.arange(5)[:, None], COLUMNS].add(values[:10].reshape(5, 2))
    return adjacency.at[LIST_ROWS, LIST_COLUMNS].add(values[10:]) @ x


KEPT = jnp.array([True, False, True, True, False])
WEIGHTS, MAPPED_SUMS = arrays((4, 6), (5, 6))


def affine(weights, x):
    return masked_linear(x, KEPT, weights)


def plain_affine(weights, x):
    return x @ weights[:-1] + jnp.where(KEPT[:, None], weights[-1], 0)


CASES = {
    "symmetric": (block_product, plain_symmetric, (HALF + HALF.swapaxes(1, 2), FEATURES), SUMS),
    "symmetric, many": (block_product, plain_symmetric, (HALF + HALF.swapaxes(1, 2), MANY), MANY_SUMS),
    "affine": (affine, plain_affine, (WEIGHTS, NODES), MAPPED_SUMS),
    "sparse": (sparse, plain_sparse, (VALUES, NODES), NODE_SUMS),
}


def assert_same(actual, expected):
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_have_the_precision_of_what_they_are_of(name):
    function, _, (values, x), _ = CASES[name]
    for precisions in ((jnp.float32, jnp.bfloat16), (jnp.bfloat16, jnp.float32)):
        operands = [array.astype(precision) for array, precision in zip((values, x), precisions, strict=True)]
        gradients = jax.grad(lambda *operands: function(*operands).sum(), (0, 1))(*operands)
        assert tuple(gradient.dtype for gradient in gradients) == precisions


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    function, plain, operands, cotangent = CASES[name]
    (actual, vjp), (expected, expected_vjp) = jax.vjp(function, *operands), jax.vjp(plain, *operands)
    assert_same(actual, expected)
    assert_same(vjp(cotangent), expected_vjp(cotangent))


@pytest.mark.parametrize("name", CASES)
def test_forward_mode_and_second_derivatives(name):
    function, plain, operands, cotangent = CASES[name]
    tangents = tuple(jnp.sin(3 * x) for x in operands)  # those of a symmetric matrix are symmetric
    assert_same(jax.jvp(function, operands, tangents), jax.jvp(plain, operands, tangents))
    along_x = [
        jax.jvp(lambda x, product=product: product(operands[0], x), operands[1:], tangents[1:])
        for product in (function, plain)
    ]
    assert_same(*along_x)

    def gradient_along(product):
        gradient = jax.grad(lambda *operands: (jnp.sin(product(*operands)) * cotangent).sum(), (0, 1))
        return jax.jvp(gradient, operands, tangents)

    assert_same(gradient_along(function), gradient_along(plain))


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("name", CASES)
def test_they_map_over_either_operand_or_both(name, axes):
    function, plain, operands, cotangent = CASES[name]
    many = [x if axis is None else jnp.stack([x, 2 * x, x - x.mean()]) for x, axis in zip(operands, axes, strict=True)]

    def gradient(product):
        return jax.vmap(lambda *one: jax.grad(lambda *o: (product(*o) * cotangent).sum(), (0, 1))(*one), axes)(*many)

    assert_same(gradient(function), gradient(plain))


SEGMENT = jnp.array([0, 0, 1, 3, 3, 3])  # 2 and 4 are empty


def test_the_maximum_of_segments_is_at_least_0_and_its_gradient_goes_to_the_first_of_the_largest_rows():
    x = jnp.array([[1.0, -1], [2, -2], [-3, 0], [5, 4], [5, 6], [0, 6]])
    largest, vjp = jax.vjp(lambda x: segment_max(x, SEGMENT, 5), x)
    np.testing.assert_array_equal(largest, [[2, 0], [0, 0], [0, 0], [5, 6], [0, 0]])
    (gradient,) = vjp(jnp.arange(1.0, 11).reshape(5, 2))
    np.testing.assert_array_equal(gradient, [[0, 0], [1, 0], [0, 0], [7, 0], [0, 8], [0, 0]])


def test_rows_and_segments_are_differentiated_forwards_too():
    x = jnp.array([[1.0, -1], [2, -2], [-3, 0], [5, 4], [5, 6], [0, 6]])
    tangent = jnp.arange(1.0, 13).reshape(6, 2)
    _, along = jax.jvp(lambda x: segment_max(x, SEGMENT, 5), (x,), (tangent,))
    np.testing.assert_array_equal(along, [[3, 0], [0, 0], [0, 0], [7, 10], [0, 0]])
    rows, place_of = jnp.array([4, 9, 0, 2]), jnp.array([2, 9, 3, 9, 0, 9])
    laid_out, along = jax.jvp(lambda x: permute_rows(x, rows, place_of), (x,), (tangent,))
    np.testing.assert_array_equal(laid_out, [x[4], [0, 0], x[0], x[2]])
    np.testing.assert_array_equal(along, [tangent[4], [0, 0], tangent[0], tangent[2]])


def test_checkpoints_that_keep_the_largest_rows_do_not_compute_the_features_again():
    def loss(kernel, rows):
        return segment_max(rows @ kernel, SEGMENT, 5).sum()

    def products(**settings):
        step = jax.grad(jax.checkpoint(loss, **settings))
        return str(jax.make_jaxpr(step)(KERNEL, jnp.ones((6, len(KERNEL))))).count("dot_general")

    keep = jax.checkpoint_policies.save_only_these_names(SEGMENT_ARGMAX)
    assert products() == 3  # forward, forward again, and the kernel's gradient
    assert products(policy=keep) == 2


ROWS = 40  # static numbers of rows are multiples of 8


@pytest.mark.parametrize("few_gradients", [False, True])
@pytest.mark.parametrize("count", [0, 1, 8, 9, 39, ROWS])
def test_products_of_the_rows_that_are_needed_are_those_of_all_rows(count, few_gradients):
    weights, x, cotangent = arrays((4, 6), (ROWS, 3), (ROWS, 6))
    needed = jnp.zeros(ROWS, bool).at[np.random.default_rng(count).permutation(ROWS)[:count]].set(True)
    kept = jnp.arange(ROWS) % 3 > 0 if few_gradients else needed
    x = jnp.where(kept[:, None], x, 0)
    cotangent = jnp.where(needed[:, None], cotangent, 0)

    def compact(weights, x):
        return compact_linear(x, kept, weights, None, few_gradients)

    def plain(weights, x):
        return masked_linear(x, kept, weights)

    (actual, vjp), (expected, plain_vjp) = jax.vjp(compact, weights, x), jax.vjp(plain, weights, x)
    assert_same(actual, expected)
    assert_same(vjp(cotangent), plain_vjp(cotangent))


@pytest.mark.parametrize("few_gradients", [False, True])
def test_products_leave_out_rows_that_are_not_needed(few_gradients):
    weights, x, cotangent = arrays((4, 6), (ROWS, 3), (ROWS, 6))
    needed = jnp.arange(ROWS) == 35
    kept = needed | few_gradients
    x = jnp.where(needed[:, None], x, jnp.nan)  # a product with these rows would have no finite number
    y, vjp = jax.vjp(lambda weights, x: compact_linear(x, kept, weights, None, few_gradients), weights, x)
    weights_bar, x_bar = vjp(jnp.where(needed[:, None], cotangent, 0))
    assert np.isfinite(y[35]).all()
    assert np.isfinite(weights_bar).all()
    assert (x_bar.any(axis=1) == needed).all()
