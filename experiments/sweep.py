"""Many runs of an experiment as independent jobs: presets x seeds x data seeds x values of any setting.

    python -m experiments.sweep colors weak supervised --seeds 100 --out sweeps/colors
        two presets, 100 seeds each, ten per job: 20 jobs, as many at once as there are GPUs, or else cores
    python -m experiments.sweep colors weak --vary threshold=0.01,0.05 --vary filters="32 32,64 64" --out sweeps/sizes
        a grid of settings, 10 seeds each
    python -m experiments.sweep triangles supervised weak --seeds 5 --seeds-per-job 1 --out sweeps/tri -- --data-dir DIR
        every job gets the arguments after --
    python -m experiments.sweep tu weak global --vary dataset=PROTEINS,COLLAB --data-seeds 0 1 2 --out sweeps/tu
        three draws of training graphs of two data sets
    python -m experiments.sweep colors weak --seeds 1000 --out sweeps/many --executor slurm --partition gpu --hours 2
        one SLURM array, with a task for ten seeds
    python -m experiments.sweep --summary --out sweeps/colors
        the table, at any time, also while jobs run

Every job is a run with a folder in --out, which also has its log.txt. The same command again skips finished jobs,
resumes interrupted ones and tries failed ones again; with more presets, seeds, data seeds or values it makes the sweep
larger. See docs/how_to/clusters.md.
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

from .run.command_line import parse_settings
from .run.errors import expect_no_empty, fail
from .run.folder import RunError
from .run.groups import Checked, name_flag
from .run.paths import run_folder
from .run.program import as_typed, job_command, program
from .sweeps.attempts import state
from .sweeps.grid import EXPERIMENTS, Grid, Job, changes, definition, jobs_of, read_definition, read_grid
from .sweeps.pool import JobPool, device_slices
from .sweeps.slurm import Slurm, submit
from .sweeps.summary import read_rows, table, write_summary


@dataclass(frozen=True, kw_only=True)
class Sweep(Checked):
    """The settings of a sweep, besides the arguments of its jobs."""

    experiment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="EXPERIMENT")] = ""
    """colors, triangles, mnist75sp, tu or size_shift."""
    presets: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="PRESET ...")] = ()
    """Its presets, at least one."""
    out: Path
    """Folder of the sweep."""
    seeds: int = 10
    """Number of seeds of each preset, for each choice of values and each data seed."""
    first_seed: int = 0
    """The first seed."""
    seeds_per_job: int = 10
    """Seeds that one job trains at once. The last job may have fewer; a larger sweep trains those again."""
    data_seeds: tuple[int, ...] = ()
    """Seeds of the data, for experiments that have --data-seed."""
    vary: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="NAME=VALUE,VALUE,...")] = ()
    """Values of any other setting; of several such settings all combinations. A value with commas stands in double
    quotes, with double quotes in it doubled: --vary 'dataset="DIR/a,b/TOY.zip",PROTEINS'."""
    jobs: int | None = None
    """Jobs that run at once, each with its slice of the machine; by default one per GPU, or per CPU core without GPUs.
    On SLURM the largest number of tasks at once."""
    retries: int = 1
    """How often a failed job is tried again."""
    executor: Literal["local", "slurm"] = "local"
    """Run the jobs here, or submit them to SLURM."""
    summary: bool = False
    """Show the table of the sweep in --out, and run nothing. Experiment and presets may be left out."""
    quiet: bool = False
    """Show only errors and the table at the end."""
    on_slurm: tyro.conf.OmitArgPrefixes[Slurm] = Slurm()
    """Resources of a job with --executor slurm."""

    positional = ("experiment", "presets")

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        object.__setattr__(self, "out", run_folder("out", self.out))
        super().validate()
        expect_at_least(1, jobs=self.jobs)
        expect_at_least(0, retries=self.retries)
        if self.executor != "slurm" and self.on_slurm != Slurm():
            names = [field.name for field in fields(Slurm)]
            changed = [name for name in names if getattr(self.on_slurm, name) != getattr(Slurm(), name)]
            raise ValueError(f"{changed[0]}: only for jobs on SLURM; add --executor slurm")
        if not self.summary and not self.experiment:
            raise ValueError(f"experiment: name one of {', '.join(EXPERIMENTS)}")

    def grid(self, arguments: Sequence[str]) -> Grid:
        """Returns the grid of these settings; `arguments` are for every job."""
        values = [_values(entry) for entry in self.vary]
        names = [name for name, _ in values]
        if repeated := [name for name in names if names.count(name) > 1]:
            remedy = f"list all of its values once, {repeated[0]}=VALUE,VALUE,..."
            raise ValueError(f"vary: {repeated[0]} is given twice; {remedy}")
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
    """Runs, submits or shows the sweep of a command line."""
    expect_no_empty(arguments)
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    sweep = parse_settings(Sweep, arguments[:end], program("sweep"), as_typed(__doc__ or ""))
    try:
        grid = _stored_grid(sweep.out) if sweep.summary else sweep.grid(arguments[end + 1 :])
    except (ValueError, RunError) as error:
        fail(name_flag(str(error), sweep))
    jobs = jobs_of(grid)
    try:
        if sweep.summary:
            show(jobs, sweep.out)
        else:
            run(sweep, grid, jobs)
    except RunError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error}; to resume the sweep, repeat the command")


def run(sweep: Sweep, grid: Grid, jobs: Sequence[Job]) -> None:
    """Runs or submits the unfinished jobs of a sweep; exits with status 1 if some fail."""
    out = sweep.out
    with _locked(out):
        _store(grid, jobs, out / "sweep.json")
        states = {job.name: state(out / job.name) for job in jobs}
        commands = {job.name: command(job, out) for job in jobs if states[job.name] in ("waiting", "failed")}
        if not sweep.quiet and len(commands) < len(jobs):
            running = list(states.values()).count("running")
            print(f"{len(jobs) - len(commands) - running} jobs are finished, {running} run already", file=sys.stderr)
        if commands and sweep.executor == "slurm":
            array = submit(commands, out, sweep.on_slurm, sweep.jobs, sweep.retries)
            print(f"submitted {len(commands)} jobs: squeue -j {array} lists them, scancel {array} ends them")
            print(f"for the table: {program('sweep')} --summary --out {out}")
            return
        failures, stop_signal = JobPool(commands, out, device_slices(sweep.jobs), sweep.retries, sweep.quiet).run()
    if stop_signal is not None:
        finished = sum(state(out / job.name) == "done" for job in jobs)
        print(f"stopped; {finished} of {len(jobs)} jobs are finished; to resume, repeat the command", file=sys.stderr)
        raise SystemExit(128 + stop_signal)
    show(jobs, out, failures)
    if failures:
        raise SystemExit(1)


def command(job: Job, out: Path) -> list[str]:
    """Returns the command line of a job."""
    return [*job_command(job.experiment.name), *job.arguments, "--out", str(out.absolute() / job.name)]


def show(jobs: Sequence[Job], out: Path, failures: Mapping[str, str] = MappingProxyType({})) -> None:
    """Prints the table of a sweep, and writes it as summary.csv.

    Args:
      jobs: all jobs of the sweep.
      out: the sweep's folder.
      failures: reasons of failed jobs, by name, besides those in their folders.
    """
    rows = read_rows(jobs, out)
    write_summary(rows, out / "summary.csv")
    print(table(rows))
    for name, why in {**{k: v for row in rows for k, v in row.failures.items()}, **failures}.items():
        print(f"{out / name}: {why}", file=sys.stderr)


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Within, no other process runs or submits the sweep of a folder."""
    try:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fail(f"{out}: can't hold a sweep ({error.strerror}); choose another folder")
        with FileLock(out / "sweep.lock", timeout=0):
            yield
    except Timeout:
        fail(f"{out}: another process runs this sweep; --summary shows its table")


def _store(grid: Grid, jobs: Sequence[Job], file: Path) -> None:
    """Writes a sweep's definition. Exits with a message unless one that is there is a part of it."""
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


def _stored_grid(out: Path) -> Grid:
    try:
        return read_grid(read_definition(out / "sweep.json"))
    except OSError as error:
        fail(f"{out}: holds no sweep ({error.strerror})")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        fail(f"{out / 'sweep.json'}: not a sweep's definition ({error})")


if __name__ == "__main__":
    main(sys.argv[1:])
