"""The parts of the benchmark: their measurements, one row of a table each, and how a row is measured."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from benchmarks.turns import LIBRARIES, MeasurementError, Turns
from experiments.__main__ import COMMANDS
from jattn._options import expect_at_least

Part = Literal["training", "leave_one_out", "prediction", "pyg", "growth", "start"]
PARTS: tuple[Part, ...] = get_args(Part)
Name = Literal["colors", "triangles", "mnist75sp", "sparse"]
NAMES: tuple[Name, ...] = get_args(Name)
SEEDS: Mapping[Name, Sequence[int]] = {"colors": (1, 10)}
GRAPHS: Mapping[Name, Mapping[str, int]] = {
    "colors": {"training": 500, "leave_one_out": 500, "prediction": 500},
    "triangles": {"training": 3200, "leave_one_out": 3200, "prediction": 3200},
    "mnist75sp": {"training": 3200, "leave_one_out": 640, "prediction": 640},
    "sparse": {"training": 320, "leave_one_out": 16, "prediction": 320},
}
COMPARED: tuple[Name, ...] = ("colors", "triangles", "sparse")  # that are written in PyG, too
GROWTH = (("training", "random"), ("leave_one_out", "random"), ("leave_one_out", "space"))
IMPORT = "import jattn"


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
      workloads: the names of the data sets.
      graphs: graphs of each; None for the numbers in `GRAPHS`.
      nodes: sizes of the graphs with which growth is measured.
      repeats: as often each time is measured after the first.
      data_dir: folder of MNIST's files.
    """

    workloads: tuple[Name, ...] = NAMES
    graphs: int | None = None
    nodes: tuple[int, ...] = (25, 50, 100, 200, 400, 800, 1600)
    repeats: int = 10
    data_dir: Path | None = None

    def __post_init__(self) -> None:
        expect_at_least(1, graphs=self.graphs, repeats=self.repeats)
        expect_at_least(10, nodes=min(self.nodes, default=10))


class Case(NamedTuple):
    """A measurement.

    Attributes:
      part: the part that it belongs to.
      key: the first columns of its row, which tell it from other rows.
    """

    part: Part
    key: Mapping[str, str | int]

    @property
    def name(self) -> str:
        """As progress shows it."""
        return " ".join([self.part.replace("_", "-"), *map(str, self.key.values())])


def cases(parts: Sequence[Part], sizes: Sizes) -> Iterator[Case]:
    """The measurements of some parts. Those of PyG are left out where it is not installed."""
    for part in parts:
        match part:
            case "training" | "leave_one_out" | "prediction":
                for name in sizes.workloads:
                    graphs = sizes.graphs or GRAPHS[name][part]
                    for seeds in SEEDS.get(name, (1,)):
                        yield Case(part, {"workload": name, "graphs": graphs, "seeds": seeds})
            case "pyg" if find_spec("torch_geometric") is not None:
                for measurement in ("training", "leave_one_out"):
                    for name in COMPARED:
                        if name in sizes.workloads:
                            graphs = sizes.graphs or GRAPHS[name][measurement]
                            yield Case(part, {"measurement": measurement, "workload": name, "graphs": graphs})
            case "growth":
                for measurement, kind in GROWTH:
                    for nodes in sizes.nodes:
                        yield Case(part, {"measurement": measurement, "kind": kind, "nodes": nodes})
            case "start":
                for command in (IMPORT, *COMMANDS):
                    yield Case(part, {"command": command})


def measured(case: Case, sizes: Sizes) -> dict[str, Any]:
    """The row of a measurement.

    Raises:
      MeasurementError: it failed.
    """
    key = dict(case.key)
    match case.part:
        case "pyg":
            return key | _compared(**key, rounds=sizes.repeats)  # type: ignore[arg-type]
        case "growth":
            measurement, nodes = str(key["measurement"]), int(key["nodes"])
            return key | _measured(measurement, f"{key['kind']}-{nodes}", _growing(measurement, nodes), 1, sizes)
        case "start":
            return key | _started(str(key["command"]), sizes.repeats)
        case _:
            return key | _measured(case.part, str(key["workload"]), int(key["graphs"]), int(key["seeds"]), sizes)


def _growing(measurement: str, nodes: int) -> int:
    """How many graphs of so many nodes growth is measured with: enough for steady times."""
    return 320 if measurement == "training" else max(2, 3200 // nodes)


def _measured(measurement: str, workload: str, graphs: int, seeds: int, sizes: Sizes) -> dict[str, float]:
    """What `benchmarks.measure` gives in a new process, once nothing is compiled yet and once all is in the cache."""
    asked = {"measurement": measurement, "workload": workload, "graphs": graphs, "seeds": seeds}
    asked |= {"data_dir": sizes.data_dir and str(sizes.data_dir)}
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (_process(asked | {"repeats": repeats}, cache) for repeats in (0, sizes.repeats))
    return {
        "each": warm["each"],
        "floor": warm["floor"],
        "first_cold": cold["first"],
        "first_warm": warm["first"],
        "compiling": cold["compiling"],
        "memory": warm["memory"],
    }


def _process(asked: Mapping[str, Any], cache: str) -> dict[str, float]:
    """The numbers that a process of `benchmarks.measure` prints."""
    command = [sys.executable, "-m", "benchmarks.measure", json.dumps(asked)]
    ended = _ended(command, {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache})
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def _started(command: str, repeats: int) -> dict[str, float]:
    """The least seconds of CPU and of the clock that importing jattn, or the help of a command, takes."""
    line = ["-c", IMPORT] if command == IMPORT else ["-m", "experiments", command.replace("_", "-"), "--help"]
    cpu, clock = [], []
    for _ in range(repeats):
        before = os.times()
        _ended([sys.executable, *line], os.environ)
        after = os.times()
        cpu.append(sum(after[2:4]) - sum(before[2:4]))  # of children: user and system
        clock.append(after.elapsed - before.elapsed)
    return {"cpu": min(cpu), "clock": min(clock)}


def _ended(command: Sequence[str], environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    ended = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    if ended.returncode:
        raise MeasurementError((ended.stderr.splitlines() or [f"status {ended.returncode}"])[-1])
    return ended


def _compared(measurement: str, workload: str, graphs: int, rounds: int) -> dict[str, float]:
    """Medians of the seconds of rounds that both libraries take in turns, so that a drift of speed slows both."""
    times = []
    with ExitStack() as stack:
        asked = measurement, workload, graphs, rounds + 1
        turns = [stack.enter_context(Turns(library, *asked)) for library in LIBRARIES]
        for turn in turns:
            turn.round()  # in which ours compiles
        for _ in range(rounds):
            ours, theirs = (turn.round() for turn in turns)
            times.append((ours.seconds, theirs.seconds))
    ratios = [theirs / ours for ours, theirs in times]
    seconds = [statistics.median(column) for column in zip(*times, strict=True)]
    return {
        **dict(zip(("ours", "theirs"), seconds, strict=True)),
        "ratio": statistics.median(ratios),
        "least_ratio": min(ratios),
        "largest_ratio": max(ratios),
        "kept_ours": ours.kept,
        "kept_theirs": theirs.kept,
    }
