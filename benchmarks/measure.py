"""One measurement in a process of its own, whose compilation and memory it has to itself; prints numbers as JSON.

`benchmarks.parts` lists the measurements and starts these processes.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.flops import forward_flops, matmul_rate, seconds_of
from benchmarks.workloads import BATCH, SOURCES, Source, Workload, sparse_source
from experiments.run.devices import configure_jax
from experiments.run.monitoring import resources
from jattn import leave_one_out_seeds, predict_seeds, train_seeds

Numbers = dict[str, float]


def training(workload: Workload, seeds: int, repeats: int) -> Numbers:
    """Times of a training step, and of the first epoch.

    Args:
      workload: what is trained.
      seeds: networks that are trained at once.
      repeats: epochs after the first, of which the quickest counts; with 0, only the first epoch is measured. Short
        epochs are repeated more often, as the least of a few short times depends on luck: 100,000 / nodes times.

    Returns:
      "first": seconds of the first epoch, "compiling" among them. "each": milliseconds of a step and seed. "floor":
      milliseconds of 3 x the forward FLOPs of a batch.
    """
    network, graphs = workload.network, workload.graphs
    count = len(graphs.n_node)
    repeats *= max(1, 100_000 // int(graphs.n_node.sum()))
    epochs = train_seeds(network, workload.config, graphs, range(seeds), repeats + 1, BATCH)
    flops = 3 * min(BATCH, count) * forward_flops(network, graphs)
    return _times(lambda: next(epochs).loss, repeats, seeds * math.ceil(count / BATCH), flops)


def leave_one_out(workload: Workload, seeds: int, repeats: int) -> Numbers:
    """Times of leave-one-out attribution by the teacher, as `training` gives them, for a graph and seed."""
    teacher, graphs = workload.teacher, workload.graphs
    state = next(train_seeds(teacher, workload.teacher_config, graphs, range(seeds), 1, BATCH)).state

    def attribute() -> object:
        return leave_one_out_seeds(teacher, state.params, graphs, workload.task).total_change

    return _times(attribute, repeats, seeds * len(graphs.n_node), forward_flops(teacher, graphs, copies=True))


def prediction(workload: Workload, seeds: int, repeats: int) -> Numbers:
    """Times of predictions for the graphs, as `training` gives them, for a graph and seed."""
    network, graphs = workload.network, workload.graphs
    state = next(train_seeds(network, workload.config, graphs, range(seeds), 1, BATCH)).state

    def predict() -> object:
        return predict_seeds(network, state.params, graphs).prediction

    return _times(predict, repeats, seeds * len(graphs.n_node), forward_flops(network, graphs))


def _times(work: Callable[[], object], repeats: int, parts: int, flops: float) -> Numbers:
    """Seconds of the first call, and milliseconds of one of the parts of its quickest repetition and of their FLOPs."""
    before = resources(0)["compile_seconds"]
    numbers = {"first": seconds_of(work), "compiling": resources(0)["compile_seconds"] - before}
    if repeats:
        quickest = min(seconds_of(work) for _ in range(repeats))
        numbers |= {"each": 1e3 * quickest / parts, "floor": 1e3 * flops / matmul_rate()}
    return numbers


MEASUREMENTS: dict[str, Callable[[Workload, int, int], Numbers]] = {
    "training": training,
    "leave_one_out": leave_one_out,
    "prediction": prediction,
}


def source_of(workload: str) -> Source:
    """The source of a workload by name; "random-100" and "space-100" have sparse graphs of 100 nodes."""
    kind, _, nodes = workload.partition("-")
    return sparse_source(int(nodes), kind == "space") if nodes else SOURCES[workload]


def measure(measurement: str, workload: str, graphs: int, seeds: int, repeats: int, data_dir: str | None) -> Numbers:
    """The numbers of a measurement, and the MiB of memory of this process at the peak, data included.

    Args:
      measurement: one of `MEASUREMENTS`.
      workload: as `source_of` takes it.
      graphs: the number of graphs.
      seeds: the number of networks.
      repeats: as often it is timed after the first time.
      data_dir: folder of published data; None to download what is needed.
    """
    made = source_of(workload).workload(graphs, Path(data_dir) if data_dir else None)
    numbers = MEASUREMENTS[measurement](made, seeds, repeats)
    return numbers | {"memory": resources(0).get("host_memory_mib", math.nan)}


def main(arguments: dict[str, Any]) -> None:
    """Prints what `measure` gives for the arguments."""
    configure_jax()
    print(json.dumps(measure(**arguments)))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
