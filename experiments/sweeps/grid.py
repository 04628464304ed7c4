"""The jobs of a sweep: presets x values of settings x data seeds x groups of seeds, each a run."""

import hashlib
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from jattn._options import expect_at_least, expect_seeds
from jattn.io import to_jsonable
from jattn.io._files import expect_format

from .. import size_shift, tu
from ..run.command import Experiment
from ..run.errors import expect_known, fail
from ..run.folder import RunError
from ..run.groups import entries, flat, with_changes
from ..run.identity import DATA, RESULTS, settings_differences, settings_of
from ..run.program import PACKAGE
from ..run.settings import GeneratedData

EXPERIMENTS = ("colors", "triangles", "mnist75sp", "tu", "size_shift")
FORMAT = 2  # format number of a sweep's definition
MAX_NAME_BYTES = 160  # for the varied values in the name of a folder; disks allow 255 for the whole name
UNSAFE_CHARS = re.compile(r"[^\w.+-]+")  # which names of folders do without


@dataclass(frozen=True)
class Grid:
    """The definition of a sweep.

    Attributes:
      experiment: the experiment's name.
      presets: names of its presets.
      first_seed: the first seed.
      seeds: the number of seeds of each preset, choice of values and data seed.
      seeds_per_job: seeds that a job trains at once; the last job may have fewer.
      data_seeds: seeds of the data; if empty, that of the settings.
      vary: values of further settings, by name.
      arguments: further arguments of every job.
    """

    experiment: str
    presets: tuple[str, ...]
    first_seed: int
    seeds: int
    seeds_per_job: int
    data_seeds: tuple[int, ...]
    vary: Mapping[str, tuple[str, ...]]
    arguments: tuple[str, ...]

    def __post_init__(self) -> None:
        expect_at_least(0, first_seed=self.first_seed)
        expect_at_least(1, seeds=self.seeds, seeds_per_job=self.seeds_per_job)
        expect_seeds(self.first_seed, self.seeds)
        for name, values in {"presets": self.presets, "data_seeds": self.data_seeds, **self.vary}.items():
            repeated = [value for value, count in Counter(values).items() if count > 1]
            if repeated:
                raise ValueError(f"{name}: {repeated[0]} is given more than once")
        for name in self.vary:
            if name.replace("-", "_") in ("out", "seed", "seeds", "data_seed"):
                raise ValueError(f"vary: {name} can't be varied; say --seeds, --first-seed or --data-seeds")
        taken = {"out", "seed", "seeds", *self.vary} | ({"data-seed"} if self.data_seeds else set())
        for argument in self.arguments:
            option = re.match(r"--(?:no-)?([\w-]+)", argument)
            if option and option[1].replace("_", "-") in taken:
                raise ValueError(f"{argument}: the sweep gives this to its jobs; leave it out of what follows --")


class Job(NamedTuple):
    """One run of a sweep.

    Attributes:
      name: the name of its folder, unique in the sweep.
      preset: its preset.
      values: values of the settings that the sweep varies.
      arguments: the arguments of its command, without --out.
      settings: the settings of these arguments.
      row_settings: the settings that all jobs of its row have, with the default seeds.
      experiment: its experiment.
    """

    name: str
    preset: str
    values: Mapping[str, str]
    arguments: Sequence[str]
    settings: Any
    row_settings: Any
    experiment: Experiment

    @property
    def row(self) -> str:
        """The name that jobs have in common if they differ only in their seeds."""
        return " ".join([self.preset, *(f"{name}={value}" for name, value in self.values.items())])

    @property
    def trained(self) -> list[tuple[int, int]]:
        """The data seed and the seed of every network, in the order of the results."""
        data, first = self.settings.data, getattr(self.settings.data, "data_seed", 0)
        draws = range(first, first + getattr(data, "data_seeds", 1))
        return list(itertools.product(draws, self.settings.evaluation.all_seeds))

    @property
    def networks(self) -> int:
        """The number of networks that it trains."""
        return len(self.trained)


def jobs_of(grid: Grid) -> list[Job]:
    """Returns all jobs, those of the first seeds first. Exits with a message if a preset or an argument is wrong."""
    if not grid.presets:
        known = find(grid.experiment, grid.arguments).presets
        fail(f"presets: name at least one of: {', '.join(known)}")
    rows = [
        jobs_of_row(grid, preset, dict(zip(grid.vary, values, strict=True)), data_seed)
        for data_seed in grid.data_seeds or [None]
        for preset in grid.presets
        for values in itertools.product(*grid.vary.values())
    ]
    jobs = list(itertools.chain(*zip(*rows, strict=True)))
    (name, count), *_ = Counter(job.name for job in jobs).most_common(1)
    if count > 1:
        fail(f"vary: {count} jobs would share the folder {name}; give them values that differ in letters or digits")
    return jobs


