"""Numbers that do not change the shape of a program are its arguments: with other values of them nothing is compiled.

A network and its training are separated into a structure, in which these numbers have fixed values, and the numbers.
Only the structure is a part of a compiled program; inside of it, `with_selections` makes the network again.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from jattn.nn import AttentionPoolingConfig, DiffPoolConfig, Network, Threshold, TopK
from jattn.nn._attention_pooling import above, largest
from jattn.training._config import TrainConfig
from jattn.training._optimizer import Rates, rates_of
from jattn.types import AnyArray

MULTIPLE = 4  # decays are filled up to a multiple of it, so that one program serves different numbers of them
NEVER = np.iinfo(np.int32).max  # a step
Selections = tuple[AnyArray | None, ...]  # for each pooling the number by which it selects nodes, if it has one


class TrainNumbers(NamedTuple):
    """Numbers of training, perhaps arguments of a compiled program.

    Attributes:
      rates: those of the optimizer.
      attention_weight: beta; not used if the attention loss is no part of the program.
      dropout: rate of dropout; not used if dropout is no part of the program.
      selections: those of the poolings, as in `separate`; empty if the network has them itself.
    """

    rates: Rates
    attention_weight: AnyArray | float
    dropout: AnyArray | float
    selections: Selections = ()


def numbers_of(network: Network, config: TrainConfig, steps_per_epoch: int) -> TrainNumbers:
    """The numbers of training, as constants; those of the poolings remain in the network."""
    return TrainNumbers(rates_of(config, steps_per_epoch), config.attention_weight, network.dropout)


def separate_training(
    network: Network, config: TrainConfig, steps_per_epoch: int
) -> tuple[Network, TrainConfig, TrainNumbers]:
    """The structure of a network and of its training, and the numbers as arrays."""
    rates, attention_weight, dropout, _ = numbers_of(network, config, steps_per_epoch)
    structure, selections = separate(network)
    if type(network) is Network:
        structure = structure.clone(dropout=0.5 if network.dropout else 0.0)
    plain = dataclasses.replace(
        config,
        learning_rate=1.0,
        decay_epochs=(),
        weight_decay=0.0,
        attention_weight=1.0 if config.attention_weight else 0.0,
    )
    steps = np.minimum(rates.decay_steps, NEVER)
    decay_steps = np.pad(steps, (0, -len(steps) % MULTIPLE), constant_values=NEVER).astype(np.int32)
    arrays = Rates(_array(rates.learning_rate), decay_steps, _array(rates.weight_decay))
    return structure, plain, TrainNumbers(arrays, _array(attention_weight), _array(dropout), selections)


def separate(network: Network, *, initial: bool = False) -> tuple[Network, Selections]:
    """The structure of a network without dropout, and the numbers by which its poolings select nodes.

    Users' own rules and subclasses of `Network` are structure as a whole.

    Args:
      network: the network.
      initial: whether the structure has the distribution of initial weights.
    """
    if type(network) is not Network:
        return network, ()
    pairs = [_separate_pooling(pooling, initial) for pooling in network.poolings]
    structure = network.clone(poolings=tuple(pooling for pooling, _ in pairs), dropout=0.0)
    return structure, tuple(number for _, number in pairs)


def _separate_pooling(
    pooling: AttentionPoolingConfig | DiffPoolConfig | None, initial: bool
) -> tuple[AttentionPoolingConfig | DiffPoolConfig | None, AnyArray | None]:
    if not isinstance(pooling, AttentionPoolingConfig):
        return pooling, None
    if not initial:
        pooling = dataclasses.replace(pooling, scorer=dataclasses.replace(pooling.scorer, init="default", scale=1.0))
    if type(pooling.select) is Threshold:
        return dataclasses.replace(pooling, select=Threshold(0.0)), _array(pooling.select.tau)
    if type(pooling.select) is TopK:
        return dataclasses.replace(pooling, select=TopK(0.0)), _array(1 - pooling.select.ratio)
    return pooling, None


def _array(number: AnyArray | float) -> np.ndarray:
    return np.asarray(number, np.float32)


def with_selections(structure: Network, selections: Selections) -> Network:
    """The network of a structure whose poolings select nodes by these numbers."""
    poolings = list(structure.poolings)
    for i, number in enumerate(selections):
        pooling = poolings[i]
        if number is not None and isinstance(pooling, AttentionPoolingConfig):
            rule = above if type(pooling.select) is Threshold else largest
            poolings[i] = dataclasses.replace(pooling, select=functools.partial(rule, number))
    return structure.clone(poolings=tuple(poolings)) if selections else structure
