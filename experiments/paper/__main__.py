"""The paper's tables and figures: runs what is missing, then writes tables, pictures and a report of all runs.

    python -m experiments.paper table1 --data-dir DIR          COLORS, TRIANGLES, MNIST-75sp: about six hours on 2 cores
    python -m experiments.paper table1 --tasks colors          COLORS alone: about two hours
    python -m experiments.paper table3 --tasks colors triangles --seeds colors=20 triangles=1
    python -m experiments.paper table2                         COLLAB, PROTEINS, D&D: 3 draws of graphs x 5 seeds
    python -m experiments.paper figures --data-dir DIR         the paper's figures, see below
    python -m experiments.paper figures --no-run               all that can be drawn without training
    python -m experiments.paper all                            everything
    python -m experiments.paper status                         what is finished, and how long the rest will take
    python -m experiments.paper all --no-run                   tables, pictures and report of what is finished

Finished runs are kept, interrupted ones are resumed, and as many run at once as there are GPUs, or CPU cores without
GPUs. The requested tables are printed. All finished runs in --out, up to --seeds, are written to tables as text,
Markdown and CSV, and to report.html, one file with tables, pictures and settings. The paper's figures stand in
brackets; * marks scores that differ from them by more than three standard errors. networks-TASK.csv has a row of scores
for each network, and networks.png shows accuracy against attention AUC.

figures needs all networks of COLORS and TRIANGLES with learned attention, the study of initial attention, and one run
of DiffPool (GIN), of global pooling and of weak supervision on each of COLORS, TRIANGLES and MNIST-75sp. It makes:

    figure3.png         accuracy against attention AUC and against the cosine of the initial projection, panels a to f
    initialization/     the study: accuracy and AUC by scale and cosine of the initial projection, training dynamics
    qualitative.png     test graphs: DiffPool's clusters, leave-one-out attention, weakly supervised attention

What is missing is left out with a note. figure3.png, networks.png and the pictures of the study are drawn from the CSV
files in --out alone, so that they can be drawn again without any run.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..run.command_line import parse_settings
from ..run.errors import expect_known, expect_no_empty, fail
from ..run.folder import RunError, read_config
from ..run.groups import flat, name_flag
from ..run.program import as_typed, job_command, program
from ..sweep import command
from ..sweeps.attempts import state
from ..sweeps.grid import is_generated
from ..sweeps.pool import JobPool, device_slices
from ..sweeps.summary import read_rows
from .figures import draw_figures, write_networks
from .plan import (
    DATASETS,
    FIGURE_3,
    NETWORKS,
    QUALITATIVE,
    RETRIES,
    STUDY,
    TABLES,
    TARGETS,
    TASKS,
    Paper,
    TaskRuns,
    all_runs,
    runs_by_task,
    runs_of,
)
from .qualitative import draw_qualitative
from .report import LEGEND, Section, as_text, write_report, write_tables


def main(arguments: Sequence[str]) -> None:
    """Makes the tables and figures of a command line."""
    expect_no_empty(arguments)
    if arguments and not arguments[0].startswith("-"):
        expect_known("target", arguments[0], TARGETS)
    paper = parse_settings(Paper, arguments, program("paper"), as_typed(__doc__ or ""))
    try:
        parts = {part: runs_of(paper, part) for part in paper.parts}
    except ValueError as error:
        fail(name_flag(str(error), paper))
    commands = dict[str, list[str]]()
    for runs in all_runs(parts):
        commands |= {f"{runs.task}/{job.name}": command(job, paper.out / runs.task) for job in runs.jobs}
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
        fail(f"{error}; finished runs are kept: to resume, repeat the command")


def make(paper: Paper, parts: Mapping[str, Sequence[TaskRuns]], commands: Mapping[str, Sequence[str]]) -> None:
    """Runs what is missing, then writes tables, pictures and report; exits with status 1 if a run failed.

    Raises:
      RunError: a run in the folder has generated data and another needs published data, or the other way round.
    """
    paper.out.mkdir(parents=True, exist_ok=True)
    failures = _run(paper, parts, commands) if paper.run else {}
    everything = {table: runs_of(replace(paper, tasks=TASKS, presets=()), table) for table in TABLES}
    sections = [_section(table, runs, paper.out) for table, tasks in everything.items() for runs in tasks]
    sections = [section for section in sections if section.rows]
    requested = [
        requested_rows(section, paper) for section in sections if section.table in parts and section.task in paper.tasks
    ]
    shown = [as_text(section) for section in requested if section.rows]
    if shown:
        print(*shown, LEGEND, sep="\n\n")
    write_tables(sections, paper.out)
    write_networks(runs_by_task(everything), paper.out)
    if "figures" in parts:
        draw_figures(paper.out, paper.quiet)
        draw_qualitative(parts["figures"], paper.out, paper.quiet)
    pictures = [paper.out / name for name in (FIGURE_3, QUALITATIVE, NETWORKS)]
    pictures += [*sorted((paper.out / STUDY).glob("*.png"))]
    write_report(sections, pictures, paper.out / "report.html")
    print(f"{paper.out / 'report.html'} has tables, pictures and settings")
    failed = {paper.out / name: why for name, why in failures.items()}
    for runs in runs_by_task(parts):
        damaged = [row.failures for row in read_rows(runs.jobs, paper.out / runs.task)]
        failed |= {paper.out / runs.task / name: why for failures in damaged for name, why in failures.items()}
    for folder, why in failed.items():
        print(f"{folder}: {why}", file=sys.stderr)
    if failed:
        raise SystemExit(1)


def _run(
    paper: Paper, parts: Mapping[str, Sequence[TaskRuns]], commands: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Runs the unfinished commands and returns the reason for each that failed, by name."""
    _expect_same_data(paper, parts)
    missing = {name: line for name, line in commands.items() if state(paper.out / name) in ("waiting", "failed")}
    failures, stop_signal = JobPool(missing, paper.out, device_slices(paper.jobs), RETRIES, paper.quiet).run()
    if stop_signal is not None:
        print("stopped; finished runs are kept: to resume, repeat the command", file=sys.stderr)
        raise SystemExit(128 + stop_signal)
    return failures


