"""The paper's tables and figures: runs what is missing, then reads the runs' folders and writes it all down.

    python -m experiments.paper table1 --data-dir DIR          COLORS, TRIANGLES, MNIST-75sp: about six hours on 2 cores
    python -m experiments.paper table1 --tasks colors          COLORS alone: about two hours
    python -m experiments.paper table3 --tasks colors triangles --seeds colors=20 triangles=1
    python -m experiments.paper table2                         COLLAB, PROTEINS, D&D: 3 draws of graphs x 5 seeds
    python -m experiments.paper figures                        the study of initial attention, accuracy against AUC
    python -m experiments.paper all                            everything
    python -m experiments.paper status                         what is done, and how long the rest will take
    python -m experiments.paper all --no-run                   tables, pictures and report of what is done

Runs that are there are kept, those that were cut go on, and as many run at once as there are GPUs, or else cores. What
was asked for is printed. Of all finished runs in --out, up to --seeds, the tables are written as text, Markdown and
CSV, with report.html, one file that has tables, pictures and settings. The paper's figures stand in brackets beside
ours; * marks those that differ by more than three standard errors. networks-TASK.csv has a row of scores for each
network, and networks.png draws their accuracy against the AUC of their attention.
"""

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import tyro

from jattn._options import expect_at_least
from jattn.plots import save

from ..run.command_line import parse_settings
from ..run.drawing import try_to_draw
from ..run.errors import expect_no_empty, fail
from ..run.folder import RunError, read_config
from ..run.groups import Checked, flat, name_flag
from ..run.paths import run_folder
from ..run.program import as_typed, job_command, program
from ..run.tables import write_csv
from ..sweep import command
from ..sweeps.attempts import state
from ..sweeps.grid import Grid, Job, is_drawn, jobs_of
from ..sweeps.pool import JobPool, device_slices
from ..sweeps.summary import read_rows
from .networks import Row, networks_figure, read_networks
from .report import LEGEND, TITLES, Section, as_text, write_report, write_tables

Task = Literal["colors", "triangles", "mnist75sp", "tu"]
TASKS: tuple[Task, ...] = get_args(Task)
SEEDS = {"colors": 100, "triangles": 2, "mnist75sp": 1, "tu": 5}
SEEDS_PER_JOB = {"colors": 10, "tu": 5}  # side by side in one program, where networks are small; one for others
DRAWS = ("--data-seeds", "3")  # of training graphs of TU data sets
DATASETS = ("PROTEINS", "COLLAB", "DD-200", "DD-300")
STUDY = "initialization"
NETWORKS = "networks.png"
RETRIES = 1  # of a run that fails

# Rows of the tables, by preset. Table 3 has those of Table 1, too.
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
    "upper-bound": "ChebyGIN, true attention",
}
TABLE_3 = {
    **TABLE_1,
    "diffpool": "DiffPool",
    "global-h": "ChebyGIN-h",
    **{f"{kind}-{size}": f"ChebyGIN-{size}, {kind}" for kind in ("unsupervised", "supervised") for size in "dh"},
    "weak-d": "ChebyGIN-d, weakly supervised",
    "weak-h": "ChebyGIN-h, weakly supervised",
}
# DiffPool's attention is how far each node moves the prediction.
EXTRA_ARGUMENTS = {"diffpool": ("--leave-one-out-auc",)}
# Of COLORS: their 32 colours no published set has.
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
FIGURES = (TASKS[:2], {preset: TABLE_1[preset] for preset in ("unsupervised", "supervised", "weak")})


