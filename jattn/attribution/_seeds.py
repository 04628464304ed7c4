"""Leave-one-out of a whole split by many networks at once, seen from the host.

Small graphs are batched and copied, a node missing from each copy (`leave_one_out`). Of large sparse graphs all that is
computed again is a ball around the node (`balls`).
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from jraph import GraphsTuple

from jattn._cost_model import CostModel, cost_model
from jattn._options import expect_one_of
from jattn.attribution._khop import (
    FullGraphActivations,
    SubgraphBatch,
    full_graph_activations,
    predict_without_each,
    subgraph_batches,
)
from jattn.attribution._leave_one_out import LeaveOneOut, leave_one_out, normalize_attribution
from jattn.batching import (
    Bucket,
    DeviceDataset,
    SparseStorage,
    device_put,
    ell_width,
    evaluation_batches,
    gather,
    scatter,
    size_classes,
)
from jattn.batching._packing import round_up
from jattn.graphs import Proximity, select
from jattn.nn import Network, Output, SparseTopology
from jattn.training import Params, Task
from jattn.training._devices import PARTS, SEEDS, devices_per_seed, replicate, shard_batches, shard_seeds, to_host
from jattn.training._seeds import PROGRAMS, expect_params, fits_one_batch, num_seeds, run_sequentially


def leave_one_out_seeds(
    network: Network,
    params: Params,
    graphs: GraphsTuple,
    task: Task,
    progress: Callable[[int], Any] = lambda graphs: None,
) -> LeaveOneOut:
    """Leave-one-out attention of every seed's network for a host-side split: numpy arrays [seeds, ...], in its order.

    It computes in float32 at the highest precision, whatever the network's fields say.

    Args:
      network: the architecture; of a subclass, copies of every graph are predicted, never balls alone.
      params: weights with a leading axis of seeds.
      graphs: the split.
      task: what the network predicts.
      progress: called now and then with the number of graphs that were done since the last call.

    Raises:
      ValueError: the task is not known, there are no graphs, the weights have no axis of seeds, or they are not this
        network's.
    """
    expect_one_of("task", task, Task)
    network = network.at("highest")
    seeds, costs = num_seeds(params), cost_model()
    nodes = costs.cached_rows(costs.leave_one_out_nodes, max(network.filters))
    rounded = fits_one_batch(graphs, nodes)
    split = replicate(device_put(graphs, rounded))
    params = to_host(params)  # from whichever devices they are on
    expect_params(network, params, graphs)
    n_node = np.asarray(graphs.n_node)
    count, total = len(n_node), int(n_node.sum())
    result = LeaveOneOut(*(np.zeros((seeds, size), np.float32) for size in (total, total, count)))
    by_ball = np.zeros(count, bool)
    found = []
    for i, *of_graph in _khop_predictions(network, params, graphs, split):
        by_ball[i] = True
        found.append(of_graph)
        progress(1)
    if found:
        _fill_in(result, by_ball, n_node, found, task)

    rest = np.flatnonzero(~by_ball)
    one_by_one = run_sequentially(network, graphs, costs.leave_one_out_rows)
    sizes = size_classes(graphs._replace(n_node=n_node[rest]))
    for packed in evaluation_batches(graphs, nodes, devices_per_seed(seeds), sizes, rest):
        batches, bucket = round_up(*packed) if rounded else packed
        left_out = _compiled_copies(network, bucket, task, seeds, one_by_one, costs)
        for piece in _pieces(batches, costs.progress_batches):
            of_piece = to_host(left_out(params, split, piece))
            result = LeaveOneOut(*(a + b[:, : a.shape[1]] for a, b in zip(result, of_piece, strict=True)))
            progress(int((piece >= 0).sum()))
    return result


def _fill_in(
    result: LeaveOneOut,
    by_ball: Bool[np.ndarray, " graphs"],
    n_node: Int[np.ndarray, " graphs"],
    found: list[list[np.ndarray]],
    task: Task,
) -> None:
    """Writes what follows from each found graph's predictions, [seeds, outputs], and those without each node."""
    whole, without = np.stack([of for of, _ in found], axis=1), np.concatenate([of for _, of in found], axis=1)
    graph_of = np.repeat(np.arange(len(found), dtype=np.int32), n_node[by_ball])
    arguments = jax.device_put((whole, without, graph_of, np.ones(len(graph_of), bool)))
    of_found = jax.device_get(_normalize_seeds(*arguments, task))
    rows = np.repeat(by_ball, n_node)
    for array, values, where in zip(result, of_found, (rows, rows, by_ball), strict=True):
        array[:, where] = values


