"""Tables, each format written once: text in columns, Markdown, HTML and CSV files."""

import csv
import html
import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from jattn.io import write_atomically

from .folder import MADE_AGAIN, RunError
from .paper_scores import PaperScores
from .results import TOGETHER, Results

TITLES = {"largec": "LargeC", "noisyc": "NoisyC", "graphs_emptied": "Emptied", "matthews_correlation": "100 MCC"}


def as_text(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Returns rows as text, each column as wide as its widest cell.

    Args:
      rows: of as many cells each, headings first.
      left: columns that are aligned at the left.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows, headings first, as a Markdown table whose numbers are aligned at the right."""
    headings, *lines = rows
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [headings, rule, *lines])


def as_html(rows: Sequence[Sequence[str]], marked: str) -> str:
    """Returns rows, headings first, as an HTML table.

    Args:
      rows: of as many cells each.
      marked: how cells end that get the class "off".
    """
    headings, *lines = rows
    parts = [f"<th>{html.escape(heading)}" for heading in headings]
    for line in lines:
        parts.append("<tr>")
        off = [' class="off"' if cell.endswith(marked) else "" for cell in line]
        parts += [f"<td{mark}>{html.escape(cell)}" for mark, cell in zip(off, line, strict=True)]
    return f"<table><tr>{''.join(parts)}</table>"


def write_csv(file: Path, rows: Sequence[Mapping[str, Any]], first: str = "") -> None:
    """Writes rows with the same columns as a CSV file, never half of them.

    Args:
      file: where to.
      rows: cells by column; of numbers, six digits are written.
      first: text before the headings.
    """
    text = io.StringIO(first)
    text.seek(0, io.SEEK_END)
    if rows:
        table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({name: f"{x:.6g}" if isinstance(x, float) else x for name, x in row.items()} for row in rows)
    write_atomically(file, lambda temporary: temporary.write_text(text.getvalue(), "utf-8"))


def read_csv(file: Path) -> list[dict[str, Any]]:
    """Returns the rows of a CSV file with headings, numbers as numbers; none if there is no file.

    Raises:
      RunError: a line does not have one cell per heading.
    """
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        headings, *rows = list(csv.reader(lines)) or [[]]
    for number, row in enumerate(rows, 2):
        if len(row) != len(headings):
            raise RunError(f"{file}: line {number} has {len(row)} cells, expected {len(headings)}; {MADE_AGAIN}")
    return [dict(zip(headings, map(_number, row), strict=True)) for row in rows]


def _number(cell: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def score_rows(results: Results, paper: PaperScores, details: Sequence[str] = ()) -> list[list[str]]:
    """Returns accuracy and attention AUC, mean and standard deviation over networks, above the paper's figures.

    Args:
      results: a run's.
      paper: the paper's figures; their row is left out if there are none.
      details: further scores of all subsets together, by name.
    """
    columns = [
        (title(name), scores.accuracy, paper.get(name)) for name, scores in results.subsets.items() if name != TOGETHER
    ]
    for i, auc in enumerate(results.together.attention_auc):
        columns.append((f"AUC {i + 1}", auc, None) if i else ("AUC", auc, paper.get("auc")))
    for name in details:
        columns += [(title(name), score, None) for score in results.together.layers(name)]
    seeds = results.networks
    figures = [figure for _, _, figure in columns]
    rows = [
        ["%", *(heading for heading, _, _ in columns)],
        [f"{seeds} seed{'s' * (seeds > 1)}", *(str(score) for _, score, _ in columns)],
    ]
    known = [figure for figure in figures if figure]
    if known:
        rows.append([f"paper: {known[0].networks} seeds", *(str(figure or "-") for figure in figures)])
    return rows


def title(name: str) -> str:
    """Returns the name of a subset or score as tables and pictures show it."""
    return TITLES.get(name, name.removesuffix("_accuracy").replace("_", " ").capitalize())