@dataclass(frozen=True)
class Paper(Checked):
    """What to make."""

    target: tyro.conf.Positional[Literal["table1", "table2", "table3", "figures", "all", "status"]]
    """A table, the figures, all of it, or how far all of it is."""
    out: Path = Path("paper")
    """Folder of runs, tables and report."""
    data_dir: Path | None = None
    """Folder of the published data sets; without it COLORS and TRIANGLES are generated and others downloaded."""
    tasks: tuple[Task, ...] = TASKS
    """Tasks to make; tu stands for Table 2's data sets. The study of initial attention is made with colors."""
    presets: tuple[str, ...] = ()
    """Presets to make, such as global and weak; where none is named, all that a table has, and the study."""
    seeds: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TASK=N ...")] = ()
    """Seeds of a task, where they are not to be 100 for colors, 2 for triangles, 1 for mnist75sp and 5, for each of 3
    draws of training graphs, for tu."""
    jobs: int | None = None
    """Runs at once, each with its share of the machine; one for each GPU, or else core, where not given."""
    run: bool = True
    """Run what is missing. Without, tables, pictures and report are written of what is finished."""
    quiet: bool = False
    """Show nothing but errors and tables."""

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
        """Seeds of a task."""
        said = dict(SEEDS)
        for entry in self.seeds:
            name, _, number = entry.partition("=")
            if name not in SEEDS or not number.isdecimal() or not int(number):
                raise ValueError(f"seeds: {entry!r} is not allowed, expected TASK=N with TASK of {', '.join(SEEDS)}")
            said[name] = int(number)
        return said[task]

    @property
    def parts(self) -> Sequence[str]:
        """Names of the tables to make, and "figures" where they are to be made."""
        return [*TABLES, "figures"] if self.target in ("all", "status") else [self.target]

    @property
    def study(self) -> bool:
        """Whether the study of initial attention is to be made."""
        return "figures" in self.parts and "colors" in self.tasks and not self.presets


class TaskRuns(NamedTuple):
    """The runs of one task.

    Attributes:
      task: its name, and that of its folder.
      labels: of its rows, by preset.
      jobs: the runs.
    """

    task: str
    labels: Mapping[str, str]
    jobs: Sequence[Job]


def runs_of(paper: Paper, part: str) -> list[TaskRuns]:
    """The runs that a table needs, or the figures; those that two of these need have the same folder."""
    tasks, labels = TABLES.get(part, FIGURES)
    wanted = [preset for preset in labels if not paper.presets or preset in paper.presets]
    found = [(task, _jobs(task, paper.seeds_of(task), paper.data_dir)) for task in tasks if task in paper.tasks]
    return [TaskRuns(task, labels, [job for job in jobs if job.preset in wanted]) for task, jobs in found]


@functools.cache
def _jobs(task: str, seeds: int, data_dir: Path | None) -> Sequence[Job]:
    """The runs of all rows that a task has in any table."""
    published = () if data_dir is None else ("--data-dir", str(_data_dir(data_dir, task)))
    of_task = (*DRAWS, "--quiet") if task == "tu" else ("--quiet",)
    a_job, vary = SEEDS_PER_JOB.get(task, 1), {"dataset": DATASETS} if task == "tu" else {}
    by_arguments: dict[tuple[str, ...], list[str]] = {}
    for preset in TABLE_2 if task == "tu" else TABLE_3:
        data = () if task == "colors" and preset in GENERATED else published
        by_arguments.setdefault((*data, *EXTRA_ARGUMENTS.get(preset, ()), *of_task), []).append(preset)
    grids = [Grid(task, tuple(own), 0, seeds, a_job, (), vary, said) for said, own in by_arguments.items()]
    return [job for grid in grids for job in jobs_of(grid)]


def _data_dir(folder: Path, task: str) -> Path:
    """The folder of a task's files, whichever the working directory; MNIST's may have one of their own."""
    own = folder / "mnist"
    return (own if task == "mnist75sp" and own.is_dir() else folder).absolute()


