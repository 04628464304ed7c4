"""Training and prediction of many seeds on a whole split."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from jraph import GraphsTuple

from jattn._choices import Aggregation
from jattn._cost_model import CostModel, cost_model
from jattn.batching import Bucket, DeviceDataset, device_put, evaluation_batches, shuffled_batches
from jattn.batching._packing import prediction_classes, round_up
from jattn.batching._training_batches import pack_training
from jattn.graphs import GRAPH_ID, TERMS, Proximity, expect_one_tuple, labels
from jattn.nn import Network, chebyshev_terms, sparse_topology
from jattn.training._checks import (
    checked_numbers,
    checked_target,
    expect_outputs,
    expect_params,
    num_seeds,
    warn_of_unused_weight,
)
from jattn.training._config import TrainConfig
from jattn.training._devices import (
    PARTS,
    SEEDS,
    devices_per_seed,
    psum_shards,
    put_by_seed,
    replicate,
    shard_batches,
    shard_seeds,
    to_host,
)
from jattn.training._epoch import Predictions, TrainState, make_epoch, make_init, make_predict
from jattn.training._numbers import Selections, TrainNumbers, separate, separate_training, with_selections
from jattn.types import Params

# Number of compiled programs of each kind that are cached. Each takes about 250 of the 65,530 memory maps that Linux
# allows a process, and every trial of a study has its own.
PROGRAMS = 16


class Epoch(NamedTuple):
    """One epoch of all seeds.

    Attributes:
      number: counted from 1.
      state: after the epoch, every array with a leading axis of seeds.
      loss: mean over the training graphs, [seeds].
      predictions: those made during the epoch, arrays [seeds, ...].
    """

    number: int
    state: TrainState
    loss: Float[Array, " seeds"]
    predictions: Predictions


class Trainer(NamedTuple):
    """Training that is ready to start or to resume.

    Attributes:
      state: state before the first epoch, every array with a leading axis of seeds.
      run: (state, number of epochs it was trained for) -> iterator over the epochs that are left.
    """

    state: TrainState
    run: Callable[[TrainState, int], Iterator[Epoch]]


def train_seeds(
    network: Network,
    config: TrainConfig,
    graphs: GraphsTuple,
    seeds: Sequence[int],
    epochs: int,
    batch_size: int = 32,
    attention: Float[np.ndarray, "seeds nodes"] | None = None,
    train_ids: Sequence[Int[np.ndarray, " _"]] | None = None,
) -> Iterator[Epoch]:
    """Trains a network for each seed, all in one program; yields after every epoch. Arguments as in `prepare_seeds`.

    >>> import jattn
    >>> graphs = jattn.datasets.generate_colors(train=8, validation=1, test=1)["train"]
    >>> *_, last = train_seeds(jattn.Network((4,)), jattn.TrainConfig(), graphs, seeds=range(2), epochs=2)
    >>> last.number, last.loss.shape
    (2, (2,))
    """
    training = prepare_seeds(network, config, graphs, seeds, epochs, batch_size, attention, train_ids)
    yield from training.run(training.state, 0)


def prepare_seeds(
    network: Network,
    config: TrainConfig,
    graphs: GraphsTuple,
    seeds: Sequence[int],
    epochs: int,
    batch_size: int = 32,
    attention: Float[np.ndarray, "seeds nodes"] | None = None,
    train_ids: Sequence[Int[np.ndarray, " _"]] | None = None,
) -> Trainer:
    """Prepares the training of a network for each seed, all in one program.

    Training that resumes from the state after an epoch gives the same bits as training that was not interrupted.

    Args:
      network: the architecture.
      config: settings of training.
      graphs: the training split, on the host, without padding.
      seeds: each seed determines the initial weights, dropout and order of graphs of its network, whatever other seeds
        there are.
      epochs: total number of epochs.
      batch_size: graphs of a step; the last step of an epoch takes the rest.
      attention: target attention for each seed; that of `graphs` by default.
      train_ids: the graphs that each seed trains on; all by default. So seeds with different training sets, or with
        folds of one, train in one program. Predictions for other graphs are 0.

    Raises:
      ValueError: `epochs` or `batch_size` is not a positive integer, there are no seeds, no graphs or no labels, a seed
        has more than 32 bits, `attention` has the wrong shape or an entry that is negative or not finite, a label is
        not a class, or the `train_ids` of seeds make different numbers of steps.

    Warns:
      UserWarning: `attention_weight` has no effect: all target attention is 0, or no pooling has a scorer to train.
    """
    seeds, epochs, batch_size = checked_numbers(seeds, epochs, batch_size)
    split = device_put(graphs)
    expect_outputs(network.outputs, np.asarray(labels(graphs)), config.task)
    target = checked_target(attention, np.asarray(graphs.nodes["attention"]), len(seeds))
    warn_of_unused_weight(network, config, target)
    orders = _batches_by_seed(seeds, epochs, np.asarray(graphs.n_node), batch_size, train_ids)
    parts, most_rows = devices_per_seed(len(seeds)), cost_model().chunk_rows(_widest(network, graphs))
    batches, bucket = pack_training(graphs, orders, parts, most_rows)  # [seeds, epochs, steps, parts * chunks, entries]
    split = replicate(_with_first_terms(split, network))
    per_seed = put_by_seed((target, _dropout_ids(train_ids, len(seeds), len(graphs.n_node))), len(seeds))
    config = dataclasses.replace(config, compact=config.compact and cost_model().compact)
    rows, costs = batches.shape[3] // parts * bucket.nodes, cost_model()
    sequential = run_sequentially(network, graphs, rows, config.compact)
    structure, plain, numbers = separate_training(network, config, orders.shape[2])
    run_epoch = _compiled_epoch(structure, plain, bucket, len(seeds), sequential, costs)
    run = functools.partial(_run_epochs, run_epoch, split, per_seed, batches, replicate(numbers))
    keys = jax.vmap(jax.random.key)(jax.device_put(np.array(seeds, np.uint32)))
    init = _compiled_init(separate(network, initial=True)[0], bucket, len(seeds), costs)
    return Trainer(init(keys, split), run)


# Cached, so that other seeds and numbers, as in the trials of a study, compile nothing.
@functools.lru_cache(maxsize=PROGRAMS)
def _compiled_epoch(
    structure: Network, config: TrainConfig, bucket: Bucket, seeds: int, sequential: bool, costs: CostModel
) -> Callable[..., Any]:
    train = make_epoch(structure, config, bucket, axis=PARTS)

    def epoch(
        state: TrainState,
        split: DeviceDataset,
        per_seed: tuple[Array, Array],
        batches: Array,
        numbers: TrainNumbers,
    ) -> tuple[TrainState, tuple[Array, Predictions]]:
        split = split.with_attention(per_seed[0])
        graphs = split.graphs._replace(globals={**split.graphs.globals, GRAPH_ID: per_seed[1]})
        split = dataclasses.replace(split, graphs=graphs)
        state, (loss, predictions) = train(state, split, batches, numbers)
        return state, (loss, psum_shards(predictions))

    specs = (SEEDS,), (), (SEEDS,), (SEEDS, None, PARTS), ()
    return shard_seeds(epoch, seeds, *specs, sequential=sequential, costs=costs)


@functools.lru_cache(maxsize=PROGRAMS)
def _compiled_init(structure: Network, bucket: Bucket, seeds: int, costs: CostModel) -> Callable[..., TrainState]:
    return shard_seeds(make_init(structure, bucket), seeds, (SEEDS,), (), optimize=False, costs=costs)


def _run_epochs(
    run_epoch: Callable[..., Any],
    split: DeviceDataset,
    per_seed: tuple[Array, Array],
    batches: Int[np.ndarray, "seeds epochs steps chunks entries"],
    numbers: TrainNumbers,
    state: TrainState,
    start_epoch: int,
) -> Iterator[Epoch]:
    """The epochs that are left after `start_epoch` of them."""
    epochs, prefetched = batches.shape[1], None
    for number in range(start_epoch + 1, epochs + 1):
        state, (loss, predictions) = prefetched or run_epoch(state, split, per_seed, batches[:, number - 1], numbers)
        # The device trains the next epoch while the caller looks at this one, so its state is not donated. Not with
        # several processes: fetching an array is a program that they share, and on CPUs two shared programs at the same
        # time can deadlock.
        if number < epochs and jax.process_count() == 1:
            prefetched = run_epoch(state, split, per_seed, batches[:, number], numbers)
        yield Epoch(number, state, loss, predictions)


def _with_first_terms(split: DeviceDataset, network: Network) -> DeviceDataset:
    """The split with the Chebyshev terms of its features, which are the same in every step.

    The split as it is if these terms need too much memory, if a pooling comes first, or if the network is of a
    subclass: then the features of the first layer may be others.
    """
    if type(network) is not Network:
        return split
    graphs = split.graphs
    nodes, features = graphs.nodes["features"].shape
    numbers = features * (network.order * nodes + len(graphs.senders))
    pools_first = any(pooling is not None for pooling in network.poolings[:1])
    if isinstance(graphs.edges, Proximity) or pools_first or not nodes or numbers > cost_model().precomputed_floats:
        return split

    terms = _first_terms(graphs, network.order, network.aggregation)
    return dataclasses.replace(split, graphs=graphs._replace(nodes={**graphs.nodes, TERMS: terms}))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _first_terms(graphs: GraphsTuple, order: int, aggregation: Aggregation) -> Float[Array, "nodes terms"]:
    topology = sparse_topology(graphs, jnp.ones(len(graphs.n_node), bool))
    x = graphs.nodes["features"].astype(jnp.float32)
    return jnp.concatenate(chebyshev_terms(x, topology, order, aggregation), axis=1)


def run_sequentially(network: Network, graphs: GraphsTuple, rows: int, compact: bool = False) -> bool:
    """Whether seeds run one after another: their networks are compact, or the rows of one seed alone fill a cache."""
    return (compact and network.can_compact) or cost_model().runs_sequentially(rows, _widest(network, graphs))


def _widest(network: Network, graphs: GraphsTuple) -> int:
    """Features of the widest layer."""
    return max(graphs.nodes["features"].shape[1], *network.filters)


def _batches_by_seed(
    seeds: Sequence[int],
    epochs: int,
    n_node: Int[np.ndarray, " graphs"],
    batch_size: int,
    train_ids: Sequence[Int[np.ndarray, " _"]] | None,
) -> Int[np.ndarray, "seeds epochs steps batch"]:
    """The batches of every seed, padded with -1."""
    if train_ids is None:
        return np.stack([shuffled_batches(seed, epochs, n_node, batch_size) for seed in seeds])
    if len(train_ids) != len(seeds):
        raise ValueError(f"train_ids: {len(train_ids)} are given, but there are {len(seeds)} seeds")
    for i, ids in enumerate(train_ids):
        if not np.issubdtype(ids.dtype, np.integer):
            raise ValueError(f"train_ids[{i}]: expected indices of graphs, got {ids.dtype}")
        if len(ids) and not (ids.min() >= 0 and ids.max() < len(n_node)):
            raise ValueError(f"train_ids[{i}]: {ids.min()} to {ids.max()}, but graphs are 0 to {len(n_node) - 1}")
        if len(np.unique(ids)) < len(ids):
            raise ValueError(f"train_ids[{i}]: a graph is given twice")
    steps = sorted({-(-len(ids) // batch_size) for ids in train_ids})
    if len(steps) != 1 or not steps[0]:
        raise ValueError(
            f"train_ids: expected the same number of steps per epoch for each seed, at least 1, got {steps}"
        )
    orders = [
        np.append(ids, -1)[shuffled_batches(seed, epochs, n_node[ids], batch_size)]
        for seed, ids in zip(seeds, train_ids, strict=True)
    ]
    return np.stack(orders)


def _dropout_ids(
    train_ids: Sequence[Int[np.ndarray, " _"]] | None, seeds: int, graphs: int
) -> Int[np.ndarray, "seeds graphs"]:
    """Index of every graph in the training set of each seed; it seeds dropout."""
    dropout_ids = np.tile(np.arange(graphs, dtype=np.int32), (seeds, 1))
    for row, ids in zip(dropout_ids, train_ids or (), strict=False):
        row[ids] = np.arange(len(ids))
    return dropout_ids


def predict_seeds(network: Network, params: Params, graphs: GraphsTuple, *, compact: bool = False) -> Predictions:
    """Predictions of the network of every seed for a split: numpy arrays [seeds, ...] in the split's order.

    Splits of few graphs are padded to sizes that are powers of 2, so that a few programs serve all of them.

    Args:
      network: the architecture.
      params: weights with a leading axis of seeds.
      graphs: the split, on the host.
      compact: as in `Network.__call__`; the seeds of a device are then computed one after another.

    Raises:
      ValueError: there are no graphs, or the weights have no axis of seeds or are not those of the network.
    """
    costs, parts = cost_model(), []
    compact = compact and costs.compact
    seeds, params, split, rounded = put_split(network, params, graphs, costs.evaluation_rows)
    structure, selections = separate(network)
    classes = prediction_classes(graphs)
    for packed in evaluation_batches(graphs, costs.evaluation_rows, devices_per_seed(seeds), classes):
        batches, bucket = round_up(*packed) if rounded else packed
        sequential = run_sequentially(network, graphs, bucket.nodes, compact)
        predict = _compiled_predict(structure, bucket, seeds, sequential, compact, costs)
        parts.append(to_host(predict(params, split, batches, selections)))
    result, count, nodes = jax.tree.map(_sum_shards, *parts), len(graphs.n_node), int(np.sum(graphs.n_node))
    attention, node_masks = ([array[:, :nodes] for array in arrays] for arrays in (result.attention, result.node_masks))
    return Predictions(result.prediction[:, :count], tuple(attention), tuple(node_masks))


def put_split(
    network: Network, params: Params, graphs: GraphsTuple, rows: int
) -> tuple[int, Params, DeviceDataset, bool]:
    """Number of seeds, weights on the host, the split on the devices, and whether its sizes are rounded.

    They are rounded up to powers of 2 if the split fits in one batch: it is one graph, or has at most so many rows.

    Raises:
      ValueError: there are no graphs, or the weights have no axis of seeds or are not those of the network.
    """
    expect_one_tuple(graphs)
    seeds = num_seeds(params)
    rounded = len(graphs.n_node) == 1 or int(np.sum(graphs.n_node)) <= rows
    split = replicate(device_put(graphs, rounded))
    params = to_host(params)  # from whichever devices they are on
    expect_params(network, params, graphs)
    return seeds, params, split, rounded


# Cached, so that another split or call of the same sizes compiles nothing.
@functools.lru_cache(maxsize=PROGRAMS)
def _compiled_predict(
    structure: Network, bucket: Bucket, seeds: int, sequential: bool, compact: bool, costs: CostModel
) -> Callable[..., Predictions]:
    def predict(params: Params, split: DeviceDataset, batches: Array, selections: Selections) -> Predictions:
        return make_predict(with_selections(structure, selections), bucket, compact)(params, split, batches)

    return shard_batches(predict, seeds, sequential, costs)


def _sum_shards(*parts: np.ndarray) -> np.ndarray:
    """Sum of arrays that each have other rows filled and zeros elsewhere."""
    return sum(parts[1:], start=parts[0])
