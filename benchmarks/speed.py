"""How fast training, leave-one-out and evaluation are, as ratios to what the machine's matrix products allow.

    python -m benchmarks.speed                           all of it, some minutes on 2 CPU cores
    python -m benchmarks.speed mnist75sp --data-dir DIR  one task, MNIST's files in DIR (downloaded where not given)

The floor of a training step is 3 x the forward FLOPs over real nodes and edges (no padding, none dropped), at the rate
of a large float32 matrix product measured in the same run on the same cores; that of leave-one-out is the forward FLOPs
of a graph times its nodes. Ratios carry over between machines, times do not.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jraph import GraphsTuple

from benchmarks.sparse_graphs import graphs_in_space, random_graphs
from experiments import colors, mnist75sp, triangles
from experiments.run.devices import configure_jax
from experiments.run.groups import with_changes
from experiments.run.paths import local_path
from experiments.run.settings import Settings
from jattn import Network, datasets, evaluation_batches, leave_one_out_seeds, predict_seeds, size_classes, train_seeds
from jattn._cost_model import cost_model
from jattn.datasets import generate_colors, generate_triangles
from jattn.evaluation import join
from jattn.graphs import Proximity
from jattn.nn import DiffPoolConfig, ScorerConfig
from jattn.types import Task as Predicted

MATRIX = 2048
BATCH = 32
EPOCHS = 24

DIGITS = 3_200  # of MNIST, to train on
LEFT_OUT = 640  # to leave nodes out of

# The paper's model of D&D, with attention by a projection.
SPARSE = with_changes(
    Settings(),
    attention="unsupervised",
    threshold=0.002,
    pool_before=(2,),
    score_from="current",
    init="default",
    filters=(64, 64, 64),
    order=3,
    readout="max",
)

Task = Literal["colors", "triangles", "mnist75sp", "sparse"]


def main(task: Annotated[Task | None, tyro.conf.Positional] = None, data_dir: Path | None = None) -> None:
    """Prints the benchmark of one task, or of all.

    Args:
      task: Which.
      data_dir: Folder of MNIST's files.
    """
    configure_jax()
    data_dir = data_dir and local_path("data_dir", data_dir)
    rate = matmul_rate()
    print(f"matrix product {MATRIX} x {MATRIX}: {rate / 1e9:.0f} GFLOP/s on {jax.device_count()} devices")
    if task in (None, "colors"):
        training("COLORS, supervised", colors.SUPERVISED, generate_colors()["train"], (1, 10), rate)
        leave_one_out(colors.SUPERVISED, generate_colors()["train"], (1, 10), rate)
    if task in (None, "triangles"):
        splits = generate_triangles()
        few = generate_triangles(train=3_200, validation=0, test=0)["train"]
        training("TRIANGLES, supervised", triangles.SUPERVISED, few, (1,), rate)
        leave_one_out(triangles.SUPERVISED, splits["train"], (1,), rate)
        evaluation(triangles.SUPERVISED, join({name: splits[name] for name in ("orig", "large")}))
    if task in (None, "mnist75sp"):
        digits, few = (datasets.mnist75sp(data_dir, train_images=n).splits["train"] for n in (DIGITS, LEFT_OUT))
        kind: tuple[Predicted, int] = "classification", 10
        training("MNIST-75sp, no pooling", mnist75sp.GLOBAL, digits, (1,), rate, *kind)
        training("MNIST-75sp, supervised", mnist75sp.SUPERVISED, digits, (1,), rate, *kind)
        leave_one_out(mnist75sp.GLOBAL, few, (1,), rate, *kind)
    if task in (None, "sparse"):
        training("Random graphs of 300 nodes", SPARSE, random_graphs(640, 300), (1,), rate, "classification", 2)
        leave_one_out(SPARSE, random_graphs(16, 300), (1,), rate, "classification", 2)
        for nodes in (1_000, 5_748):
            print(f"Graphs of {nodes} nodes in space")
            leave_one_out(SPARSE, graphs_in_space(2, nodes), (1,), rate, "classification", 2)


def training(
    name: str,
    settings: Settings,
    graphs: GraphsTuple,
    seeds: Sequence[int],
    rate: float,
    task: Predicted = "regression",
    outputs: int = 1,
) -> None:
    """Prints the time of a training step beside its floor."""
    network = settings.network(outputs)
    flops = 3 * BATCH * forward_flops(network, graphs)
    floor = flops / rate * 1e3
    print(f"{name}: {flops / 1e6:.1f} MFLOP a training step of {BATCH} graphs, floor {floor:.3f} ms")
    steps = -(-len(graphs.n_node) // BATCH)
    for count in seeds:
        epochs = train_seeds(network, settings.training(task), graphs, range(count), EPOCHS)
        jax.block_until_ready(next(epochs).loss)
        step = best(lambda: next(epochs).loss, EPOCHS - 1) / count / steps * 1e3  # noqa: B023 (called at once)
        print(f"  {count:>2} seeds: {step:.3f} ms a step and seed, {step / floor:.1f} x the floor")


def leave_one_out(
    settings: Settings,
    graphs: GraphsTuple,
    seeds: Sequence[int],
    rate: float,
    task: Predicted = "regression",
    outputs: int = 1,
) -> None:
    """Prints the time of leave-one-out labels of all graphs beside its floor."""
    teacher = settings.teacher(outputs)
    floor = forward_flops(teacher, graphs, copies=True) / rate * 1e3
    for count in seeds:
        state = next(train_seeds(teacher, settings.teacher_training(task), graphs, range(count), 1)).state
        seconds = best(lambda: leave_one_out_seeds(teacher, state.params, graphs, task).total_change, 3)  # noqa: B023
        each = seconds / count / len(graphs.n_node) * 1e3
        print(
            f"  {count:>2} seeds: leave-one-out {each:.3f} ms a graph and seed, {each / floor:.1f} x the floor, "
            f"{seconds:.1f} s in all"
        )


def evaluation(settings: Settings, graphs: GraphsTuple) -> None:
    """Prints the time of predicting test graphs, and how full the buckets of the classes of size are."""
    network = settings.network(outputs=1)
    state = next(train_seeds(network, settings.training("regression"), graphs, [0], 1)).state
    seconds = best(lambda: predict_seeds(network, state.params, graphs).prediction, 5)
    print(f"  evaluation of {len(graphs.n_node)} graphs: {seconds:.2f} s")
    n_node = np.asarray(graphs.n_node)
    for ids, bucket in evaluation_batches(graphs, cost_model().evaluation_rows, sizes=size_classes(graphs)):
        sizes = n_node[ids[ids >= 0]]
        wasted = 100 * (1 - sizes.sum() / (ids.shape[0] * ids.shape[1] * bucket.nodes))
        print(f"    {len(sizes)} graphs of {sizes.min()}-{sizes.max()} nodes: {wasted:.0f} % of their rows are padding")


def matmul_rate() -> float:
    """FLOP/s of a large float32 matrix product, the best of several."""
    product = jax.jit(jnp.matmul)
    x = jnp.ones((MATRIX, MATRIX))
    return 2 * MATRIX**3 / best(lambda: product(x, x), 20)


def forward_flops(network: Network, graphs: GraphsTuple, copies: bool = False) -> float:
    """FLOPs of a graph's forward pass on average, of which matrix products count; no node counts as dropped.

    Args:
      network: the architecture.
      graphs: the graphs.
      copies: count a graph as often as it has nodes.
    """
    n_node = np.asarray(graphs.n_node, float)
    n_edge = n_node**2 if isinstance(graphs.edges, Proximity) else np.asarray(graphs.n_edge, float)
    times = n_node if copies else np.ones_like(n_node)
    nodes, edges = (float(np.mean(times * n)) for n in (n_node, n_edge))

    def convolution(inputs: int, outputs: int, order: int, hidden: int | None) -> float:
        maps = order * inputs * (hidden or outputs) + (hidden * outputs if hidden else 0)
        return 2 * (max(order - 1, 1) * edges * inputs + nodes * maps)

    def scorer(config: ScorerConfig, inputs: int) -> float:
        match config.kind:
            case "gnn":
                widths = [inputs] + [config.filters] * (config.layers - 1) + [1]
                order = min(network.order, 2)
                return sum(convolution(i, o, order, None) for i, o in itertools.pairwise(widths))
            case "mlp":
                return 2 * nodes * (inputs + 1) * config.hidden
            case _:
                return 2 * nodes * inputs

    total, previous = 0.0, 0
    features = int(graphs.nodes["features"].shape[1])
    for i, filters in enumerate(network.filters):
        pooling = network.poolings[i] if i < len(network.poolings) else None
        if isinstance(pooling, DiffPoolConfig):
            raise ValueError("FLOPs of DiffPool are not counted")
        if pooling is not None:
            total += scorer(pooling.scorer, features if pooling.score_from == "current" else previous)
        total += convolution(features, filters, network.order, network.hidden)
        previous, features = features, filters
    return total


def best(function: Callable[[], object], repetitions: int) -> float:
    """Seconds of the quickest of several calls."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    tyro.cli(main, prog="python -m benchmarks.speed", description=__doc__)
