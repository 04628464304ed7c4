"""How fast jattn is: side by side with what matrix products allow and with PyTorch Geometric.

    python -m benchmarks --data-dir DIR               all parts, MNIST's files in DIR (downloaded where not given)
    python -m benchmarks training --workloads colors  one part, one data set
    python -m benchmarks --no-run                     tables and picture of what is measured already

Parts:

    training        a training step of 32 graphs: COLORS with 1 and 10 seeds, TRIANGLES, MNIST-75sp, and random graphs
                    of 300 nodes with 5 neighbors
    leave_one_out   leave-one-out attribution of a graph by the teacher of each
    prediction      predictions for a graph by each
    pyg             training and leave-one-out in turns with the same networks in PyTorch Geometric, where it is
                    installed (pip install -r benchmarks/requirements.txt)
    growth          training and leave-one-out against the number of nodes of graphs with 5 neighbors: random ones,
                    and points in a cube that are joined where they are near
    start           seconds of CPU of `import jattn` and of the help of each command

Each measurement has a process of its own, one after another, first with nothing compiled, then with all in the cache.
The floor of a step is 3 x the forward FLOPs over real nodes and edges (no padding, none dropped), at the rate of a
large float32 matrix product measured in the same process; that of leave-one-out is the forward FLOPs of a graph times
its nodes. Ratios carry over between machines, times do not.

--out gets a CSV file per part, and, made of these alone, benchmark.md, benchmark.txt and benchmark.png. A row that is
there is not measured again, so to resume an interrupted benchmark, repeat its command. All of it takes about half an
hour on 2 CPU cores, which should have nothing else to do.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tqdm import tqdm

from benchmarks.parts import NAMES, PARTS, Case, MeasurementError, Name, Part, Sizes, cases, measured
from experiments.run.command_line import call
from experiments.run.errors import fail
from experiments.run.paths import local_path
from experiments.run.tables import read_csv, write_csv


@dataclass(frozen=True)
class Options:
    """What is measured, and where it is written."""

    parts: Annotated[tuple[Part, ...], tyro.conf.Positional] = PARTS
    """Parts of the benchmark."""
    workloads: tuple[Name, ...] = NAMES
    """Data sets."""
    out: Path = Path("results/benchmark")
    """Folder of tables and picture."""
    data_dir: Path | None = None
    """Folder of MNIST's files; downloaded where not given."""
    graphs: int | None = None
    """Graphs of each data set; by default enough for steady times."""
    nodes: tuple[int, ...] = Sizes().nodes
    """Sizes of the graphs with which growth is measured."""
    repeats: int = Sizes().repeats
    """How often each time is measured; the least counts."""
    again: bool = False
    """Measure rows again that are in --out."""
    run: bool = True
    """Measure what is missing."""


def main(arguments: Sequence[str]) -> None:
    """Measures what a command line asks for and prints the tables."""
    options = call(Options, arguments, "python -m benchmarks", __doc__ or "")
    try:
        out = local_path("--out", options.out)
        data_dir = options.data_dir and local_path("--data-dir", options.data_dir)
        sizes = Sizes(options.workloads, options.graphs, options.nodes, options.repeats, data_dir)
    except ValueError as error:
        fail(f"--{str(error).removeprefix('--')}")
    failures = measure(list(cases(options.parts, sizes)), sizes, out, options.again) if options.run else {}
    # Not before anything is measured: matplotlib would take memory beside the measured processes.
    from benchmarks.tables import write_tables

    print(write_tables(out))
    for name, why in failures.items():
        print(f"{name}: {why}", file=sys.stderr)
    if failures:
        raise SystemExit(1)


def measure(asked: Sequence[Case], sizes: Sizes, out: Path, again: bool) -> dict[str, str]:
    """Measures what is missing in the folder, and returns the reason for each measurement that failed."""
    out.mkdir(parents=True, exist_ok=True)
    failures = {}
    with tqdm(asked, unit="row") as progress:
        for case in progress:
            progress.set_description(case.name)
            file = out / f"{case.part}.csv"
            rows = read_csv(file)
            there = [row for row in rows if case.key.items() <= row.items()]
            if there and not again:
                continue
            try:
                row = measured(case, sizes)
            except MeasurementError as error:
                failures[case.name] = str(error)
                continue
            write_csv(file, [*(other for other in rows if other not in there), row])
    return failures


if __name__ == "__main__":
    main(sys.argv[1:])