@functools.partial(jax.jit, static_argnums=4)
def _normalize_seeds(whole: Array, without: Array, node_graph: Array, real: Array, task: Task) -> LeaveOneOut:
    normalize = functools.partial(normalize_attribution, task=task)
    return jax.vmap(normalize, in_axes=(0, 0, None, None))(whole, without, node_graph, real)


def _pieces(
    batches: Int[np.ndarray, "parts steps entries"], most: int
) -> Iterator[Int[np.ndarray, "parts steps entries"]]:
    """Steps in pieces of equal length, filled up with empty ones, so that one program runs them all."""
    steps = -(-batches.shape[1] // -(-batches.shape[1] // most))
    for start in range(0, batches.shape[1], steps):
        piece = batches[:, start : start + steps]
        yield np.pad(piece, ((0, 0), (0, steps - piece.shape[1]), (0, 0)), constant_values=-1)


def _khop_predictions(
    network: Network, params: Params, graphs: GraphsTuple, split: DeviceDataset
) -> Iterator[tuple[int, Float[np.ndarray, "seeds outputs"], Float[np.ndarray, "seeds nodes outputs"]]]:
    """Predictions of the large sparse graphs, and those without each node."""
    seeds, costs = num_seeds(params), cost_model()
    shape = devices_per_seed(seeds), costs.subgraph_chunks
    ids = _large_and_sparse(network, graphs)
    width, others = ell_width(graphs, ids)
    ahead: tuple[int, Array, list[Array]] | None = None  # the devices work on it while the host finds the next balls
    for i in ids.tolist():
        chunks = subgraph_batches(select(graphs, np.array([i])), network, width, costs.subgraph_share)
        if chunks is None:
            continue
        bucket = _bucket(graphs, i, width, int(others[i]))
        of_graph, of_balls = _compiled_khop(network, bucket, seeds, costs)
        prediction, whole = of_graph(params, split, np.array([i], np.int32))
        pieces = [of_balls(params, whole, piece) for piece in _subgraph_pieces(chunks, *shape)]
        if ahead is not None:
            yield _collect(*ahead, graphs)
        ahead = i, prediction, pieces
    if ahead is not None:
        yield _collect(*ahead, graphs)


def _collect(i: int, prediction: Array, pieces: list[Array], graphs: GraphsTuple) -> tuple[int, np.ndarray, np.ndarray]:
    said, found = to_host((prediction, pieces))
    without = np.sum([np.asarray(piece).sum(1) for piece in found], axis=0)
    return i, np.asarray(said), without[:, : graphs.n_node[i]]


def _large_and_sparse(network: Network, graphs: GraphsTuple) -> Int[np.ndarray, " chosen"]:
    """Graphs whose balls are worth looking at."""
    if any(network.poolings) or isinstance(graphs.edges, Proximity) or type(network) is not Network:
        return np.zeros(0, int)
    graph_of = np.repeat(np.arange(len(graphs.n_node)), graphs.n_node)
    degree = np.bincount(graphs.receivers, minlength=len(graph_of))
    most = np.zeros(len(graphs.n_node), int)
    np.maximum.at(most, graph_of, degree)
    costs = cost_model()
    return np.flatnonzero((graphs.n_node >= costs.subgraph_nodes) & (most <= costs.subgraph_degree))


def _bucket(graphs: GraphsTuple, i: int, width: int, others: int) -> Bucket:
    """Holds graph i. Of sizes between the smallest and the largest graph there are few, so that little is compiled.

    Args:
      graphs: the split.
      i: the graph.
      width: edges of a node that are laid side by side.
      others: how many edges of the graph are not.
    """

    def doubled(size: int, needed: int) -> int:
        return size if size > needed else doubled(2 * size, needed)

    least = cost_model().subgraph_nodes
    nodes, edges = doubled(least, int(graphs.n_node[i])), doubled(least * max(width, 1), int(graphs.n_edge[i]))
    return Bucket(
        nodes, edges, graphs=2, max_nodes=nodes, storage=SparseStorage(width, doubled(-(-least // 4), others))
    )


def _subgraph_pieces(chunks: SubgraphBatch, parts: int, steps: int) -> Iterator[SubgraphBatch]:
    """Chunks as [parts, steps, ...], filled up with empty ones."""
    for start in range(0, len(chunks.removed), parts * steps):
        piece = [array[start : start + parts * steps] for array in chunks]
        fill = parts * steps - len(piece[0])
        filled = [np.concatenate([array, np.full((fill, *array.shape[1:]), -1, array.dtype)]) for array in piece]
        yield SubgraphBatch(*(array.reshape(parts, steps, -1) for array in filled))


# Kept, so that a second split or call of the same sizes compiles nothing.
@functools.lru_cache(maxsize=PROGRAMS)
def _compiled_khop(
    network: Network, bucket: Bucket, seeds: int, costs: CostModel
) -> tuple[Callable[..., Any], Callable[..., Array]]:
    def of_graph(params: Params, split: DeviceDataset, ids: Array) -> tuple[Array, FullGraphActivations]:
        batch = gather(split, ids, bucket)
        prediction, whole = full_graph_activations(network, params, batch.graph, cast(SparseTopology, batch.topology))
        return prediction[0], whole

    def of_balls(
        params: Params, whole: FullGraphActivations, chunks: SubgraphBatch
    ) -> Float[Array, "part nodes outputs"]:
        own = jax.tree.map(lambda array: array[0], chunks)
        predictions = jax.lax.map(lambda chunk: predict_without_each(network, params, whole, chunk), own)
        removed = jnp.where(own.removed < 0, bucket.nodes, own.removed)
        # Devices are not made to wait for each other: of programs that run at once, each could wait for another's.
        return scatter(bucket.nodes, removed, predictions)[None]

    over_seeds = functools.partial(shard_seeds, sequential=costs.sequential_floats is not None, costs=costs)
    return (
        over_seeds(of_graph, seeds, (SEEDS,), (), ()),
        over_seeds(of_balls, seeds, (SEEDS,), (SEEDS,), (PARTS,), result=(SEEDS, PARTS)),
    )


@functools.lru_cache(maxsize=PROGRAMS)
def _compiled_copies(
    network: Network, bucket: Bucket, task: Task, seeds: int, one_by_one: bool, costs: CostModel
) -> Callable[..., LeaveOneOut]:
    return shard_batches(_make_labels(network, bucket, task), seeds, one_by_one, costs)


def _make_labels(network: Network, bucket: Bucket, task: Task) -> Callable[..., LeaveOneOut]:
    """A function that leaves out the nodes of the graphs of some batches; for a split's other graphs it gives 0."""

    def labels(params: Params, split: DeviceDataset, batches: Array) -> LeaveOneOut:
        def one(ids: Array) -> tuple[Array, Array, LeaveOneOut]:
            batch = gather(split, ids, bucket)

            def predict(graph: GraphsTuple, kept: Bool[Array, "nodes"]) -> Float[Array, "graphs outputs"]:
                output = network.apply({"params": params}, graph, batch.topology.subgraph(kept))
                return cast(Output, output).prediction

            costs = cost_model()
            rows = costs.cached_rows(costs.leave_one_out_rows, max(network.filters))
            chunk = max(1, rows // bucket.nodes)
            result = leave_one_out(
                predict, batch.graph, bucket.max_nodes, task=task, chunk=chunk, real=batch.topology.graph_mask
            )
            return batch.graph_ids, batch.node_ids, result

        graph_ids, node_ids, result = jax.lax.map(one, batches)
        graphs, nodes = len(split.node_start), len(split.graphs.nodes["attention"])
        return LeaveOneOut(
            scatter(nodes, node_ids, result.attention),
            scatter(nodes, node_ids, result.target),
            scatter(graphs, graph_ids, result.total_change),
        )

    return labels
