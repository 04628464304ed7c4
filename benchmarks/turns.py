"""One library's work in a process of its own, a round whenever the benchmark asks for one.

In a process of both, each library's pool of threads, one a core, would find its cores taken by the other's.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, NamedTuple, Self

Library = Literal["jattn", "PyG"]
LIBRARIES: tuple[Library, ...] = ("jattn", "PyG")


class MeasurementError(RuntimeError):
    """A measurement failed; the message says why, or the process has said it."""


class Round(NamedTuple):
    """What a round came to: an epoch of training, or leave-one-out of all graphs.

    Attributes:
      seconds: that it took.
      kept: share of nodes in the last convolution.
    """

    seconds: float
    kept: float


class Turns:
    """A process that works with one library; a context manager, which ends it.

    Args:
      library: whose.
      measurement: "training" or "leave_one_out".
      workload: one of `benchmarks.workloads.SOURCES`.
      graphs: its graphs.
      rounds: that `round` may be called.
    """

    def __init__(self, library: Library, measurement: str, workload: str, graphs: int, rounds: int) -> None:
        asked = library, measurement, workload, str(graphs), str(rounds)
        command = [sys.executable, "-m", "benchmarks.turns", *asked]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def round(self) -> Round:
        """Works for a round; the first compiles.

        Raises:
          MeasurementError: the process has ended, after it said why.
        """
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError):
            print(file=process.stdin, flush=True)
        if not (line := process.stdout.readline()):
            raise MeasurementError(f"its process ended with status {process.wait()}")
        return Round(*json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()  # at the end of its input it ends


def serve(library: str, measurement: str, workload: str, graphs: int, rounds: int) -> None:
    """Works a round for every line of standard input and prints what it came to."""
    from benchmarks.workloads import SOURCES

    made = SOURCES[workload].workload(graphs)
    if library == "jattn":
        from benchmarks import ours

        work: Iterator[float] = getattr(ours, measurement)(made, rounds)
    else:
        from benchmarks import pyg  # torch is in PyG's process alone

        work = getattr(pyg, measurement)(made)
    for _ in sys.stdin:
        start = time.perf_counter()
        kept = next(work)
        print(json.dumps([time.perf_counter() - start, kept]), flush=True)


if __name__ == "__main__":
    asked_library, asked_measurement, asked_workload, *numbers = sys.argv[1:]
    serve(asked_library, asked_measurement, asked_workload, *map(int, numbers))
