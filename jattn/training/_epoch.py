"""Training as pure functions: one compiled program per epoch.

`make_train` returns `init` and `epoch` for one seed. The caller puts jit and a vmap over seeds around them:

    orders = np.stack([shuffled_batches(seed, epochs, graphs.n_node, batch=32) for seed in seeds])
    batches, bucket = pack(graphs, orders)
    train = make_train(network, config, bucket, steps_per_epoch=batches.shape[2])
    split, keys = device_put(graphs), jnp.stack([jax.random.key(seed) for seed in seeds])
    states = jax.vmap(train.init, in_axes=(0, None))(keys, split)
    epoch = jax.jit(jax.vmap(train.epoch, in_axes=(0, None, 0)), donate_argnums=0)
    for number in range(epochs):
        states, (loss, predictions) = epoch(states, split, batches[:, number, :, 0])
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jattn.batching import Batch, Bucket, DeviceDataset, gather, scatter
from jattn.graphs import GRAPH_ID, labels
from jattn.nn import Network, Output
from jattn.training._config import TrainConfig
from jattn.training._losses import attention_loss, auxiliary_loss, task_loss
from jattn.training._numbers import TrainNumbers, numbers_of, with_selections
from jattn.training._optimizer import Rates, adam, as_vector
from jattn.types import AnyArray, Params


class TrainState(NamedTuple):
    """Everything that a training step changes."""

    params: Params
    optimizer: optax.OptState
    key: PRNGKeyArray


class Predictions(NamedTuple):
    """Predictions for a split, in the split's order; for several seeds with a leading axis.

    Attributes:
      prediction: outputs, [graphs, outputs].
      attention: alpha of each attention pooling, 0 for nodes dropped before it, [nodes].
      node_masks: nodes kept by each attention pooling, [nodes].
    """

    prediction: Float[AnyArray, "*seeds graphs outputs"]
    attention: tuple[Float[AnyArray, "*seeds nodes"], ...]
    node_masks: tuple[Bool[AnyArray, "*seeds nodes"], ...]


# (state, split, batches [steps, chunks, entries], numbers) -> (state, (mean loss, predictions made during the epoch))
EpochFunction = Callable[[Any, DeviceDataset, Array, TrainNumbers], tuple[Any, tuple[Array, Predictions]]]


class TrainFunctions(NamedTuple):
    """The two functions that `make_train` returns.

    Attributes:
      init: (key, split) -> TrainState.
      epoch: (state, split, batches [steps, entries]) -> (state, (mean loss, Predictions made during the epoch)).
    """

    init: Callable[[PRNGKeyArray, DeviceDataset], TrainState]
    epoch: Callable[
        [TrainState, DeviceDataset, Int[Array, "steps entries"]],
        tuple[TrainState, tuple[Float[Array, ""], Predictions]],
    ]


def make_train(
    network: Network, config: TrainConfig, bucket: Bucket, steps_per_epoch: int, axis: str | None = None
) -> TrainFunctions:
    """The functions that train a network of one seed.

    Args:
      network: the architecture.
      config: settings of training.
      bucket: size of every batch.
      steps_per_epoch: batches of an epoch.
      axis: name of a mapped axis whose members share every batch. Each gets graphs of its own, and all take the same
        step, by the gradient of the mean over all graphs. Predictions are 0 for graphs of other members.
    """
    numbers = numbers_of(network, config, steps_per_epoch)
    run = make_epoch(network, config, bucket, axis)

    def epoch(state: TrainState, split: DeviceDataset, batches: Array) -> tuple[TrainState, tuple[Array, Predictions]]:
        return run(state, split, batches[:, None], numbers)

    return TrainFunctions(make_init(network, bucket), epoch)


def make_init(network: Network, bucket: Bucket) -> Callable[[PRNGKeyArray, DeviceDataset], TrainState]:
    """The function that makes the state before training from a key and the split."""

    def init(key: PRNGKeyArray, split: DeviceDataset) -> TrainState:
        init_key, key = jax.random.split(key)
        batch = gather(split, jnp.full(bucket.graphs, -1), bucket)
        params = network.init(init_key, batch.graph, batch.topology)["params"]
        return TrainState(params, adam(Rates(0.0, (), 0.0)).init(as_vector(params)[0]), key)

    return init


def make_epoch(structure: Network, config: TrainConfig, bucket: Bucket, axis: str | None = None) -> EpochFunction:
    """The function that trains a network of one seed for an epoch.

    Args:
      structure: the network; its dropout and the numbers of its poolings are those of the function's argument.
      config: settings of training; its numbers are those of the function's argument, but for whether they are 0.
      bucket: size of every batch.
      axis: as in `make_train`.
    """
    structure = structure if config.precision is None else structure.with_precision(config.precision)
    over_all = functools.partial(jax.lax.psum, axis_name=axis) if axis else lambda x: x
    loss = _make_loss(config)

    def step(
        state: TrainState,
        unravel: Callable[[Array], Params],
        split: DeviceDataset,
        ids: Array,
        count: Array,
        numbers: TrainNumbers,
    ) -> tuple[TrainState, tuple[Array, tuple[Array, Array, Output]]]:
        network, optimizer = with_selections(structure, numbers.selections), adam(numbers.rates, axis)
        key, dropout_key = jax.random.split(state.key) if network.dropout else (state.key, state.key)

        def gradient_of(ids: Array) -> tuple[tuple[Array, Array], Any]:
            batch = gather(split, ids, bucket)
            of_loss = jax.value_and_grad(lambda vector, *inputs: loss(unravel(vector), *inputs), has_aux=True)
            (value, output), gradient = of_loss(state.params, network, numbers, batch, count, dropout_key)
            return (value, gradient), (batch.graph_ids, batch.node_ids, output)

        (value, gradient), made = _sum_chunks(gradient_of, ids)
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of an integer
            updates, optimizer_state = optimizer.update(gradient, state.optimizer, state.params)
        return TrainState(optax.apply_updates(state.params, updates), optimizer_state, key), (value, made)

    def epoch(
        state: TrainState, split: DeviceDataset, batches: Array, numbers: TrainNumbers
    ) -> tuple[TrainState, tuple[Array, Predictions]]:
        vector, unravel = as_vector(state.params)  # in place of the weights while the steps run

        def body(state: TrainState, step_input: tuple[Array, Array]) -> tuple[TrainState, Any]:
            state, (value, made) = step(state, unravel, split, *step_input, numbers)
            return state, (value * step_input[1].astype(value.dtype), made)

        counts = over_all((batches >= 0).sum((1, 2)))
        state, (values, made) = jax.lax.scan(body, state._replace(params=vector), (batches, counts))
        mean_loss = over_all(values.sum()) / counts.sum().astype(values.dtype)
        return state._replace(params=unravel(state.params)), (mean_loss, in_split_order(split, *made))

    return epoch


def _make_loss(config: TrainConfig) -> Callable[..., tuple[Array, Output]]:
    """The function that gives the loss of a batch, part of a mean over `count` graphs, and the outputs."""
    execution: Any = {"compact": True} if config.compact else {}  # subclasses of `Network` may not know it

    def loss(
        params: Params, network: Network, numbers: TrainNumbers, batch: Batch, count: Array, key: PRNGKeyArray
    ) -> tuple[Array, Output]:
        graph, topology = batch.graph, batch.topology
        graph = graph._replace(globals={GRAPH_ID: batch.graph_ids, **graph.globals})
        options: Any = {"train": True, "rngs": {"dropout": key}} | execution
        if type(network) is Network and network.dropout:
            options["dropout"] = numbers.dropout
        output = cast(Output, network.apply({"params": params}, graph, topology, **options))
        total = task_loss(output.prediction, labels(graph), topology.graph_mask, config.task, count)
        for per_graph in output.auxiliary:
            total += auxiliary_loss(per_graph, topology.graph_mask, count)
        if config.attention_weight:
            target = graph.nodes["attention"]
            for pooled in output.poolings:
                total += numbers.attention_weight * attention_loss(pooled, target, topology, count)
        return total, output

    return loss


def _sum_chunks(function: Callable[[Array], tuple[Any, Any]], ids: Int[Array, "chunks entries"]) -> tuple[Any, Any]:
    """Applies a function to one chunk after another; sums its first result, and returns its second for every chunk."""
    if len(ids) == 1:
        total, made = function(ids[0])
        return total, jax.tree.map(lambda x: x[None], made)

    def add(total: Any, ids: Array) -> tuple[Any, Any]:
        more, made = function(ids)
        return jax.tree.map(jnp.add, total, more), made

    zeros = jax.tree.map(jnp.zeros_like, jax.eval_shape(function, ids[0])[0])
    return jax.lax.scan(add, zeros, ids)


def make_predict(
    network: Network, bucket: Bucket, compact: bool = False
) -> Callable[[Params, DeviceDataset, Int[Array, "steps entries"]], Predictions]:
    """A function that predicts the graphs of some batches, 0 for other graphs of the split.

    Args:
      network: the architecture.
      bucket: size of every batch.
      compact: as in `Network.__call__`.
    """
    execution: Any = {"compact": True} if compact else {}  # subclasses of `Network` may not know it

    def predict(params: Params, split: DeviceDataset, batches: Array) -> Predictions:
        def one(ids: Array) -> tuple[Array, Array, Output]:
            batch = gather(split, ids, bucket)
            output = cast(Output, network.apply({"params": params}, batch.graph, batch.topology, **execution))
            return batch.graph_ids, batch.node_ids, output

        return in_split_order(split, *jax.lax.map(one, batches))

    return predict


def in_split_order(
    split: DeviceDataset, graph_ids: Int[Array, "*steps graphs"], node_ids: Int[Array, "*steps nodes"], outputs: Output
) -> Predictions:
    """Outputs of several batches, [*steps, ...], in the order of the split."""
    graphs, nodes = len(split.node_start), len(split.graphs.nodes["attention"])
    return Predictions(
        scatter(graphs, graph_ids, outputs.prediction),
        tuple(scatter(nodes, node_ids, pooled.attention) for pooled in outputs.poolings),
        tuple(scatter(nodes, node_ids, pooled.node_mask) for pooled in outputs.poolings),
    )