def _expect_same_data(paper: Paper, parts: Mapping[str, Sequence[TaskRuns]]) -> None:
    """Raises `RunError` if a run in the folder has generated data and now needs published data, or the reverse."""
    for runs in runs_by_task(parts):
        for job in runs.jobs:
            folder = paper.out / runs.task / job.name
            config = read_config(folder)
            if config is not None and is_generated(job, config.settings) != is_generated(job, flat(job.settings)):
                data_dir = config.settings.get("data_dir")
                data = f"--data-dir {data_dir}" if data_dir else "generated data"
                raise RunError(f"{folder}: a run with {data}; ask for the same, or for another --out")


def status(paper: Paper, parts: Mapping[str, Sequence[TaskRuns]]) -> str:
    """Returns how many networks of each row are trained, and how long the rest will take.

    The time is estimated from the finished runs of the row, or else of its task; without any it is not known.
    """
    at_once = len(device_slices(paper.jobs))
    lines, known, unknown = [], 0.0, set()
    for runs in runs_by_task(parts):
        rows = read_rows(runs.jobs, paper.out / runs.task)
        finished = sum(row.networks[0] for row in rows)
        usual = sum(row.seconds for row in rows) / finished if finished else None
        for row in rows:
            trained, requested = row.networks
            each = row.seconds / trained if trained else usual
            label = ", ".join([runs.task, *row.values.values(), runs.labels[row.preset]])
            left = ""
            if each is not None and trained < requested:
                left = f", about {_format_seconds((requested - trained) * each)} of one job"
            lines.append(f"{label}: {trained} of {requested} networks{left}")
            lines += [f"  {paper.out / runs.task / name}: {why}" for name, why in row.failures.items()]
            known += (requested - trained) * (each or 0)
            unknown |= {runs.task} if each is None and trained < requested else set()
    if paper.study:
        lines.append(f"{STUDY}: {state(paper.out / STUDY)}")
        unknown |= {STUDY} if state(paper.out / STUDY) != "done" else set()
    rest = [f"about {_format_seconds(known / at_once)} with {at_once} jobs at once"] if known or not unknown else []
    rest += [f"not known for {', '.join(sorted(unknown))}, without a finished run"] if unknown else []
    return "\n".join([*lines, f"left: {'; '.join(rest)}"])


def _format_seconds(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"


def requested_rows(section: Section, paper: Paper) -> Section:
    """Returns the requested rows of a section."""
    chosen = [i for i, row in enumerate(section.rows) if not paper.presets or row.preset in paper.presets]
    return section._replace(rows=[section.rows[i] for i in chosen], folders=[section.folders[i] for i in chosen])


def _section(table: str, runs: TaskRuns, out: Path) -> Section:
    """Returns the rows of a task with any finished run, grouped by data set."""
    finished = [job for job in runs.jobs if state(out / runs.task / job.name) == "done"]
    firsts = {job.row: out / runs.task / job.name for job in reversed(finished)}
    jobs = [job for job in runs.jobs if job.row in firsts]
    order = list(runs.labels)
    jobs.sort(key=lambda job: (*map(DATASETS.index, job.values.values()), order.index(job.preset)))
    folders = [firsts[row] for row in dict.fromkeys(job.row for job in jobs)]
    return Section(table, runs.task, runs.labels, read_rows(jobs, out / runs.task), folders)


if __name__ == "__main__":
    main(sys.argv[1:])
