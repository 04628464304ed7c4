"""The runs behind the paper's tables and figures: the rows of each table, and the seeds and data of each row."""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import tyro

from jattn._options import expect_at_least

from ..run.groups import Checked
from ..run.paths import run_folder
from ..sweeps.grid import Grid, Job, jobs_of

Target = Literal["table1", "table2", "table3", "figures", "all", "status"]
TARGETS: tuple[Target, ...] = get_args(Target)
Task = Literal["colors", "triangles", "mnist75sp", "tu"]
TASKS: tuple[Task, ...] = get_args(Task)
SEEDS = {"colors": 100, "triangles": 2, "mnist75sp": 1, "tu": 5}
SEEDS_PER_JOB = {"colors": 10, "tu": 5}  # small networks train at once in one program; others one by one
DRAWS = ("--data-seeds", "3")  # of training graphs of TU data sets
DATASETS = ("PROTEINS", "COLLAB", "DD-200", "DD-300")
STUDY = "initialization"
NETWORKS, FIGURE_3, QUALITATIVE = "networks.png", "figure3.png", "qualitative.png"
RETRIES = 1  # of a run that fails

# Rows of the tables, by preset. Table 3 includes those of Table 1.
TABLE_1 = {
    "global-gcn": "GCN",
    "global-gin": "GIN",
    "global": "ChebyGIN",
    "unsupervised-gin-topk": "GIN, top-k, unsupervised",
    "unsupervised-topk": "ChebyGIN, top-k, unsupervised",
    "unsupervised-gin": "GIN, unsupervised",
    "unsupervised": "ChebyGIN, unsupervised",
    "supervised-gin-topk": "GIN, top-k, supervised",
    "supervised-topk": "ChebyGIN, top-k, supervised",
    "supervised-gin": "GIN, supervised",
    "supervised": "ChebyGIN, supervised",
    "weak": "ChebyGIN, weakly supervised",
    "upper-bound-gin": "GIN, true attention",
    "upper-bound": "ChebyGIN, true attention",
}
TABLE_3 = {
    **TABLE_1,
    "diffpool-gin": "GIN, DiffPool",
    "diffpool": "ChebyGIN, DiffPool",
    "global-h": "ChebyGIN-h",
    **{f"{kind}-{size}": f"ChebyGIN-{size}, {kind}" for kind in ("unsupervised", "supervised") for size in "dh"},
    "weak-d": "ChebyGIN-d, weakly supervised",
    "weak-h": "ChebyGIN-h, weakly supervised",
}
# The attention of networks without any is leave-one-out attribution.
EXTRA_ARGUMENTS = {preset: ("--leave-one-out-auc",) for preset in TABLE_3 if preset.startswith(("global", "diffpool"))}
# Presets of COLORS with 32 colors, which no published set has.
GENERATED = {preset for preset in TABLE_3 if preset.endswith("-h")}
TABLE_2 = {
    "global": "global pooling",
    "unsupervised": "attention, unsupervised",
    "weak": "attention, weakly supervised",
}
TABLES: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "table1": (TASKS[:3], TABLE_1),
    "table2": (TASKS[3:], TABLE_2),
    "table3": (TASKS[:3], TABLE_3),
}
LEARNED = ("unsupervised", "supervised", "weak")  # whose every network is a mark in Figure 3, panels a and f
COMPARED = ("diffpool-gin", "global", "weak")  # whose first networks are the columns of the qualitative figure
FIGURES = (TASKS[:3], {preset: TABLE_3[preset] for preset in dict.fromkeys((*LEARNED, *COMPARED))})


