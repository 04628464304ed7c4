"""One library's training in a process of its own, an epoch whenever the benchmark asks for one.

In a process of both, each library's pool of threads, one a core, would find its cores taken by the other's.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, NamedTuple

import jax

from benchmarks.workloads import BATCH, WORKLOADS, Workload
from experiments.run.devices import configure_jax
from jattn import train_seeds

Library = Literal["jattn", "PyG"]
LIBRARIES: tuple[Library, ...] = ("jattn", "PyG")


class Epoch(NamedTuple):
    """What an epoch came to.

    Attributes:
      seconds: that it took.
      loss: its mean, ours with attention's.
      kept: share of nodes in the last convolution.
    """

    seconds: float
    loss: float
    kept: float


class Turns:
    """A process that trains a workload with one library.

    Args:
      library: whose.
      workload: one of `WORKLOADS`.
      graphs: its training graphs.
      epochs: that `epoch` may be called.
      threads: of PyG; as many as torch takes where not given.
    """

    def __init__(self, library: Library, workload: str, graphs: int, epochs: int, threads: int | None) -> None:
        asked = map(str, (library, workload, graphs, epochs, threads or 0))
        command = [sys.executable, "-m", "benchmarks.turns", *asked]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def epoch(self) -> Epoch:
        """Trains an epoch; the first compiles. Exits where the process has ended, which has then said why."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError):
            print(file=process.stdin, flush=True)
        if not (line := process.stdout.readline()):
            raise SystemExit(process.wait() or 1)
        return Epoch(*json.loads(line))

    def end(self) -> None:
        """Ends the process."""
        self._process.communicate()


def jattn_epochs(workload: Workload, epochs: int) -> Iterator[tuple[float, float]]:
    """Trains with jattn: each epoch's loss and share of nodes kept. The first compiles, and trains two."""
    jax.config.update("jax_platforms", "cpu")
    configure_jax()
    # `train_seeds` has the device train the next epoch while its caller looks at the last one; without this it would do
    # so in PyG's turn.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    # Its last epoch is reported without another being trained, so one more than is reported is asked for.
    for done in train_seeds(workload.network, workload.config, workload.graphs, [0], epochs + 1, BATCH):
        yield float(done.loss[0]), float(done.predictions.node_masks[-1].mean())


def serve(library: str, workload: str, graphs: int, epochs: int, threads: int) -> None:
    """Trains an epoch for every line of standard input and prints what it came to."""
    data = WORKLOADS[workload](graphs)
    if library == "jattn":
        training = jattn_epochs(data, epochs)
    else:
        from benchmarks import pyg  # torch is in PyG's process alone

        training = pyg.epochs(data, threads)
    for _ in sys.stdin:
        start = time.perf_counter()
        epoch = next(training)
        print(json.dumps([time.perf_counter() - start, *epoch]), flush=True)


if __name__ == "__main__":
    library, workload, *numbers = sys.argv[1:]
    serve(library, workload, *map(int, numbers))
