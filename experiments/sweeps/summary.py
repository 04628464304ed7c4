"""The table of a sweep, from its jobs' folders alone: scores over the seeds of all finished jobs, and jobs by state."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..run.folder import RunConfig, RunError, read_config
from ..run.identity import RESULTS, settings_differences, settings_of
from ..run.paper_scores import PaperScore
from ..run.results import TOGETHER, MeanStd, Results, pooled
from ..run.tables import as_text, title, write_csv
from .attempts import last_status, reason, state
from .grid import Job, is_generated

STATES = ("done", "running", "failed", "waiting")


class Score(NamedTuple):
    """One score of a row.

    Attributes:
      heading: its column in tables; "" if only the CSV file has it.
      mean: mean over the networks of all finished jobs; NaN if one of them has no such score.
      std: their standard deviation (ddof 0).
      error: standard error of the mean, from `standard_error`.
      paper: the paper's figure; None if it gives none.
    """

    heading: str
    mean: float
    std: float
    error: float
    paper: PaperScore | None = None

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.std:.1f}" + (f" ({self.paper})" if self.paper else "")


class Row(NamedTuple):
    """Results of jobs that differ in their seeds alone.

    Attributes:
      preset: their preset.
      values: values of the settings that the sweep varies.
      jobs: the number of jobs in each state.
      networks: the numbers of trained and of requested networks.
      seconds: the time of the finished jobs.
      scores: scores by name, in per cent.
      failures: the reason for each job that failed, by name.
    """

    preset: str
    values: Mapping[str, str]
    jobs: Mapping[str, int]
    networks: tuple[int, int]
    seconds: float
    scores: Mapping[str, Score]
    failures: Mapping[str, str]


class Finished(NamedTuple):
    """A finished job.

    Attributes:
      job: the job.
      config: the configuration of its run.
      results: the results of its run.
    """

    job: Job
    config: RunConfig
    results: Results

    @property
    def draw(self) -> Mapping[str, Any]:
        """Settings that choose the data: jobs in which they are equal must have the same data."""
        return settings_of(self.job.settings, ["data"])

    @property
    def kind(self) -> tuple[Any, ...]:
        """What jobs of one row have in common: generated data or not, subsets, layers of every score."""
        generated = is_generated(self.job, self.config.settings)
        layers = [len(self.results.together.layers(name)) for name in self.job.experiment.details]
        return generated, *((name, len(of.attention_auc)) for name, of in self.results.subsets.items()), *layers


def read_rows(jobs: Sequence[Job], out: Path) -> list[Row]:
    """Returns a row for every preset and choice of values, from the jobs that are finished."""
    return [_row(same_row, out) for same_row in rows_of(jobs)]


def rows_of(jobs: Sequence[Job]) -> list[list[Job]]:
    """Returns the jobs of each row."""
    rows: dict[str, list[Job]] = {}
    for job in jobs:
        rows.setdefault(job.row, []).append(job)
    return list(rows.values())


def read_finished(jobs: Sequence[Job], out: Path) -> tuple[list[Finished], dict[str, str]]:
    """Returns the finished jobs of one row, and for each job whose results can't be used the reason, by name."""
    finished, others = list[Finished](), dict[str, str]()
    for job in jobs:
        if state(out / job.name) != "done":
            continue
        try:
            found = _read(job, out / job.name)
            if finished and found.kind != finished[0].kind:
                first = finished[0].job.name
                raise RunError(f"its results are of other data, subsets or layers than those of {first}; remove one")
            same = next((run for run in finished if run.draw == found.draw), found)
            if found.config.data != same.config.data:
                raise RunError(f"its data are not those of {same.job.name}: the digests differ; remove one")
            finished.append(found)
        except RunError as error:
            others[job.name] = str(error)
    return finished, others


def _read(job: Job, folder: Path) -> Finished:
    """Raises `RunError` if the results are damaged, or of other settings than the job's. Data may have moved."""
    config, remedy = read_config(folder), "remove it, and the command makes it again"
    if config is None:
        raise RunError(f"its config.json is missing; {remedy}")
    for changed in settings_differences(config.settings, job.settings, ["data", *RESULTS]):
        raise RunError(f"its {changed.name} is {changed.there!r}, not {changed.now!r}; {remedy}")
    results = Results.read(folder, job.experiment.details)
    if results.networks != job.networks:
        raise RunError(f"its results are not of {job.networks} networks; {remedy}")
    return Finished(job, config, results)