def main(arguments: Sequence[str]) -> None:
    """Makes what a command line asks for."""
    expect_no_empty(arguments)
    paper = parse_settings(Paper, arguments, program("paper"), as_typed(__doc__ or ""))
    try:
        parts = {part: runs_of(paper, part) for part in paper.parts}
    except ValueError as error:
        fail(name_flag(str(error), paper))
    commands = {name: of for runs in all_runs(parts) for name, of in _commands(runs, paper.out).items()}
    if paper.study:
        study = ["--quiet", "--out", str((paper.out / STUDY).absolute())]
        commands[STUDY] = [*job_command(STUDY), *study]
    if not commands:
        fail(
            f"{paper.target} has no such rows of {', '.join(paper.tasks)}; "
            "leave out --presets or --tasks, or name others"
        )
    try:
        if paper.target == "status":
            print(status(paper, parts))
        else:
            make(paper, parts, commands)
    except RunError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error}; the same command goes on with what is there")


def make(paper: Paper, parts: Mapping[str, Sequence[TaskRuns]], commands: Mapping[str, Sequence[str]]) -> None:
    """Runs what is missing, then writes tables, pictures and report; exits with status 1 where a run failed.

    Raises:
      RunError: a run that is there is of drawn data and others are to be of published ones, or the other way round.
    """
    paper.out.mkdir(parents=True, exist_ok=True)
    failures = _run(paper, parts, commands) if paper.run else {}
    everything = {table: runs_of(replace(paper, tasks=TASKS, presets=()), table) for table in TABLES}
    sections = [_section(table, runs, paper.out) for table, of in everything.items() for runs in of]
    sections = [section for section in sections if section.rows]
    asked = [
        requested_rows(section, paper) for section in sections if section.table in parts and section.task in paper.tasks
    ]
    shown = [as_text(section) for section in asked if section.rows]
    if shown:
        print(*shown, LEGEND, sep="\n\n")
    write_tables(sections, paper.out)
    _write_networks(everything, paper.out)
    write_report(
        sections, [paper.out / NETWORKS, *sorted((paper.out / STUDY).glob("*.png"))], paper.out / "report.html"
    )
    print(f"{paper.out / 'report.html'} has tables, pictures and settings")
    failed = {paper.out / name: why for name, why in failures.items()}
    for runs in runs_by_task(parts):
        damaged = [row.failures for row in read_rows(runs.jobs, paper.out / runs.task)]
        failed |= {paper.out / runs.task / name: why for of_row in damaged for name, why in of_row.items()}
    for folder, why in failed.items():
        print(f"{folder}: {why}", file=sys.stderr)
    if failed:
        raise SystemExit(1)


