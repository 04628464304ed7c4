"""Many runs of an experiment as independent jobs: presets x seeds x data seeds x values of any setting.

    python -m experiments.sweep colors weak supervised --seeds 100 --out sweeps/colors
        two presets, 100 seeds each, ten a job: 20 jobs, as many at once as there are GPUs, or else cores
    python -m experiments.sweep colors weak --vary threshold=0.01,0.05 --vary filters="32 32,64 64" --out sweeps/sizes
        a grid of settings, 10 seeds each
    python -m experiments.sweep triangles supervised weak --seeds 5 --seeds-per-job 1 --out sweeps/tri -- --data-dir DIR
        what follows -- is given to every job
    python -m experiments.sweep tu weak global --vary dataset=PROTEINS,COLLAB --data-seeds 0 1 2 --out sweeps/tu
        three draws of training graphs of two data sets
    python -m experiments.sweep colors weak --seeds 1000 --out sweeps/many --executor slurm --partition gpu --hours 2
        one array of SLURM's, a job for ten seeds
    python -m experiments.sweep --summary --out sweeps/colors
        the table, at any time, also while jobs run

Every job is a run with a folder of its own in --out, which also has its log.txt. The same command again skips jobs that
are finished, goes on with those that were cut and tries failed ones again; with more presets, seeds, data seeds or
values it makes the sweep larger. See docs/clusters.md.
"""

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import tyro
from filelock import FileLock, Timeout

from jattn._options import expect_at_least
from jattn.io import write_json

from .run.errors import expect_no_empty, fail
from .run.folder import RunError
from .run.paths import run_folder
from .run.program import as_typed, job_command, program
from .sweeps.attempts import state
from .sweeps.grid import EXPERIMENTS, Grid, Job, changes, definition, jobs_of, read_definition, read_grid
from .sweeps.pool import JobPool, device_slices
from .sweeps.slurm import Slurm, submit
from .sweeps.summary import read_rows, table, write_summary


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What the command can be told, besides what it gives to its jobs."""

    experiment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="EXPERIMENT")] = ""
    """colors, triangles, mnist75sp or tu."""
    presets: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="PRESET ...")] = ()
    """Presets of it, at least one."""
    out: Path
    """Folder of the sweep."""
    seeds: int = 10
    """Seeds of each preset, for each choice of values and each data seed."""
    first_seed: int = 0
    """The first of the seeds."""
    seeds_per_job: int = 10
    """Seeds that one job trains at once. What is left over makes a last job of fewer, whose seeds a sweep that is made
    larger trains anew."""
    data_seeds: tuple[int, ...] = ()
    """Seeds of the data, for experiments that have --data-seed."""
    vary: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="NAME=VALUE,VALUE,...")] = ()
    """Values of any other setting; of several such settings all combinations. A value that has commas stands in double
    quotes, with those in it doubled: --vary 'dataset="DIR/a,b/TOY.zip",PROTEINS'."""
    jobs: int | None = None
    """Jobs that run at once, each with its share of the machine; one for each GPU, or else core, where not given. On
    SLURM no more than this."""
    retries: int = 1
    """How often a job that failed is tried again before it is given up until the next command."""
    executor: Literal["local", "slurm"] = "local"
    """Run the jobs here, or submit them to SLURM."""
    summary: bool = False
    """Show the table of what is in --out, and run nothing. Experiment and presets need not be named."""
    quiet: bool = False
    """Show nothing but errors and the table at the end."""
    on_slurm: tyro.conf.OmitArgPrefixes[Slurm] = Slurm()
    """With --executor slurm."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", run_folder("out", self.out))
        expect_at_least(1, jobs=self.jobs)
        expect_at_least(0, retries=self.retries)
        if self.executor != "slurm" and self.on_slurm != Slurm():
            changed = [of.name for of in fields(Slurm) if getattr(self.on_slurm, of.name) != getattr(Slurm(), of.name)]
            raise ValueError(f"{changed[0]}: it is of jobs on SLURM; say --executor slurm")
        if not self.summary and not self.experiment:
            raise ValueError(f"experiment: name one of {', '.join(EXPERIMENTS)}")

    def grid(self, arguments: Sequence[str]) -> Grid:
        """The grid that this asks for, every job of which is given some arguments."""
        values = [_values(entry) for entry in self.vary]
        names = [name for name, _ in values]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(
                f"vary: {twice[0]} is given twice; list all of its values once, {twice[0]}=VALUE,VALUE,..."
            )
        return Grid(
            self.experiment,
            self.presets,
            self.first_seed,
            self.seeds,
            self.seeds_per_job,
            self.data_seeds,
            dict(values),
            tuple(arguments),
        )


