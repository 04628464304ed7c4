"""How long an epoch takes here and with the nearest model of PyTorch Geometric, trained in turns on the same graphs.

    pip install -r benchmarks/requirements.txt
    python -m benchmarks.against_pyg

Takes a minute on 2 CPU cores, which should have nothing else to do: threads of an epoch wait for each other thousands
of times, so where other programs need the cores it can take tens of times as long.

PyG's model is ChebConv, TopKPooling with `min_score` and a maximum over nodes, with as many weights in its convolutions
as ours, the same optimizer and as many graphs a step. On the sparse graphs it is the same function as ours; where the
two differ, PyG's has less to do:

- TRIANGLES: it computes attention by one projection, ours by a graph network of three convolutions; it has no
  attention loss, ours has one at both poolings; it has no sum aggregation, a product of the Chebyshev terms with the
  degree. So it is what PyG offers its users, not a model that learns the same.
- It takes dropped nodes and their edges out of a batch, ours masks them: the more it drops, the less it has to do, so
  the share that each kept is printed. It keeps at least one node of every graph.

One seed, which is what a PyG model is; jattn trains several in less time each, see `benchmarks.speed`.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import tyro
from jraph import GraphsTuple

from benchmarks.sparse_graphs import random_graphs
from experiments.running import configure_jax, fail
from jattn import AttentionPooling, Network, Scorer, Threshold, TrainConfig, train_seeds
from jattn.datasets.triangles import generate_triangles

try:
    import torch
    import torch_geometric
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import ChebConv, TopKPooling, global_max_pool
except ModuleNotFoundError as error:
    fail(f"{error.name} is not installed: pip install -r benchmarks/requirements.txt")

BATCH = 32
NODES = 300  # of a sparse graph


@dataclass(frozen=True)
class Workload:
    """What is trained.

    Attributes:
      name: as it is printed.
      graphs: the host-side training split.
      network: our network; `Peer` makes PyG's of it.
      config: how ours is trained, and PyG's but for attention.
    """

    name: str
    graphs: GraphsTuple
    network: Network
    config: TrainConfig


class Epoch(NamedTuple):
    """What an epoch came to: its mean loss (ours with attention's) and the share of nodes in the last convolution."""

    loss: float
    kept: float


@dataclass(frozen=True)
class Options:
    """Times an epoch of jattn and of PyTorch Geometric in turns: on TRIANGLES and on sparse graphs of 300 nodes."""

    rounds: int = 5
    """Epochs of each that are timed, after one that is not and in which jattn compiles."""
    graphs: int = 3200
    """Training graphs of TRIANGLES, whose paper has 30000; of the sparse graphs there are a tenth."""
    threads: int | None = None
    """Threads of PyG; one a core where not given."""

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("graphs", 10), ("threads", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name}: {value} is not allowed, expected at least {least}")


def triangles(graphs: int) -> Workload:
    """Small graphs of 4 to 25 nodes: the paper's supervised model of TRIANGLES."""
    pooling = AttentionPooling(Threshold(0.001), Scorer("network", filters=32, layers=3), reads="current")
    poolings = (None, pooling, pooling)
    network = Network((64, 64, 64), order=7, aggregation="sum", hidden=64, readout="max", poolings=poolings)
    data = generate_triangles(train=graphs, validation=0, test=0)["train"]
    return Workload("TRIANGLES", data, network, TrainConfig("regression", attention_weight=100.0))


def sparse(graphs: int) -> Workload:
    """Random graphs of 300 nodes with 5 neighbours each, of two classes: whether the first colour is frequent."""
    pooling = AttentionPooling(Threshold(0.002), reads="current")
    network = Network((64, 64, 64), order=3, readout="max", outputs=2, poolings=(None, None, pooling))
    data = random_graphs(graphs, NODES)
    return Workload(f"sparse, {NODES} nodes", data, network, TrainConfig("classification"))


def jattn_epochs(workload: Workload, rounds: int) -> Callable[[], Epoch]:
    """Our training: a function that each time trains one epoch; the first time it compiles, and trains two."""
    # Its last epoch is reported without another being trained, so one more than is reported is asked for.
    training = train_seeds(workload.network, workload.config, workload.graphs, [0], rounds + 2, BATCH)

    def epoch() -> Epoch:
        done = next(training)
        return Epoch(float(done.loss[0]), float(done.predictions.kept[-1].mean()))

    return epoch


class Peer(torch.nn.Module):
    """The nearest model that PyG has for a `Network` with a linear scorer and the maximum as readout."""

    def __init__(self, network: Network, features: int) -> None:
        super().__init__()
        self.poolings = torch.nn.ModuleDict()
        self.convolutions, self.updates = torch.nn.ModuleList(), torch.nn.ModuleList()
        for i, filters in enumerate(network.filters):
            pooling = network.poolings[i]
            if isinstance(pooling, AttentionPooling):
                assert isinstance(pooling.rule, Threshold)
                self.poolings[str(i)] = TopKPooling(features, min_score=pooling.rule.tau)
            self.convolutions.append(ChebConv(features, network.hidden or filters, network.order))
            mlp = [torch.nn.ReLU(), torch.nn.Linear(network.hidden, filters)] if network.hidden else []
            self.updates.append(torch.nn.Sequential(*mlp, torch.nn.ReLU()))
            features = filters
        self.output = torch.nn.Linear(features, network.outputs)

    def forward(self, batch: Any) -> tuple[Any, int]:
        """Outputs, [graphs, outputs], and how many nodes were kept."""
        x, edge_index, graph_of = batch.x, batch.edge_index, batch.batch
        for i, (convolution, update) in enumerate(zip(self.convolutions, self.updates, strict=True)):
            if str(i) in self.poolings:
                x, edge_index, _, graph_of, _, _ = self.poolings[str(i)](x, edge_index, batch=graph_of)
            x = update(convolution(x, edge_index))
        return self.output(global_max_pool(x, graph_of, batch.num_graphs)), len(x)


def pyg_epochs(workload: Workload) -> Callable[[], Epoch]:
    """PyG's training: a function that each time trains one epoch more."""
    torch.manual_seed(0)
    data, config = as_data(workload.graphs), workload.config
    model = Peer(workload.network, data[0].num_features)
    rate, decay = config.learning_rate, config.weight_decay
    # One fused update of all weights takes up to a tenth off an epoch. A worker that collates ahead would add to it.
    optimizer = torch.optim.Adam(model.parameters(), rate, betas=(0.5, 0.999), weight_decay=decay, fused=True)
    loader = DataLoader(data, BATCH, shuffle=True)
    regression = config.task == "regression"

    def epoch() -> Epoch:
        total = kept = 0.0
        for batch in loader:
            optimizer.zero_grad()
            prediction, nodes = model(batch)
            if regression:
                loss = torch.nn.functional.mse_loss(prediction[:, 0], batch.y.float())
            else:
                loss = torch.nn.functional.cross_entropy(prediction, batch.y)
            loss.backward()
            optimizer.step()
            total += loss.item() * batch.num_graphs
            kept += nodes
        return Epoch(total / len(data), kept / len(workload.graphs.nodes["features"]))

    return epoch


def as_data(graphs: GraphsTuple) -> list[Any]:
    """The graphs as PyG's."""
    # Not jraph.unbatch_np, which counts senders and receivers anew in the arrays that it was given.
    nodes, edges = np.cumsum(graphs.n_node)[:-1], np.cumsum(graphs.n_edge)[:-1]
    first = np.repeat(np.cumsum(graphs.n_node) - graphs.n_node, graphs.n_edge)
    features = np.split(graphs.nodes["features"].astype(np.float32), nodes)
    ends = np.split(np.stack([graphs.senders, graphs.receivers]).astype(np.int64) - first, edges, axis=1)
    labels = graphs.globals["label"].astype(np.int64)[:, None]
    return [
        Data(x=torch.tensor(x), edge_index=torch.tensor(edge_index), y=torch.tensor(y))
        for x, edge_index, y in zip(features, ends, labels, strict=True)
    ]


def compare(workload: Workload, rounds: int) -> list[str]:
    """Times a workload, prints its rounds and returns its row of the table."""
    graphs = workload.graphs
    print(f"{workload.name}: {len(graphs.n_node)} graphs, {graphs.n_node.mean():.0f} nodes and", end=" ")
    print(f"{graphs.n_edge.mean():.0f} directed edges each, {BATCH} a step")
    turns = {"jattn": jattn_epochs(workload, rounds), "PyG": pyg_epochs(workload)}
    first = {name: timed(turn)[0] for name, turn in turns.items()}
    print("  warm-up, not counted: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in first.items()))
    times = []
    for number in range(1, rounds + 1):
        taken, epochs = zip(*(timed(turn) for turn in turns.values()), strict=True)
        times.append(taken)
        row = [f"{name} {seconds:.3f} s" for name, seconds in zip(turns, taken, strict=True)]
        print(f"  round {number}: {', '.join(row)}, ratio {taken[1] / taken[0]:.2f}", flush=True)
    for name, epoch in zip(turns, epochs, strict=True):
        print(f"  {name}: loss {epoch.loss:.4g}, {epoch.kept:.0%} of the nodes kept in the last convolution")
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratios = [taken[1] / taken[0] for taken in times]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return [workload.name, f"{ours:.3f} s", f"{theirs:.3f} s", f"{statistics.median(ratios):.2f}", spread]


def timed(turn: Callable[[], Epoch]) -> tuple[float, Epoch]:
    """Seconds of an epoch, and what it came to."""
    start = time.perf_counter()
    epoch = turn()
    return time.perf_counter() - start, epoch


def main(arguments: list[str]) -> None:
    """Runs the benchmark that a command line asks for."""
    try:
        options = tyro.cli(Options, args=arguments, prog="python -m benchmarks.against_pyg")
    except ValueError as error:
        fail(str(error))
    configure_jax()
    jax.config.update("jax_platforms", "cpu")
    # `train_seeds` has the device train the next epoch while its caller looks at the last one; without this it would do
    # so in PyG's turn.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    torch.set_num_threads(options.threads or jax.device_count())
    print(f"torch {torch.__version__}, PyG {torch_geometric.__version__}, jax {jax.__version__},", end=" ")
    print(f"{torch.get_num_threads()} threads of PyG on {jax.device_count()} cores")
    # In one process, in turns of an epoch, so that a machine whose speed drifts slows both. Threads that wait for work
    # are no burden in the other's turn: an epoch takes as long after one of the other library as after one of its own,
    # within what it varies by anyway.
    workloads = triangles(options.graphs), sparse(options.graphs // 10)
    rows = [compare(workload, options.rounds) for workload in workloads]
    print(f"\n{'median epoch':<20}{'jattn':>10}{'PyG':>10}{'PyG / jattn':>14}{'range':>16}")
    for name, ours, theirs, ratio, spread in rows:
        print(f"{name:<20}{ours:>10}{theirs:>10}{ratio:>14}{spread:>16}")


if __name__ == "__main__":
    main(sys.argv[1:])