def jobs_of_row(grid: Grid, preset: str, values: Mapping[str, str], data_seed: int | None) -> list[Job]:
    """Returns the jobs that differ only in the seeds of their networks."""
    varied = [f"{name}={UNSAFE_CHARS.sub('-', value)}" for name, value in values.items()]
    data = [] if data_seed is None else [f"data={data_seed}"]
    experiment = find(grid.experiment, [*grid.arguments, *(f"--{name}={value}" for name, value in values.items())])
    arguments = [preset, *grid.arguments]
    for name, value in values.items():
        arguments += _option(experiment, preset, name, value)
    _, row_settings = experiment.parse(arguments)
    arguments += [] if data_seed is None else ["--data-seed", str(data_seed)]
    _, settings = experiment.parse(arguments)
    jobs, end = [], grid.first_seed + grid.seeds
    for first in range(grid.first_seed, end, grid.seeds_per_job):
        seeds = range(first, min(first + grid.seeds_per_job, end))
        seed_range = f"seeds={first}-{seeds[-1]}" if len(seeds) > 1 else f"seed={first}"
        name = "_".join([preset, *_shortened(varied), *data, seed_range])
        seed_arguments = ["--seed", str(first), "--seeds", str(len(seeds))]
        job_settings = with_changes(settings, seed=first, seeds=len(seeds))
        jobs.append(Job(name, preset, values, [*arguments, *seed_arguments], job_settings, row_settings, experiment))
    return jobs


def _shortened(varied: Sequence[str]) -> list[str]:
    """Returns parts of a folder's name; if they are too long, their beginning and a hash of them all."""
    whole = "_".join(varied)
    if len(os.fsencode(whole)) <= MAX_NAME_BYTES:
        return list(varied)
    begin = os.fsencode(whole)[: MAX_NAME_BYTES // 2].decode("utf-8", errors="ignore")
    return [f"{begin}-{hashlib.sha256(os.fsencode(whole)).hexdigest()[:12]}"]


def _option(experiment: Experiment, preset: str, name: str, value: str) -> list[str]:
    """Returns the arguments of a varied setting; a value with spaces has several parts if the setting has."""
    known = experiment.presets.get(preset)
    default = {field.name: value for _, field, value in entries(known)}.get(name.replace("-", "_")) if known else None
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            fail(f"vary: {name}={value} is not allowed, expected true or false")
        return [f"--{name}" if value.lower() == "true" else f"--no-{name}"]
    return [f"--{name}", *(value.split() if isinstance(default, tuple) else [value])]


def find(name: str, arguments: Sequence[str]) -> Experiment:
    """Returns the experiment of a name; where presets are a data set's, of the one that the arguments name."""
    expect_known("experiment", name, EXPERIMENTS)
    of_data_sets = {"tu": tu, "size_shift": size_shift}
    if name in of_data_sets:
        return of_data_sets[name].experiment_of(arguments)
    return import_module(f"{PACKAGE}.{name}").EXPERIMENT


def is_generated(job: Job, settings: Mapping[str, Any]) -> bool:
    """Whether a run of a job has generated rather than published data, by its settings as JSON has them."""
    return isinstance(job.settings.data, GeneratedData) and settings.get("data_dir") is None


def definition(grid: Grid, jobs: Sequence[Job]) -> dict[str, Any]:
    """Returns what `sweep.json` holds: the grid, and the settings of every row that affect its results."""
    settings = {job.row: settings_of(job.row_settings, [*DATA, *RESULTS]) for job in jobs}
    return {"format": FORMAT, "grid": to_jsonable(asdict(grid)), "settings": settings}


def read_definition(file: Path) -> dict[str, Any]:
    """Returns the definition in a file.

    Raises:
      RunError: the file holds no definition, or one of another format.
      FileNotFoundError: there is no file.
    """
    try:
        found = json.loads(file.read_text("utf-8"))
        number = found.get("format")
    except (ValueError, AttributeError) as error:
        raise RunError(f"{file}: not a sweep's definition ({error}); choose another folder") from error
    expect_format(file, number, FORMAT, "go on with that version, or choose another folder", RunError)
    return found


def read_grid(stored: Mapping[str, Any]) -> Grid:
    """Returns the grid of a definition that was read from a file."""
    grid = dict(stored["grid"])
    for name in ("presets", "data_seeds", "arguments"):
        grid[name] = tuple(grid[name])
    return Grid(**grid | {"vary": {name: tuple(values) for name, values in grid["vary"].items()}})


def changes(there: Mapping[str, Any], grid: Grid, jobs: Sequence[Job]) -> list[str]:
    """Returns a line for each change that is more than a larger sweep.

    Published data may have moved: each run checks that they are the same.
    """
    before, after = there["grid"], to_jsonable(asdict(grid))
    same = ["experiment", "first_seed", "seeds_per_job"]
    changed = [name for name in same if before[name] != after[name]]
    changed += ["seeds"] * (before["seeds"] > after["seeds"])
    for name in ("presets", "data_seeds"):  # without data seeds none can be added: jobs would have other names
        if not set(before[name]) <= set(after[name]) or bool(before[name]) != bool(after[name]):
            changed.append(name)
    varied, varies = before["vary"], after["vary"]
    if varied.keys() != varies.keys() or any(not set(varied[name]) <= set(varies[name]) for name in varied):
        changed.append("vary")
    lines = [f"{name}: {before[name]} there, {after[name]} now" for name in changed]
    for row, job in {job.row: job for job in jobs}.items():
        old = there["settings"].get(row)
        if old is not None:
            same_source = is_generated(job, old) == is_generated(job, flat(job.row_settings))
            kinds = ["data", *RESULTS] if same_source else [*DATA, *RESULTS]
            lines += [f"{row}: {change}" for change in settings_differences(old, job.row_settings, kinds)]
    return lines
