"""The table of a sweep, from its jobs' folders alone: scores over the seeds of all finished jobs, and what is left."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..run.folder import RunConfig, RunError, read_config
from ..run.identity import RESULTS, settings_differences, settings_of
from ..run.results import TOGETHER, MeanStd, Results, pooled
from ..run.tables import as_text, title, write_csv
from .attempts import last_status, reason, state
from .grid import Job, is_drawn

STATES = ("done", "running", "failed", "waiting")


class Score(NamedTuple):
    """One figure of a row.

    Attributes:
      heading: what the table calls it; "" where only the file has it.
      mean: over the networks of all finished jobs; NaN where one of them has none.
      std: their standard deviation (ddof 0).
      error: standard error of the mean, as `standard_error` gives it.
      paper: the paper's figure, or "".
    """

    heading: str
    mean: float
    std: float
    error: float
    paper: str

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.std:.1f}" + (f" ({self.paper})" if self.paper else "")


class Row(NamedTuple):
    """What jobs that differ in their seeds alone came to.

    Attributes:
      preset: their preset.
      values: of the settings that the sweep varies.
      jobs: how many are in each state.
      networks: how many are trained, and how many there are to be.
      seconds: that the finished jobs took.
      scores: in per cent, by name.
      failures: why jobs failed, by name.
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
      job: itself.
      about: what its run is of.
      results: its run's results.
    """

    job: Job
    about: RunConfig
    results: Results

    @property
    def draw(self) -> Mapping[str, Any]:
        """What says which data its networks saw: with the same settings they have to be the same."""
        return settings_of(self.job.settings, ["data"])

    @property
    def kind(self) -> tuple[Any, ...]:
        """What has to be the same where scores stand in one row: drawn data or not, subsets, layers of every figure."""
        drawn = is_drawn(self.job, self.about.settings)
        layers = [len(self.results.together.layers(name)) for name in self.job.experiment.details]
        return drawn, *((name, len(of.attention_auc)) for name, of in self.results.subsets.items()), *layers


def read_rows(jobs: Sequence[Job], out: Path) -> list[Row]:
    """A row for every preset and choice of values, as far as its jobs are."""
    return [_row(same, out) for same in rows_of(jobs)]


def rows_of(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs of each row."""
    of_row: dict[str, list[Job]] = {}
    for job in jobs:
        of_row.setdefault(job.row, []).append(job)
    return list(of_row.values())


def read_finished(jobs: Sequence[Job], out: Path) -> tuple[list[Finished], dict[str, str]]:
    """The finished jobs of one row, and of those whose results are no part of it what is wrong, by name."""
    finished, others = list[Finished](), dict[str, str]()
    for job in jobs:
        if state(out / job.name) != "done":
            continue
        try:
            found = _read(job, out / job.name)
            if finished and found.kind != finished[0].kind:
                first = finished[0].job.name
                raise RunError(f"its results are of other data, subsets or layers than those of {first}; remove one")
            same = next((of for of in finished if of.draw == found.draw), found)
            if found.about.data != same.about.data:
                raise RunError(f"its data are not those of {same.job.name}, since digests differ; remove one")
            finished.append(found)
        except RunError as error:
            others[job.name] = str(error)
    return finished, others


def _read(job: Job, folder: Path) -> Finished:
    """Raises `RunError` where the results are damaged, or of other settings than the job's; wherever the data are."""
    about, remedy = read_config(folder), "remove it, and the command makes it again"
    if about is None:
        raise RunError(f"its config.json is missing; {remedy}")
    for of in settings_differences(about.settings, job.settings, ["data", *RESULTS]):
        raise RunError(f"its {of.name} is {of.there!r}, not {of.now!r}; {remedy}")
    results = Results.read(folder, job.experiment.details)
    if results.networks != job.networks:
        raise RunError(f"its results are not of {job.networks} networks; {remedy}")
    return Finished(job, about, results)


def _row(jobs: Sequence[Job], out: Path) -> Row:
    finished, failures = read_finished(jobs, out)
    states = {job.name: state(out / job.name) for job in jobs} | dict.fromkeys(failures, "failed")
    first, asked = jobs[0], sum(job.networks for job in jobs)
    trained = sum(of.job.networks for of in finished)
    seconds = sum(of.results.total_seconds for of in finished)
    for name in [name for name, of in states.items() if of == "failed" and name not in failures]:
        failures[name] = reason(out / name, last_status(out / name))
    scores = _scores(finished) if finished else {}
    return Row(first.preset, first.values, Counter(states.values()), (trained, asked), seconds, scores, failures)


