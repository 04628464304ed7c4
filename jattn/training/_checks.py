"""Checks of what training and prediction are given: numbers, targets, labels, outputs, weights."""

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict
from jaxtyping import Float, Num
from jraph import GraphsTuple

from jattn._options import as_int, expect_at_least, expect_seeds
from jattn.graphs import expect_target
from jattn.nn import AttentionPoolingConfig, Network, sparse_topology
from jattn.training._config import TrainConfig
from jattn.types import Params, Task


def checked_numbers(seeds: Sequence[int], epochs: int, batch_size: int) -> tuple[list[int], int, int]:
    """Seeds, epochs and batch size as Python's integers; raises `ValueError` if one is no integer or out of range."""
    if np.ndim(cast(Any, seeds)) != 1:
        raise ValueError(f"seeds: expected a sequence of integers such as range(10), got {seeds!r}")
    numbers = [as_int(f"seeds[{i}]", seed) for i, seed in enumerate(seeds)]
    epochs, batch_size = as_int("epochs", epochs), as_int("batch_size", batch_size)
    expect_at_least(1, epochs=epochs, batch_size=batch_size, seeds=len(numbers))
    for seed in numbers:
        expect_seeds(seed, 1)
    return numbers, epochs, batch_size


def checked_target(
    attention: Any | None, graph_attention: Float[np.ndarray, " nodes"], seeds: int
) -> Float[np.ndarray, "seeds nodes"]:
    """The target attention of every seed, that of the graphs if None; raises `ValueError` if it is no valid target."""
    if attention is None:
        return np.tile(np.asarray(graph_attention, np.float32), (seeds, 1))
    if np.shape(attention) != (seeds, len(graph_attention)):
        raise ValueError(f"attention: expected shape {(seeds, len(graph_attention))}, got {np.shape(attention)}")
    expect_target("attention", np.asarray(attention))
    return np.asarray(attention, np.float32)


def expect_outputs(outputs: int, label: Num[np.ndarray, " graphs"], task: Task) -> None:
    """Raises `ValueError` if the network lacks the outputs that its task and labels need."""
    if task == "regression" and outputs != 1:
        raise ValueError(f"network: it has {outputs} outputs, but regression predicts 1 number per graph")
    if task == "classification" and (wrong := label != np.round(label)).any():
        raise ValueError(f"label[{wrong.argmax()}] is {label[wrong.argmax()]}: a class is a whole number")
    if task == "classification" and not (label.min() >= 0 and label.max() < outputs):
        advice = f"give Network(outputs={int(label.max()) + 1})" if label.min() >= 0 else "classes count from 0"
        raise ValueError(
            f"label: {label.min()} to {label.max()}, but the network has classes 0 to {outputs - 1}; {advice}"
        )


def warn_of_unused_weight(network: Network, config: TrainConfig, target: Float[np.ndarray, "seeds nodes"]) -> None:
    """Warns if the attention loss, though it has a weight, trains nothing."""
    if not config.attention_weight:
        return
    poolings = [pooling for pooling in network.poolings if isinstance(pooling, AttentionPoolingConfig)]
    advice = "or leave attention_weight at 0"
    without = f"attention_weight={config.attention_weight:g} has no effect:"
    # A subclass may pool where its fields don't say so.
    if type(network) is Network and all(pooling.scorer.kind == "ground_truth" for pooling in poolings):
        warnings.warn(
            f"{without} the network has no attention pooling with a trained scorer; give it poolings=(None, "
            f"AttentionPoolingConfig(...)), {advice}",
            stacklevel=3,
        )
    elif not target.any():
        warnings.warn(
            f"{without} target attention is 0 at all nodes of all graphs; give the graphs target attention, or "
            f"attention=, for example from leave_one_out_seeds, {advice}",
            stacklevel=3,
        )


def expect_params(network: Network, params: Params, graphs: GraphsTuple) -> None:
    """Raises `ValueError` unless weights with a leading axis of seeds are those of a network for these graphs.

    Subclasses of `Network` are not checked, because they may need other fields of a graph.
    """
    if type(network) is not Network:
        return
    columns = np.shape(graphs.nodes["features"])[1]
    expected = _param_shapes(network, columns)
    found = {"/".join(name): np.shape(array)[1:] for name, array in flatten_dict(params).items()}
    if surplus := sorted(found.keys() - expected.keys()):
        raise ValueError(f"params: {surplus[0]} is not a weight of the network, which has {sorted(expected)}")
    for name, shape in expected.items():
        if name not in found:
            raise ValueError(f"params: {name} is missing; there are {sorted(found)}")
        if found[name] != shape:
            if trained := _columns_of(network, found, columns):
                trained_on = f"these parameters were trained on {trained}"
                raise ValueError(f"features: the graphs have {columns} columns, {trained_on}")
            raise ValueError(f"params: {name} has shape {found[name]} for each seed, the network needs {shape}")


def _columns_of(network: Network, found: Mapping[str, tuple[int, ...]], columns: int) -> int | None:
    """The number of feature columns for which a network has weights of the shapes found; None if there is none."""
    # Sizes grow linearly with the columns, so that any size that differs between these two tells the number.
    here, next_ = _param_shapes(network, columns), _param_shapes(network, columns + 1)
    for name in here:
        for size, larger, actual in zip(here[name], next_[name], found.get(name, ()), strict=False):
            if larger > size:
                trained = columns + (actual - size) // (larger - size)
                return trained if trained > 0 and _param_shapes(network, trained) == found else None
    return None


@functools.lru_cache(maxsize=64)
def _param_shapes(network: Network, features: int) -> dict[str, tuple[int, ...]]:
    """Shape of every weight of a network by its path, for graphs with so many features."""

    def init() -> Params:
        rows, one = jnp.zeros(8), jnp.zeros(1, int)
        nodes = {"features": jnp.zeros((8, features)), "attention": rows}
        graph = GraphsTuple(nodes, rows[:1], one, one, {}, jnp.array([7, 1]), jnp.array([0, 1]))
        return network.init(jax.random.key(0), graph, sparse_topology(graph, jnp.array([True, False])))["params"]

    params = jax.eval_shape(init)
    return {"/".join(name): array.shape for name, array in flatten_dict(params).items()}


def num_seeds(params: Params) -> int:
    """Number of seeds of some weights.

    Raises:
      ValueError: the weights have no leading axis of seeds, or are not those of a network.
    """
    if "output" not in params:
        raise ValueError(f"params: expected a Network's, what `init` gives under 'params'; these are {sorted(params)}")
    bias = params["output"]["bias"]
    if np.ndim(bias) != 2:
        raise ValueError(
            "params: expected a leading axis of seeds; add it to those of one network with "
            "jax.tree.map(lambda x: x[None], params)"
        )
    return len(bias)