def _row(jobs: Sequence[Job], out: Path) -> Row:
    finished, failures = read_finished(jobs, out)
    states = {job.name: state(out / job.name) for job in jobs} | dict.fromkeys(failures, "failed")
    first, requested = jobs[0], sum(job.networks for job in jobs)
    trained = sum(run.job.networks for run in finished)
    seconds = sum(run.results.total_seconds for run in finished)
    for name in [name for name, found in states.items() if found == "failed" and name not in failures]:
        failures[name] = reason(out / name, last_status(out / name))
    scores = _scores(finished) if finished else {}
    return Row(first.preset, first.values, Counter(states.values()), (trained, requested), seconds, scores, failures)


def _scores(finished: Sequence[Finished]) -> dict[str, Score]:
    """Returns the scores of all finished jobs' networks together, by name."""
    job, subsets = finished[0].job, [run.results.subsets for run in finished]
    draws = [draw for run in finished for draw, _ in run.job.trained]
    paper = job.experiment.paper_scores(job.preset, job.settings)
    scores = dict[str, Score]()

    def add(name: str, heading: str, layers: Iterable[Sequence[MeanStd]], figure: PaperScore | None = None) -> None:
        """Adds a score, layer by layer, from those of each job; the paper's figure is that of the first layer."""
        for i, of_jobs in enumerate(layers):
            score, number = pooled(of_jobs), f"{i + 1}" if i else ""
            error = standard_error(score.values, draws)
            shown = f"{heading} {number}".strip() if heading else ""
            scores[f"{name}{number}"] = Score(shown, score.mean, score.std, error, None if i else figure)

    for name in subsets[0]:
        same, together = [of_job[name] for of_job in subsets], name == TOGETHER
        heading, auc_heading, auc_figure = ("", "AUC", paper.get("auc")) if together else (title(name), "", None)
        add(f"{name}_accuracy", heading, [[of_job.accuracy for of_job in same]], paper.get(name))
        aucs = zip(*(of_job.attention_auc for of_job in same), strict=True)
        add(f"{name}_auc", auc_heading, aucs, auc_figure)
    for name in job.experiment.details:
        layers = zip(*(of_job[TOGETHER].layers(name) for of_job in subsets), strict=True)
        add(f"{TOGETHER}_{name}", title(name), layers)
    return scores


def standard_error(values: Sequence[float], draws: Sequence[int]) -> float:
    """Returns the standard error of a mean over networks; NaN for one sample.

    Networks that share training graphs are not independent. If there are several draws of training graphs, a sample is
    the mean over the networks of a draw.

    Args:
      values: one number per network.
      draws: the draw of training graphs of each network.
    """
    by_draw = [
        [value for value, of_draw in zip(values, draws, strict=True) if of_draw == draw] for draw in sorted(set(draws))
    ]
    samples = np.array([np.mean(same_draw) for same_draw in by_draw] if len(by_draw) > 1 else values)
    return float(samples.std(ddof=1) / np.sqrt(len(samples))) if len(samples) > 1 else math.nan


def headings_of(rows: Sequence[Row]) -> list[str]:
    """Returns the headings of the scores that a table shows; one that is undefined in all rows has no column."""
    scores = [score for row in rows for score in row.scores.values()]
    return list(dict.fromkeys(score.heading for score in scores if score.heading and math.isfinite(score.mean)))


def table(rows: Sequence[Row]) -> str:
    """Returns the rows as text, with the paper's figures in brackets."""
    headings = headings_of(rows)
    lines = [["%", "seeds", *headings, "seconds", "jobs"]]
    for row in rows:
        shown = {score.heading: str(score) for score in row.scores.values()}
        label = " ".join([row.preset, *(f"{name}={value}" for name, value in row.values.items())])
        jobs = ", ".join(f"{row.jobs[name]} {name}" for name in STATES if row.jobs.get(name))
        trained, requested = row.networks
        cells = [shown.get(heading, "-") for heading in headings]
        lines.append([label, f"{trained} of {requested}", *cells, f"{row.seconds:.0f}", jobs])
    return as_text(lines, left=(0, len(lines[0]) - 1))


def write_summary(rows: Sequence[Row], file: Path) -> None:
    """Writes the rows as a CSV file, with accuracy and AUC of each subset."""
    names = {name: None for row in rows for name in row.scores}
    in_paper = {name for row in rows for name, score in row.scores.items() if score.paper}
    file_rows = []
    for row in rows:
        trained, requested = row.networks
        cells: dict[str, Any] = {"preset": row.preset, **row.values, "seeds": trained, "seeds_asked": requested}
        cells |= {f"jobs_{name}": row.jobs.get(name, 0) for name in STATES} | {"seconds": round(row.seconds, 1)}
        for name in names:
            score = row.scores.get(name)
            mean, std, paper = (score.mean, score.std, str(score.paper or "")) if score else ("", "", "")
            cells |= {name: mean, f"{name}_std": std} | ({f"{name}_paper": paper} if name in in_paper else {})
        file_rows.append(cells)
    write_csv(file, file_rows)