@dataclass(frozen=True)
class Paper(Checked):
    """The tables and figures to make."""

    target: tyro.conf.Positional[Target]
    """A table, the figures, all of them, or status: what is finished, and how long the rest will take."""
    out: Path = Path("paper")
    """Folder of runs, tables and report."""
    data_dir: Path | None = None
    """Folder of the published data sets; by default COLORS and TRIANGLES are generated and others downloaded."""
    tasks: tuple[Task, ...] = TASKS
    """Tasks to run; tu stands for the data sets of Table 2. The study of initial attention belongs to colors."""
    presets: tuple[str, ...] = ()
    """Presets to run, such as global and weak; by default all rows of a table, and the study."""
    seeds: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TASK=N ...")] = ()
    """Number of seeds of a task; by default 100 for colors, 2 for triangles, 1 for mnist75sp, and for tu 5 for each of
    3 draws of training graphs."""
    jobs: int | None = None
    """Runs at once, each with its slice of the machine; by default one per GPU, or per CPU core without GPUs."""
    run: bool = True
    """Run what is missing; with --no-run, only write tables, pictures and report of finished runs."""
    quiet: bool = False
    """Show only errors and tables."""

    positional = ("target",)

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        object.__setattr__(self, "out", run_folder("out", self.out))
        super().validate()
        for row in self.presets:
            if row not in TABLE_3:
                raise ValueError(f"presets: {row!r} is not known; expected some of: {', '.join(TABLE_3)}")
        if self.data_dir is not None and not self.data_dir.exists():
            raise ValueError(f"data_dir: {self.data_dir} does not exist")
        expect_at_least(1, jobs=self.jobs)
        self.seeds_of("colors")

    def seeds_of(self, task: str) -> int:
        """Returns the number of seeds of a task."""
        seeds = dict(SEEDS)
        for entry in self.seeds:
            name, _, number = entry.partition("=")
            if name not in SEEDS or not number.isdecimal() or not int(number):
                raise ValueError(f"seeds: {entry!r} is not allowed, expected TASK=N with TASK of {', '.join(SEEDS)}")
            seeds[name] = int(number)
        return seeds[task]

    @property
    def parts(self) -> Sequence[str]:
        """The names of the tables to make, and "figures" if they are to be made."""
        return [*TABLES, "figures"] if self.target in ("all", "status") else [self.target]

    @property
    def study(self) -> bool:
        """Whether to run the study of initial attention."""
        return "figures" in self.parts and "colors" in self.tasks and not self.presets


class TaskRuns(NamedTuple):
    """The runs of one task.

    Attributes:
      task: the name of the task and of its folder.
      labels: the names of its rows, by preset.
      jobs: the runs.
    """

    task: str
    labels: Mapping[str, str]
    jobs: Sequence[Job]


def runs_of(paper: Paper, part: str) -> list[TaskRuns]:
    """Returns the runs that a table or the figures need; runs that several of them need have one folder."""
    tasks, labels = TABLES.get(part, FIGURES)
    wanted = [preset for preset in labels if not paper.presets or preset in paper.presets]
    found = [(task, _jobs(task, paper.seeds_of(task), paper.data_dir)) for task in tasks if task in paper.tasks]
    if part == "figures":
        found = [(task, _of_figures(task, jobs)) for task, jobs in found]
    return [TaskRuns(task, labels, [job for job in jobs if job.preset in wanted]) for task, jobs in found]


def _of_figures(task: str, jobs: Sequence[Job]) -> list[Job]:
    """Returns the jobs of Figure 3, and those with the first seed of the rows of the qualitative figure."""
    firsts, learned = first_jobs(jobs), LEARNED if task in TASKS[:2] else ()
    return [job for job in jobs if job.preset in learned or (job.preset in COMPARED and job is firsts[job.preset])]


def first_jobs(jobs: Sequence[Job]) -> dict[str, Job]:
    """Returns the job with the first seed of every preset."""
    return {job.preset: job for job in reversed(jobs)}


@functools.cache
def _jobs(task: str, seeds: int, data_dir: Path | None) -> Sequence[Job]:
    """Returns the runs of all rows of a task in any table."""
    published = () if data_dir is None else ("--data-dir", str(_data_dir(data_dir, task)))
    always = (*DRAWS, "--quiet") if task == "tu" else ("--quiet",)
    seeds_per_job, vary = SEEDS_PER_JOB.get(task, 1), {"dataset": DATASETS} if task == "tu" else {}
    by_arguments: dict[tuple[str, ...], list[str]] = {}
    for preset in TABLE_2 if task == "tu" else TABLE_3:
        data = () if task == "colors" and preset in GENERATED else published
        extra = () if task == "tu" else EXTRA_ARGUMENTS.get(preset, ())  # there attention has no ground truth
        by_arguments.setdefault((*data, *extra, *always), []).append(preset)
    grids = [
        Grid(task, tuple(presets), 0, seeds, seeds_per_job, (), vary, arguments)
        for arguments, presets in by_arguments.items()
    ]
    return [job for grid in grids for job in jobs_of(grid)]


def _data_dir(folder: Path, task: str) -> Path:
    """Returns the absolute path of a task's data; MNIST's may be in a subfolder."""
    mnist = folder / "mnist"
    return (mnist if task == "mnist75sp" and mnist.is_dir() else folder).absolute()


def all_runs(parts: Mapping[str, Sequence[TaskRuns]]) -> Iterator[TaskRuns]:
    """Yields the runs of every part."""
    return itertools.chain(*parts.values())


def runs_by_task(parts: Mapping[str, Sequence[TaskRuns]]) -> list[TaskRuns]:
    """Returns for each task its longest list of runs, which includes the others."""
    longest: dict[str, TaskRuns] = {}
    for runs in all_runs(parts):
        longest[runs.task] = max(longest.get(runs.task, runs), runs, key=lambda found: len(found.jobs))
    return list(longest.values())
