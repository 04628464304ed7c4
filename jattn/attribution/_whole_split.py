"""Leave-one-out attribution of a whole split by the networks of many seeds.

Small graphs are batched and copied, with another node missing from each copy (`leave_one_out`). For large sparse graphs
only the k-hop subgraph around each node is computed again.
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
from jattn.attribution._large_graphs import (
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
    ell_width,
    evaluation_batches,
    gather,
    scatter,
    size_classes,
)
from jattn.batching._packing import round_up
from jattn.graphs import Proximity, select_graphs
from jattn.nn import Network, Output, SparseTopology
from jattn.training._checks import num_seeds
from jattn.training._devices import PARTS, SEEDS, devices_per_seed, shard_batches, shard_seeds, to_host
from jattn.training._numbers import Selections, separate, with_selections
from jattn.training._seeds import PROGRAMS, put_split, run_sequentially
from jattn.types import Change, Params, Task


def leave_one_out_seeds(
    network: Network,
    params: Params,
    graphs: GraphsTuple,
    task: Task,
    progress: Callable[[int], Any] = lambda graphs: None,
    change: Change = "absolute",
) -> LeaveOneOut:
    """Leave-one-out attribution by the network of every seed: numpy arrays [seeds, ...] in the order of the split.

    It is computed in float32 at the highest precision, whatever the fields of the network say.

    Args:
      network: the architecture. For a subclass, whose forward pass may be another, whole copies are always predicted.
      params: weights with a leading axis of seeds.
      graphs: the split, on the host.
      task: "regression" or "classification".
      progress: called now and then with the number of graphs finished since the last call.
      change: what counts as the change of a prediction, as in `leave_one_out`.

    Raises:
      ValueError: the task or the change is not known, there are no graphs, or the weights have no axis of seeds or are
        not those of the network.
    """
    expect_one_of("task", task, Task)
    expect_one_of("change", change, Change)
    network, costs = network.with_precision("highest"), cost_model()
    nodes = costs.cached_rows(costs.leave_one_out_nodes, max(network.filters))
    seeds, params, split, rounded = put_split(network, params, graphs, nodes)
    n_node = np.asarray(graphs.n_node)
    count, total = len(n_node), int(n_node.sum())
    result = LeaveOneOut(*(np.zeros((seeds, size), np.float32) for size in (total, total, count)))
    is_khop = np.zeros(count, bool)
    found = []
    for i, *predictions in _khop_predictions(network, params, graphs, split):
        is_khop[i] = True
        found.append(predictions)
        progress(1)
    if found:
        _fill_in(result, is_khop, n_node, found, task, change)

    rest = np.flatnonzero(~is_khop)
    structure, selections = separate(network)
    sequential = run_sequentially(network, graphs, costs.leave_one_out_rows)
    sizes = size_classes(graphs._replace(n_node=n_node[rest]))
    for packed in evaluation_batches(graphs, nodes, devices_per_seed(seeds), sizes, rest):
        batches, bucket = round_up(*packed) if rounded else packed
        left_out = _compiled_copies(structure, bucket, task, change, seeds, sequential, costs)
        for piece in _pieces(batches, costs.progress_batches):
            labels = to_host(left_out(params, split, piece, selections))
            result = LeaveOneOut(*(a + b[:, : a.shape[1]] for a, b in zip(result, labels, strict=True)))
            progress(int((piece >= 0).sum()))
    return result


def _fill_in(
    result: LeaveOneOut,
    is_khop: Bool[np.ndarray, " graphs"],
    n_node: Int[np.ndarray, " graphs"],
    found: list[list[np.ndarray]],
    task: Task,
    change: Change,
) -> None:
    """Writes the attribution of the graphs whose predictions, whole and without each node, were found."""
    whole = np.stack([prediction for prediction, _ in found], axis=1)
    without = np.concatenate([predictions for _, predictions in found], axis=1)
    node_graph = np.repeat(np.arange(len(found), dtype=np.int32), n_node[is_khop])
    arguments = jax.device_put((whole, without, node_graph, np.ones(len(node_graph), bool)))
    attribution = jax.device_get(_normalize_seeds(*arguments, task, change))
    rows = np.repeat(is_khop, n_node)
    for array, values, where in zip(result, attribution, (rows, rows, is_khop), strict=True):
        array[:, where] = values


@functools.partial(jax.jit, static_argnums=(4, 5))
def _normalize_seeds(
    whole: Array, without: Array, node_graph: Array, real: Array, task: Task, change: Change
) -> LeaveOneOut:
    normalize = functools.partial(normalize_attribution, task=task, change=change)
    return jax.vmap(normalize, in_axes=(0, 0, None, None))(whole, without, node_graph, real)


def _pieces(
    batches: Int[np.ndarray, "parts steps entries"], max_steps: int
) -> Iterator[Int[np.ndarray, "parts steps entries"]]:
    """The steps in pieces of equal length, padded with empty steps, so that one program runs all of them."""
    steps = -(-batches.shape[1] // -(-batches.shape[1] // max_steps))
    for start in range(0, batches.shape[1], steps):
        piece = batches[:, start : start + steps]
        yield np.pad(piece, ((0, 0), (0, steps - piece.shape[1]), (0, 0)), constant_values=-1)


def _khop_predictions(
    network: Network, params: Params, graphs: GraphsTuple, split: DeviceDataset
) -> Iterator[tuple[int, Float[np.ndarray, "seeds outputs"], Float[np.ndarray, "seeds nodes outputs"]]]:
    """Index of each large sparse graph, its prediction, and its predictions without each node."""
    seeds, costs = num_seeds(params), cost_model()
    shape = devices_per_seed(seeds), costs.subgraph_chunks
    ids = _large_and_sparse(network, graphs)
    width, others = ell_width(graphs, ids)
    pending: tuple[int, Array, list[Array]] | None = None  # devices compute it while the host finds the next subgraphs
    for i in ids.tolist():
        chunks = subgraph_batches(select_graphs(graphs, np.array([i])), network, width, costs.subgraph_share)
        if chunks is None:
            continue
        bucket = _bucket(graphs, i, width, int(others[i]))
        predict_whole, predict_without = _compiled_khop(network, bucket, seeds, costs)
        prediction, whole = predict_whole(params, split, np.array([i], np.int32))
        pieces = [predict_without(params, whole, piece) for piece in _subgraph_pieces(chunks, *shape)]
        if pending is not None:
            yield _collect(*pending, graphs)
        pending = i, prediction, pieces
    if pending is not None:
        yield _collect(*pending, graphs)


def _collect(i: int, prediction: Array, pieces: list[Array], graphs: GraphsTuple) -> tuple[int, np.ndarray, np.ndarray]:
    prediction, pieces = to_host((prediction, pieces))
    without = np.sum([np.asarray(piece).sum(1) for piece in pieces], axis=0)
    return i, np.asarray(prediction), without[:, : graphs.n_node[i]]


def _large_and_sparse(network: Network, graphs: GraphsTuple) -> Int[np.ndarray, " chosen"]:
    """Graphs that are large and sparse enough for k-hop subgraphs."""
    if any(network.poolings) or isinstance(graphs.edges, Proximity) or type(network) is not Network:
        return np.zeros(0, int)
    node_graph = np.repeat(np.arange(len(graphs.n_node)), graphs.n_node)
    degree = np.bincount(graphs.receivers, minlength=len(node_graph))
    max_degree = np.zeros(len(graphs.n_node), int)
    np.maximum.at(max_degree, node_graph, degree)
    costs = cost_model()
    return np.flatnonzero((graphs.n_node >= costs.subgraph_nodes) & (max_degree <= costs.subgraph_degree))


def _bucket(graphs: GraphsTuple, i: int, width: int, others: int) -> Bucket:
    """A bucket for graph i. Sizes double, so that few programs serve graphs of all sizes.

    Args:
      graphs: the split.
      i: the graph.
      width: columns of the ELL table.
      others: edges of the graph that are not in the table.
    """

    def doubled(size: int, needed: int) -> int:
        return size if size > needed else doubled(2 * size, needed)

    least = cost_model().subgraph_nodes
    nodes, edges = doubled(least, int(graphs.n_node[i])), doubled(least * max(width, 1), int(graphs.n_edge[i]))
    return Bucket(
        nodes, edges, graphs=2, max_nodes=nodes, storage=SparseStorage(width, doubled(-(-least // 4), others))
    )


def _subgraph_pieces(chunks: SubgraphBatch, parts: int, steps: int) -> Iterator[SubgraphBatch]:
    """Chunks as [parts, steps, ...], padded with empty chunks."""
    for start in range(0, len(chunks.removed), parts * steps):
        piece = [array[start : start + parts * steps] for array in chunks]
        fill = parts * steps - len(piece[0])
        filled = [np.concatenate([array, np.full((fill, *array.shape[1:]), -1, array.dtype)]) for array in piece]
        yield SubgraphBatch(*(array.reshape(parts, steps, -1) for array in filled))


# Cached, so that another split or call of the same sizes compiles nothing.
@functools.lru_cache(maxsize=PROGRAMS)
def _compiled_khop(
    network: Network, bucket: Bucket, seeds: int, costs: CostModel
) -> tuple[Callable[..., Any], Callable[..., Array]]:
    def predict_whole(params: Params, split: DeviceDataset, ids: Array) -> tuple[Array, FullGraphActivations]:
        batch = gather(split, ids, bucket)
        prediction, whole = full_graph_activations(network, params, batch.graph, cast(SparseTopology, batch.topology))
        return prediction[0], whole

    def predict_without(
        params: Params, whole: FullGraphActivations, chunks: SubgraphBatch
    ) -> Float[Array, "part nodes outputs"]:
        chunks = jax.tree.map(lambda array: array[0], chunks)
        predictions = jax.lax.map(lambda chunk: predict_without_each(network, params, whole, chunk), chunks)
        removed = jnp.where(chunks.removed < 0, bucket.nodes, chunks.removed)
        # No collective here: programs that run at the same time could deadlock.
        return scatter(bucket.nodes, removed, predictions)[None]

    over_seeds = functools.partial(shard_seeds, sequential=costs.sequential_floats is not None, costs=costs)
    return (
        over_seeds(predict_whole, seeds, (SEEDS,), (), ()),
        over_seeds(predict_without, seeds, (SEEDS,), (SEEDS,), (PARTS,), result=(SEEDS, PARTS)),
    )


@functools.lru_cache(maxsize=PROGRAMS)
def _compiled_copies(
    structure: Network, bucket: Bucket, task: Task, change: Change, seeds: int, sequential: bool, costs: CostModel
) -> Callable[..., LeaveOneOut]:
    def labels(params: Params, split: DeviceDataset, batches: Array, selections: Selections) -> LeaveOneOut:
        return _make_labels(with_selections(structure, selections), bucket, task, change)(params, split, batches)

    return shard_batches(labels, seeds, sequential, costs)


def _make_labels(network: Network, bucket: Bucket, task: Task, change: Change) -> Callable[..., LeaveOneOut]:
    """A function that returns the attribution of the graphs of some batches, 0 for other graphs of the split."""

    def labels(params: Params, split: DeviceDataset, batches: Array) -> LeaveOneOut:
        def one(ids: Array) -> tuple[Array, Array, LeaveOneOut]:
            batch = gather(split, ids, bucket)

            def predict(graph: GraphsTuple, kept: Bool[Array, "nodes"]) -> Float[Array, "graphs outputs"]:
                output = network.apply({"params": params}, graph, batch.topology.subgraph(kept))
                return cast(Output, output).prediction

            costs = cost_model()
            rows = costs.cached_rows(costs.leave_one_out_rows, max(network.filters))
            options: Any = {"task": task, "change": change, "chunk": max(1, rows // bucket.nodes)}
            result = leave_one_out(
                predict, batch.graph, bucket.max_nodes, graph_mask=batch.topology.graph_mask, **options
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
