"""Makes the paper's tables and figures from runs, and says how far these are."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..run.folder import RunError, read_config
from ..run.groups import flat
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
    TASKS,
    Paper,
    TaskRuns,
    runs_by_task,
    runs_of,
)
from .qualitative import draw_qualitative
from .report import LEGEND, Section, as_text, write_report, write_tables


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