def _scores(finished: Sequence[Finished]) -> dict[str, Score]:
    """Returns the scores of all finished jobs' networks together, by name."""
    job, subsets = finished[0].job, [run.results.subsets for run in finished]
    draws = [draw for run in finished for draw, _ in run.job.trained]
    paper = job.experiment.paper_figures(job.preset, job.settings)
    scores = dict[str, Score]()

    def add(name: str, heading: str, layers: Iterable[Sequence[MeanStd]], figure: str = "") -> None:
        """Adds a score, layer by layer, from those of each job; the paper's figure is that of the first layer."""
        for i, of_jobs in enumerate(layers):
            score, number = pooled(of_jobs), f"{i + 1}" if i else ""
            error = standard_error(score.values, draws)
            shown = f"{heading} {number}".strip() if heading else ""
            scores[f"{name}{number}"] = Score(shown, score.mean, score.std, error, "" if i else figure)

    for name in subsets[0]:
        same, together = [of_job[name] for of_job in subsets], name == TOGETHER
        heading, auc_heading, auc_figure = ("", "AUC", paper.get("auc", "")) if together else (title(name), "", "")
        add(f"{name}_accuracy", heading, [[of_job.accuracy for of_job in same]], paper.get(name, ""))
        aucs = zip(*(of_job.attention_auc for of_job in same), strict=True)
        add(f"{name}_auc", auc_heading, aucs, auc_figure)
    for name in job.experiment.details:
        layers = zip(*(of_job[TOGETHER].layers(name) for of_job in subsets), strict=True)
        add(f"{TOGETHER}_{name}", title(name), layers)
    return scores


def standard_error(values: Sequence[float], draws: Sequence[int]) -> float:
    """The standard error of a mean over networks, NaN where one is too few to tell.

    Networks that share training graphs are no independent samples of what others come to, so that where there are
    several draws of graphs, these are what is counted: the error is that of the mean of the draws' means.

    Args:
      values: a number a network.
      draws: which graphs each was trained on.
    """
    of_draw = [[value for value, of in zip(values, draws, strict=True) if of == draw] for draw in sorted(set(draws))]
    samples = np.array([np.mean(of) for of in of_draw] if len(of_draw) > 1 else values)
    return float(samples.std(ddof=1) / np.sqrt(len(samples))) if len(samples) > 1 else math.nan


def table(rows: Sequence[Row]) -> str:
    """The rows as text, with the paper's figures in brackets."""
    headings = {score.heading: None for row in rows for score in row.scores.values() if score.heading}
    lines = [["%", "seeds", *headings, "seconds", "jobs"]]
    for row in rows:
        shown = {score.heading: str(score) for score in row.scores.values()}
        label = " ".join([row.preset, *(f"{name}={value}" for name, value in row.values.items())])
        jobs = ", ".join(f"{row.jobs[name]} {name}" for name in STATES if row.jobs.get(name))
        trained, asked = row.networks
        cells = [shown.get(heading, "-") for heading in headings]
        lines.append([label, f"{trained} of {asked}", *cells, f"{row.seconds:.0f}", jobs])
    return as_text(lines, left=(0, len(lines[0]) - 1))


def write_summary(rows: Sequence[Row], file: Path) -> None:
    """Writes the rows as a CSV file, each subset's accuracy and AUC among them."""
    names = {name: None for row in rows for name in row.scores}
    of_paper = {name for row in rows for name, score in row.scores.items() if score.paper}
    file_rows = []
    for row in rows:
        trained, asked = row.networks
        cells: dict[str, Any] = {"preset": row.preset, **row.values, "seeds": trained, "seeds_asked": asked}
        cells |= {f"jobs_{of}": row.jobs.get(of, 0) for of in STATES} | {"seconds": round(row.seconds, 1)}
        for name in names:
            score = row.scores.get(name)
            mean, std, paper = (score.mean, score.std, score.paper) if score else ("", "", "")
            cells |= {name: mean, f"{name}_std": std} | ({f"{name}_paper": paper} if name in of_paper else {})
        file_rows.append(cells)
    write_csv(file, file_rows)
