"""The optimizer and the learning-rate schedule."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from jattn.training._config import TrainConfig
from jattn.types import AnyArray, Params

MULTIPLE = 960  # of the length of the vector of all weights: 2 to 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96 divide it


class Rates(NamedTuple):
    """Numbers of the optimizer, perhaps arguments of a compiled program.

    Attributes:
      learning_rate: Adam's step size at the start.
      decay_steps: steps from which on it is divided by 10.
      weight_decay: factor of the weight that is added to its gradient (L2).
    """

    learning_rate: Float[AnyArray, ""] | float
    decay_steps: Int[AnyArray, " decays"] | Sequence[int]
    weight_decay: Float[AnyArray, ""] | float


def make_optimizer(config: TrainConfig, steps_per_epoch: int, axis: str | None = None) -> optax.GradientTransformation:
    """Adam with betas 0.5 and 0.999, L2 decay of every parameter, and a learning rate that drops at given epochs.

    Args:
      config: settings of training.
      steps_per_epoch: batches of an epoch.
      axis: name of a mapped axis over which gradients are summed first.
    """
    return adam(rates_of(config, steps_per_epoch), axis)


def rates_of(config: TrainConfig, steps_per_epoch: int) -> Rates:
    """The numbers of the optimizer in some settings."""
    decay_steps = [(epoch - 1) * steps_per_epoch for epoch in sorted(config.decay_epochs)]
    return Rates(config.learning_rate, decay_steps, config.weight_decay)


def adam(rates: Rates, axis: str | None = None) -> optax.GradientTransformation:
    """The optimizer with these numbers, as `make_optimizer`."""

    def learning_rate(step: Int[Array, ""]) -> Float[Array, ""]:
        rate = jnp.asarray(rates.learning_rate, jnp.float32)
        for decay_step in rates.decay_steps:
            rate = jnp.where(step < decay_step, rate, 0.1 * rate)
        return rate

    whole = optax.stateless(lambda gradient, _: jax.lax.psum(gradient, axis)) if axis else optax.identity()
    return optax.chain(
        whole,
        optax.add_decayed_weights(rates.weight_decay),
        optax.scale_by_adam(b1=0.5, b2=0.999),
        optax.scale_by_learning_rate(learning_rate),
    )


def as_vector(params: Params) -> tuple[Float[Array, " weights"], Callable[[Float[Array, " weights"]], Params]]:
    """All weights in one vector, with zeros at its end, and the map from such a vector to weights.

    The optimizer then takes a few operations a step, not a few for each array. Usual numbers of cores divide the
    length: XLA parts the vector among these, and where parts differ it checks bounds for each weight, which takes
    several times as long. Weights of several dtypes have their common one in the vector.
    """
    leaves = jax.tree.leaves(params)
    rest = jnp.zeros(-sum(leaf.size for leaf in leaves) % MULTIPLE, jnp.result_type(*leaves))
    vector, unravel = ravel_pytree((params, rest))
    return vector, lambda vector: unravel(vector)[0]
