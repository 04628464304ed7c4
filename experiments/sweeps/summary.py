"""The table of a sweep, from its jobs' folders alone: scores over the seeds of all finished jobs, and what is left."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.protocol import read_results, title
from experiments.sweeps.attempts import last_status, reason, state
from experiments.sweeps.grid import Job
from jattn.evaluation import spread
from jattn.files import write_atomically
from jattn.runs import RunError

STATES = ("done", "running", "failed", "waiting")


class Score(NamedTuple):
    """One figure of a row.

    Attributes:
      heading: what the table calls it; "" where only the file has it.
      mean: over the networks of all finished jobs; NaN where one of them has none.
      std: their standard deviation (ddof 0).
      paper: the paper's figure, or "".
    """

    heading: str
    mean: float
    std: float
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


def read_rows(jobs: Sequence[Job], out: Path) -> list[Row]:
    """A row for every preset and choice of values, as far as its jobs are."""
    of_row: dict[str, list[Job]] = {}
    for job in jobs:
        of_row.setdefault(job.row, []).append(job)
    return [_row(same, out) for same in of_row.values()]


def _row(jobs: Sequence[Job], out: Path) -> Row:
    states = {job.name: state(out / job.name) for job in jobs}
    results, failures = [], {}
    for name in [name for name, of in states.items() if of == "done"]:
        try:
            results.append(read_results(out / name))
        except RunError as error:
            states[name], failures[name] = "failed", str(error)
    first, asked = jobs[0], sum(job.networks for job in jobs)
    trained = sum(len(of["subsets"]["all"]["accuracy"]["values"]) for of in results)
    seconds = sum(sum(of["seconds"].values()) for of in results)
    for name in [name for name, of in states.items() if of == "failed" and name not in failures]:
        failures[name] = reason(out / name, last_status(out / name))
    scores = _scores([of["subsets"] for of in results], first) if results else {}
    return Row(first.preset, first.values, Counter(states.values()), (trained, asked), seconds, scores, failures)


def _scores(results: Sequence[Mapping[str, Any]], job: Job) -> dict[str, Score]:
    """The scores of all finished jobs' networks together."""
    paper, scores = job.experiment.paper_figures(job.preset, job.settings), {}

    def add(name: str, heading: str, spreads: Sequence[Any], figure: str = "") -> None:
        pooled = spread([value for of in spreads for value in of["values"]])
        scores[name] = Score(heading, pooled["mean"], pooled["std"], figure)

    for subset in results[0]:
        together, of_jobs = subset == "all", [of[subset] for of in results]
        add(
            f"{subset}_accuracy",
            "" if together else title(subset),
            [of["accuracy"] for of in of_jobs],
            paper.get(subset, ""),
        )
        for i, layer in enumerate(zip(*(of["attention_auc"] for of in of_jobs), strict=True)):
            number, figure = f"{i + 1}" if i else "", paper.get("auc", "") if together and not i else ""
            add(f"{subset}_auc{number}", f"AUC {number}".strip() if together else "", layer, figure)
    for detail in job.experiment.details:
        spreads = [of["all"][detail] for of in results]
        of_layers = [spreads] if isinstance(spreads[0], dict) else list(zip(*spreads, strict=True))
        for i, of_layer in enumerate(of_layers):
            number = f"{i + 1}" if i else ""
            add(f"all_{detail}{number}", f"{title(detail)} {number}".strip(), of_layer)
    return scores


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
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    last = len(widths) - 1
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in (0, last) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def write_csv(rows: Sequence[Row], file: Path) -> None:
    """Writes the rows as a CSV file, each subset's accuracy and AUC among them."""
    names = {name: None for row in rows for name in row.scores}
    of_paper = {name for row in rows for name, score in row.scores.items() if score.paper}
    file_rows = []
    for row in rows:
        trained, asked = row.networks
        cells = {"preset": row.preset, **row.values, "seeds": trained, "seeds_asked": asked}
        cells |= {f"jobs_{of}": row.jobs.get(of, 0) for of in STATES} | {"seconds": round(row.seconds, 1)}
        for name in names:
            score = row.scores.get(name)
            mean, std, paper = (score.mean, score.std, score.paper) if score else ("", "", "")
            cells |= {name: mean, f"{name}_std": std} | ({f"{name}_paper": paper} if name in of_paper else {})
        file_rows.append(cells)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(file_rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(file_rows)
    write_atomically(file, lambda temporary: temporary.write_text(text.getvalue()))