def _values(entry: str) -> tuple[str, tuple[str, ...]]:
    name, _, values = entry.partition("=")
    try:
        (row,) = csv.reader([values], skipinitialspace=True, strict=True)
    except (ValueError, csv.Error):
        row = []
    parts = tuple(value.strip() for value in row)
    if not parts or not name.strip("-") or not all(parts):
        raise ValueError(f"vary: {entry!r} is not allowed, expected NAME=VALUE,VALUE,...")
    return name.lstrip("-").replace("_", "-"), parts


def main(arguments: Sequence[str]) -> None:
    """Runs, submits or shows the sweep that a command line asks for."""
    expect_no_empty(arguments)
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    try:
        sweep = tyro.cli(Sweep, args=arguments[:end], prog=program("sweep"), description=as_typed(__doc__ or ""))
        grid = _kept_grid(sweep.out) if sweep.summary else sweep.grid(arguments[end + 1 :])
    except (ValueError, RunError) as error:
        fail(str(error))
    jobs = jobs_of(grid)
    try:
        if sweep.summary:
            show(jobs, sweep.out)
        else:
            run(sweep, grid, jobs)
    except RunError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error}; the same command goes on with the sweep")


def run(sweep: Sweep, grid: Grid, jobs: Sequence[Job]) -> None:
    """Runs or submits those jobs of a sweep that are not finished; exits with status 1 where some fail."""
    out = sweep.out
    with _held(out):
        _keep(grid, jobs, out / "sweep.json")
        states = {job.name: state(out / job.name) for job in jobs}
        todo = {job.name: command(job, out) for job in jobs if states[job.name] in ("waiting", "failed")}
        if not sweep.quiet and len(todo) < len(jobs):
            elsewhere = list(states.values()).count("running")
            print(f"{len(jobs) - len(todo) - elsewhere} jobs are finished, {elsewhere} run already", file=sys.stderr)
        if todo and sweep.executor == "slurm":
            array = submit(todo, out, sweep.on_slurm, sweep.jobs, sweep.retries)
            print(f"submitted {len(todo)} jobs: squeue -j {array} lists them, scancel {array} ends them")
            print(f"how far they are: {program('sweep')} --summary --out {out}")
            return
        failures, asked = JobPool(todo, out, device_slices(sweep.jobs), sweep.retries, sweep.quiet).run()
    if asked is not None:
        done = sum(state(out / job.name) == "done" for job in jobs)
        print(f"stopped; {done} of {len(jobs)} jobs are finished, and the same command goes on", file=sys.stderr)
        raise SystemExit(128 + asked)
    show(jobs, out, failures)
    if failures:
        raise SystemExit(1)


def command(job: Job, out: Path) -> list[str]:
    """The command line of a job."""
    return [*job_command(job.experiment.name), *job.arguments, "--out", str(out.absolute() / job.name)]


def show(jobs: Sequence[Job], out: Path, failures: Mapping[str, str] = MappingProxyType({})) -> None:
    """Prints the table of a sweep, and writes it as summary.csv.

    Args:
      jobs: all of the sweep's.
      out: the sweep's folder.
      failures: why jobs failed, besides what their folders say.
    """
    rows = read_rows(jobs, out)
    write_summary(rows, out / "summary.csv")
    print(table(rows))
    for name, why in {**{k: v for row in rows for k, v in row.failures.items()}, **failures}.items():
        print(f"{out / name}: {why}", file=sys.stderr)


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """Within, this process alone runs or submits the sweep of a folder."""
    try:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fail(f"{out}: can't hold a sweep ({error.strerror}); choose another folder")
        with FileLock(out / "sweep.lock", timeout=0):
            yield
    except Timeout:
        fail(f"{out}: another process runs this sweep; --summary shows how far it is")


def _keep(grid: Grid, jobs: Sequence[Job], file: Path) -> None:
    """Writes a sweep's definition. Exits with a message where another is there of which it is not a larger one."""
    if file.exists():
        try:
            found = changes(read_definition(file), grid, jobs)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            fail(f"{file}: not a sweep's definition ({error}); choose another folder")
        if found:
            fail("\n  ".join([f"{file.parent} holds another sweep; choose another folder", *found]))
    elif (file.parent / "config.json").exists():
        fail(f"{file.parent} holds a run; choose another folder")
    write_json(file, definition(grid, jobs))


def _kept_grid(out: Path) -> Grid:
    try:
        return read_grid(read_definition(out / "sweep.json"))
    except OSError as error:
        fail(f"{out}: holds no sweep ({error.strerror})")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        fail(f"{out / 'sweep.json'}: not a sweep's definition ({error})")


if __name__ == "__main__":
    main(sys.argv[1:])