def _run(
    paper: Paper, parts: Mapping[str, Sequence[TaskRuns]], commands: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Runs those of the commands that are not finished; why some failed, by name."""
    _expect_same_data(paper, parts)
    missing = {name: of for name, of in commands.items() if state(paper.out / name) in ("waiting", "failed")}
    failures, asked = JobPool(missing, paper.out, device_slices(paper.jobs), RETRIES, paper.quiet).run()
    if asked is not None:
        print("stopped; the same command goes on with what is there", file=sys.stderr)
        raise SystemExit(128 + asked)
    return failures


def _expect_same_data(paper: Paper, parts: Mapping[str, Sequence[TaskRuns]]) -> None:
    """Raises `RunError` where a run that is there has drawn data and is to have published ones, or the reverse."""
    for runs in runs_by_task(parts):
        for job in runs.jobs:
            folder = paper.out / runs.task / job.name
            about = read_config(folder)
            if about is not None and is_drawn(job, about.settings) != is_drawn(job, flat(job.settings)):
                there = about.settings.get("data_dir")
                of = f"--data-dir {there}" if there else "drawn data"
                raise RunError(f"{folder}: a run of {of}; say the same, or another --out")


def _write_networks(parts: Mapping[str, Sequence[TaskRuns]], out: Path) -> None:
    """Writes scores of every network, and the picture of them."""
    networks: dict[str, list[Row]] = {}
    for runs in runs_by_task(parts):
        rows = read_networks(runs.jobs, out / runs.task)
        if rows:
            write_csv(out / f"networks-{runs.task}.csv", rows)
            networks[TITLES[runs.task]] = rows

    def draw(path: Path) -> None:
        figure = networks_figure(networks)
        if figure is not None:
            save(figure, path)

    try_to_draw(out / NETWORKS, draw)


def status(paper: Paper, parts: Mapping[str, Sequence[TaskRuns]]) -> str:
    """How many runs of each row are finished, and how long the rest will take by the time that finished ones took.

    A row without a finished run is taken to need as long for a network as the mean of its task; of a task without any
    nothing can be said.
    """
    at_once = len(device_slices(paper.jobs))
    lines, known, unknown = [], 0.0, set()
    for runs in runs_by_task(parts):
        rows = read_rows(runs.jobs, paper.out / runs.task)
        trained = sum(row.networks[0] for row in rows)
        usual = sum(row.seconds for row in rows) / trained if trained else None
        for row in rows:
            done, asked = row.networks
            each = row.seconds / done if done else usual
            label = ", ".join([runs.task, *row.values.values(), runs.labels[row.preset]])
            left = (
                "" if each is None or done == asked else f", about {_format_seconds((asked - done) * each)} of one job"
            )
            lines.append(f"{label}: {done} of {asked} networks{left}")
            lines += [f"  {paper.out / runs.task / name}: {why}" for name, why in row.failures.items()]
            known += (asked - done) * (each or 0)
            unknown |= {runs.task} if each is None and done < asked else set()
    if paper.study:
        lines.append(f"{STUDY}: {state(paper.out / STUDY)}")
        unknown |= {STUDY} if state(paper.out / STUDY) != "done" else set()
    rest = [f"about {_format_seconds(known / at_once)} with {at_once} jobs at once"] if known or not unknown else []
    rest += [f"not known for {', '.join(sorted(unknown))}, of which no run is finished"] if unknown else []
    return "\n".join([*lines, f"left: {'; '.join(rest)}"])


def _format_seconds(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"


def all_runs(parts: Mapping[str, Sequence[TaskRuns]]) -> Iterator[TaskRuns]:
    """Yields the runs of every part."""
    return (runs for of in parts.values() for runs in of)


def runs_by_task(parts: Mapping[str, Sequence[TaskRuns]]) -> list[TaskRuns]:
    """Of each task the longest list of runs, which has all others'."""
    longest: dict[str, TaskRuns] = {}
    for runs in all_runs(parts):
        longest[runs.task] = max(longest.get(runs.task, runs), runs, key=lambda of: len(of.jobs))
    return list(longest.values())


def _commands(runs: TaskRuns, out: Path) -> dict[str, list[str]]:
    """Of each run, by the name of its folder within that of all."""
    return {f"{runs.task}/{job.name}": command(job, out / runs.task) for job in runs.jobs}


def requested_rows(section: Section, paper: Paper) -> Section:
    """The rows of a section that were asked for."""
    chosen = [i for i, row in enumerate(section.rows) if not paper.presets or row.preset in paper.presets]
    return section._replace(rows=[section.rows[i] for i in chosen], folders=[section.folders[i] for i in chosen])


def _section(table: str, runs: TaskRuns, out: Path) -> Section:
    """The rows of a task that have any finished run; those of a data set stand together."""
    finished = [job for job in runs.jobs if state(out / runs.task / job.name) == "done"]
    firsts = {job.row: out / runs.task / job.name for job in reversed(finished)}
    asked = [job for job in runs.jobs if job.row in firsts]
    order = list(runs.labels)
    asked.sort(key=lambda job: (*map(DATASETS.index, job.values.values()), order.index(job.preset)))
    folders = [firsts[row] for row in dict.fromkeys(job.row for job in asked)]
    return Section(table, runs.task, runs.labels, read_rows(asked, out / runs.task), folders)


if __name__ == "__main__":
    main(sys.argv[1:])
