"""How long an epoch takes here and with the nearest model of PyTorch Geometric, trained in turns on the same graphs.

    pip install -r benchmarks/requirements.txt
    python -m benchmarks.against_pyg

Takes a minute on 2 CPU cores, which should have nothing else to do: threads of an epoch wait for each other thousands
of times, so where other programs need the cores it can take tens of times as long. Each library trains in a process of
its own, in turns of an epoch, so that a machine whose speed drifts slows both.

PyG's model is ChebConv, TopKPooling with `min_score` and a maximum over nodes, with as many weights in its convolutions
as ours, the same optimizer and as many graphs a step. On the sparse graphs it is the same function as ours; where the
two differ, PyG's has less to do:

- TRIANGLES: it computes attention by one projection, ours by a graph network of three convolutions; it has no
  attention loss, ours has one at both poolings; it has no sum aggregation, a product of the Chebyshev terms with the
  degree. So it is what PyG offers its users, not a model that learns the same.
- It takes dropped nodes and their edges out of a batch, ours masks them: the more it drops, the less it has to do. So
  the share of nodes that each kept up to the last convolution is printed. It keeps at least one node of every graph.

One seed, which is what a PyG model is; jattn trains several in less time each, see `benchmarks.speed`.
"""

import statistics
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import tyro

from benchmarks.turns import LIBRARIES, Turns
from benchmarks.workloads import BATCH, WORKLOADS
from experiments.run.devices import fail
from jattn._options import expect_at_least


@dataclass(frozen=True)
class Options:
    """Times an epoch of jattn and of PyTorch Geometric in turns: on TRIANGLES and on sparse graphs of 300 nodes."""

    rounds: int = 5
    """Epochs of each that are timed, after one that is not and in which jattn compiles."""
    graphs: int = 3200
    """Training graphs of TRIANGLES, whose paper has 30000; of the sparse graphs there are a tenth."""
    threads: int | None = None
    """Threads of PyG; as many as torch takes by itself where not given."""

    def __post_init__(self) -> None:
        expect_at_least(1, rounds=self.rounds, threads=self.threads)
        expect_at_least(10, graphs=self.graphs)


def compare(workload: str, graphs: int, options: Options) -> list[str]:
    """Times a workload, prints its rounds and returns its row of the table."""
    made = WORKLOADS[workload](graphs)
    print(f"{made.name}: {graphs} graphs, {made.graphs.n_node.mean():.0f} nodes and", end=" ")
    print(f"{made.graphs.n_edge.mean():.0f} directed edges each, {BATCH} a step")
    turns = {name: Turns(name, workload, graphs, options.rounds + 1, options.threads) for name in LIBRARIES}
    first = [f"{name} {turn.epoch().seconds:.1f} s" for name, turn in turns.items()]
    print(f"  warm-up, not counted: {', '.join(first)}")
    times = []
    for number in range(1, options.rounds + 1):
        epochs = {name: turn.epoch() for name, turn in turns.items()}
        ours, theirs = (epoch.seconds for epoch in epochs.values())
        times.append((ours, theirs))
        sides = [f"{name} {epoch.seconds:.3f} s ({epoch.kept:.0%} kept)" for name, epoch in epochs.items()]
        print(f"  round {number}: {', '.join(sides)}, ratio {theirs / ours:.2f}", flush=True)
    print("  loss: " + ", ".join(f"{name} {epoch.loss:.4g}" for name, epoch in epochs.items()))
    for turn in turns.values():
        turn.end()
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratios = [theirs / ours for ours, theirs in times]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return [made.name, f"{ours:.3f} s", f"{theirs:.3f} s", f"{statistics.median(ratios):.2f}", spread]


def main(arguments: list[str]) -> None:
    """Runs the benchmark that a command line asks for."""
    try:
        options = tyro.cli(Options, args=arguments, prog="python -m benchmarks.against_pyg")
        print(", ".join(f"{name} {version(name)}" for name in ("torch", "torch-geometric", "jax")))
    except PackageNotFoundError as error:
        fail(f"{error.name} is not installed: pip install -r benchmarks/requirements.txt")
    except ValueError as error:
        fail(str(error))
    sizes = {"triangles": options.graphs, "sparse": options.graphs // 10}
    rows = [compare(workload, graphs, options) for workload, graphs in sizes.items()]
    print(f"\n{'median epoch':<20}{'jattn':>10}{'PyG':>10}{'PyG / jattn':>14}{'range':>16}")
    for name, ours, theirs, ratio, spread in rows:
        print(f"{name:<20}{ours:>10}{theirs:>10}{ratio:>14}{spread:>16}")


if __name__ == "__main__":
    main(sys.argv[1:])
