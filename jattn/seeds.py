"""Whole splits and many seeds at once: training, predicting and leaving nodes out, seen from the host."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from jraph import GraphsTuple

from jattn.batching import Bucket, Split, gather, put, scatter
from jattn.leave_one_out import LeaveOneOut, leave_one_out
from jattn.losses import Task
from jattn.model import Network, Output
from jattn.packing import pack, plan, shuffled_batches, size_classes
from jattn.parallel import PARTS, SEEDS, over_devices, parts_of, sum_parts
from jattn.training import Params, Predictions, State, TrainConfig, make_predict, make_train

EVALUATION_NODES = 1024  # rows of a batch where no gradient is taken
LABEL_NODES = 500  # the same for leave-one-out, whose graphs of a batch should be alike in size
CACHED = 160_000  # numbers of the widest layer up to which leave-one-out runs in a core's cache, a third faster
PIECE = 100  # of its batches, after which leave-one-out tells how far it is
LEFT_OUT_ROWS = 1024  # rows that leave-one-out predicts together: copies of a batch times its nodes


class Epoch(NamedTuple):
    """One epoch of all seeds.

    Attributes:
      number: counted from 1.
      state: after the epoch, every array with a leading axis of seeds.
      loss: mean over the training graphs, [seeds].
      predictions: as they were made on the way through the epoch, arrays [seeds, ...].
    """

    number: int
    state: State
    loss: Float[Array, "seeds"]
    predictions: Predictions


def train_seeds(
    network: Network,
    config: TrainConfig,
    graphs: GraphsTuple,
    seeds: Sequence[int],
    epochs: int,
    batch_size: int = 32,
    attention: Float[np.ndarray, "seeds nodes"] | None = None,
) -> Iterator[Epoch]:
    """Trains one network a seed, all in one program; yields after every epoch.

    Args:
      network: the architecture.
      config: how to train it.
      graphs: the host-side training split, without padding.
      seeds: each determines its network's initial weights, dropout and order of graphs, whatever other seeds there are.
      epochs: how many.
      batch_size: graphs a step; the last step of an epoch takes what is left.
      attention: target attention of each seed; that of `graphs` for all where not given.

    Raises:
      ValueError: a number is not positive, there are no seeds or no graphs, `attention` has the wrong shape, or a label
        is not a class.
    """
    for name, value in (("epochs", epochs), ("batch_size", batch_size), ("seeds", len(seeds))):
        if value < 1:
            raise ValueError(f"{name}: {value} is not allowed, expected at least 1")
    _expect_graphs(graphs)
    label = np.asarray(graphs.globals["label"])
    if config.task == "classification" and not (label.min() >= 0 and label.max() < network.outputs):
        raise ValueError(
            f"label: {label.min()} to {label.max()}, but the network has classes 0 to {network.outputs - 1}"
        )
    n_node = np.asarray(graphs.n_node)
    orders = np.stack([shuffled_batches(seed, epochs, n_node, batch_size) for seed in seeds])
    batches, bucket = pack(graphs, orders, parts_of(len(seeds)))  # [seeds, epochs, steps, parts, entries]
    train = make_train(network, config, bucket, orders.shape[2], axis=PARTS)
    split = put(graphs)
    if attention is None:
        attention = np.tile(np.asarray(graphs.nodes["attention"]), (len(seeds), 1))
    if np.shape(attention) != (len(seeds), n_node.sum()):
        raise ValueError(f"attention: expected shape {(len(seeds), int(n_node.sum()))}, got {np.shape(attention)}")
    targets = jnp.asarray(attention)

    def epoch(state: State, split: Split, target: Array, batches: Array) -> tuple[State, tuple[Array, Predictions]]:
        state, (loss, predictions) = train.epoch(state, split.with_attention(target), batches[:, 0])
        return state, (loss, sum_parts(predictions))

    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    state = over_devices(train.init, len(seeds), (SEEDS,), (), optimize=False)(keys, split)
    specs = (SEEDS,), (), (SEEDS,), (SEEDS, None, PARTS)
    run_epoch = over_devices(epoch, len(seeds), *specs, one_by_one=network.compact)
    ahead = run_epoch(state, split, targets, batches[:, 0])
    for number in range(1, epochs + 1):
        state, (loss, predictions) = ahead
        if number < epochs:  # the device trains on while the caller looks at this epoch, whose state it must not reuse
            ahead = run_epoch(state, split, targets, batches[:, number])
        yield Epoch(number, state, loss, predictions)


def predict_seeds(network: Network, params: Params, graphs: GraphsTuple) -> Predictions:
    """Predictions of every seed's network for a host-side split: numpy arrays [seeds, ...] in the split's own order.

    Args:
      network: the architecture.
      params: weights with a leading axis of seeds.
      graphs: the split.

    Raises:
      ValueError: there are no graphs.
    """
    _expect_graphs(graphs)
    split, seeds = put(graphs), len(jax.tree.leaves(params)[0])
    parts = [
        jax.device_get(_compiled_predict(network, bucket, seeds)(params, split, batches))
        for batches, bucket in plan(graphs, EVALUATION_NODES, parts_of(seeds), size_classes(graphs))
    ]
    return jax.tree.map(_join, *parts)


def leave_one_out_seeds(
    network: Network,
    params: Params,
    graphs: GraphsTuple,
    task: Task,
    progress: Callable[[int], Any] = lambda graphs: None,
) -> LeaveOneOut:
    """Leave-one-out attention of every seed's network for a host-side split: numpy arrays [seeds, ...], in its order.

    Args:
      network: the architecture.
      params: weights with a leading axis of seeds.
      graphs: the split.
      task: what the network predicts.
      progress: called now and then with the number of graphs that were done since the last call.

    Raises:
      ValueError: there are no graphs.
    """
    _expect_graphs(graphs)
    split, seeds = put(graphs), len(jax.tree.leaves(params)[0])
    result: LeaveOneOut | None = None
    nodes = min(LABEL_NODES, CACHED // max(network.filters))
    for batches, bucket in plan(graphs, nodes, parts_of(seeds), size_classes(graphs)):
        left_out = _compiled_labels(network, bucket, task, seeds)
        for piece in _pieces(batches):
            part = jax.device_get(left_out(params, split, piece))
            result = part if result is None else jax.tree.map(np.add, result, part)
            progress(int((piece >= 0).sum()))
    return cast(LeaveOneOut, result)


def _pieces(batches: Int[np.ndarray, "parts steps entries"]) -> Iterator[Int[np.ndarray, "parts steps entries"]]:
    """Steps in pieces of equal length, filled up with empty ones, so that one program runs them all."""
    steps = -(-batches.shape[1] // -(-batches.shape[1] // PIECE))
    for start in range(0, batches.shape[1], steps):
        piece = batches[:, start : start + steps]
        yield np.pad(piece, ((0, 0), (0, steps - piece.shape[1]), (0, 0)), constant_values=-1)


def _expect_graphs(graphs: GraphsTuple) -> None:
    if not len(graphs.n_node):
        raise ValueError("graphs: expected at least one graph")


# Kept, so that a second split or call of the same sizes compiles nothing.
@functools.lru_cache(maxsize=64)
def _compiled_predict(network: Network, bucket: Bucket, seeds: int) -> Callable[..., Predictions]:
    return _over_batches(make_predict(network, bucket), seeds)


@functools.lru_cache(maxsize=64)
def _compiled_labels(network: Network, bucket: Bucket, task: Task, seeds: int) -> Callable[..., LeaveOneOut]:
    return _over_batches(_make_labels(network, bucket, task), seeds)


def _over_batches(function: Callable[[Params, Split, Array], Any], seeds: int) -> Callable[..., Any]:
    """Compiles a function of [steps, entries] batches for [parts, steps, entries], each part on a device of its own."""

    def of_part(params: Params, split: Split, batches: Array) -> Any:
        return sum_parts(function(params, split, batches[0]))

    return over_devices(of_part, seeds, (SEEDS,), (), (PARTS,))


def _make_labels(network: Network, bucket: Bucket, task: Task) -> Callable[..., LeaveOneOut]:
    """A function that leaves out the nodes of the graphs of some batches; for a split's other graphs it gives 0."""

    def labels(params: Params, split: Split, batches: Array) -> LeaveOneOut:
        def one(ids: Array) -> tuple[Array, Array, LeaveOneOut]:
            batch = gather(split, ids, bucket)

            def predict(graph: GraphsTuple, kept: Bool[Array, "nodes"]) -> Float[Array, "graphs outputs"]:
                output = network.apply({"params": params}, graph, batch.topology.keep(kept))
                return cast(Output, output).prediction

            rows = min(LEFT_OUT_ROWS, CACHED // max(network.filters))
            chunk = max(1, rows // bucket.nodes)
            result = leave_one_out(
                predict, batch.graph, bucket.largest, task=task, chunk=chunk, real=batch.topology.real
            )
            return batch.graph_ids, batch.node_ids, result

        graph_ids, node_ids, result = jax.lax.map(one, batches)
        graphs, nodes = len(split.node_start), len(split.graphs.nodes["attention"])
        return LeaveOneOut(
            scatter(nodes, node_ids, result.attention),
            scatter(nodes, node_ids, result.target),
            scatter(graphs, graph_ids, result.moved),
        )

    return labels


def _join(*parts: np.ndarray) -> np.ndarray:
    """Joins arrays of which each has its own rows filled and zeros elsewhere."""
    return sum(parts[1:], start=parts[0])
