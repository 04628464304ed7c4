"""The optimizer and the learning-rate schedule."""

import jax
import optax

from jattn.training._config import TrainConfig


def make_optimizer(config: TrainConfig, steps_per_epoch: int, axis: str | None = None) -> optax.GradientTransformation:
    """Adam with betas 0.5 and 0.999, L2 decay of every parameter, and a learning rate that drops at given epochs.

    Args:
      config: settings of training.
      steps_per_epoch: batches of an epoch.
      axis: name of a mapped axis over which gradients are summed first.
    """
    boundaries = {(epoch - 1) * steps_per_epoch: 0.1 for epoch in config.decay_epochs}
    schedule = optax.piecewise_constant_schedule(config.learning_rate, boundaries)
    whole = optax.stateless(lambda gradient, _: jax.lax.psum(gradient, axis)) if axis else optax.identity()
    adam = optax.chain(
        whole,
        optax.add_decayed_weights(config.weight_decay),
        optax.scale_by_adam(b1=0.5, b2=0.999),
        optax.scale_by_learning_rate(schedule),
    )
    return optax.flatten(adam)  # one vector of all weights: a few operations per step instead of a few per array
