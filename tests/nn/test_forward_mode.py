"""Derivatives of whole networks in forward mode, and second ones, as reverse mode gives them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import slow
from graph_strategies import USUAL, make_graph, pad
from programs import NETWORKS, STORAGES, each_storage, params_of

GRAPH = pad([USUAL, make_graph(5, 0.5, 9)])
SOFT = ["gcn", slow("chebygin"), slow("diffpool")]  # with every readout and kind of pooling


def outputs(name, storage, x):
    """The predictions for real graphs as a function of features."""
    graph = GRAPH._replace(nodes={**GRAPH.nodes, "features": x})
    return NETWORKS[name].apply({"params": params_of(name)}, graph, STORAGES[storage](GRAPH)).prediction[:2]


@each_storage
@pytest.mark.parametrize("name", SOFT)
def test_the_jacobian_is_the_same_in_both_modes(name, storage):
    function = functools.partial(outputs, name, storage)
    params_of(name)  # not first inside a traced function
    tangent = jnp.sin(jnp.arange(GRAPH.nodes["features"].size).reshape(GRAPH.nodes["features"].shape) * 1.0)

    @jax.jit
    def both(x):
        _, along = jax.jvp(function, (x,), (tangent,))
        terms = jax.jacrev(function)(x) * tangent
        second = jax.jvp(jax.grad(lambda x: function(x).sum()), (x,), (tangent,))[1]
        return along, terms.sum((2, 3)), jnp.abs(terms).sum((2, 3)), second

    along, backwards, scale, second = both(GRAPH.nodes["features"])
    # Terms of both signs cancel, so rounding goes by the sum of their sizes.
    np.testing.assert_array_less(np.abs(along - backwards), 1e-5 * scale + 1e-7)
    assert np.abs(along).max() > 1e-3
    assert np.isfinite(second).all()


@pytest.mark.slow
@each_storage
def test_the_hessian_is_symmetric_and_the_same_in_both_modes(storage):
    def loss(x):
        return jnp.sum(jnp.sin(0.01 * outputs("diffpool", storage, x)))

    params_of("diffpool")
    x = GRAPH.nodes["features"]
    along, across = (jnp.sin(k + jnp.arange(x.size).reshape(x.shape) * 1.3) for k in (0.0, 1.0))

    @jax.jit
    def both(x, v):
        gradient = jax.grad(loss)
        return jax.jvp(gradient, (x,), (v,))[1], jax.grad(lambda x: (gradient(x) * v).sum())(x)

    forwards, backwards = both(x, along)
    scale = np.abs(forwards).max()
    np.testing.assert_allclose(forwards, backwards, atol=1e-3 * scale)
    other, _ = both(x, across)
    np.testing.assert_allclose((forwards * across).sum(), (other * along).sum(), atol=1e-2 * scale)
