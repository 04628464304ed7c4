"""Tables of results beside the paper's, as text, Markdown and CSV, and one HTML page with pictures and settings."""

import base64
import html
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from jattn.io import write_atomically

from ..reports import page
from ..reports.runs import TITLES
from ..run import tables
from ..sweeps.summary import Row, Score, headings_of

MAX_STANDARD_ERRORS = 3  # a score that differs by more from the paper's is marked
LEGEND = (
    "Per cent, mean ± standard deviation over networks; the paper's figure in brackets; "
    "* differs from it by more than three standard errors."
)
PICTURES = ("accuracy.png", "graphs.png", "training.png")  # of a run


class Section(NamedTuple):
    """The rows of one task in a table.

    Attributes:
      table: the table's name.
      task: the task's name.
      labels: names of rows, by preset.
      rows: the results.
      folders: the folder of the first finished run of every row.
    """

    table: str
    task: str
    labels: Mapping[str, str]
    rows: Sequence[Row]
    folders: Sequence[Path]

    @property
    def title(self) -> str:
        """The heading of its table."""
        return f"Table {self.table.removeprefix('table')}: {TITLES[self.task]}"

    def label(self, row: Row) -> str:
        """Returns the name of a row."""
        return ", ".join([*row.values.values(), self.labels[row.preset]])


def is_off(score: Score) -> bool | None:
    """Whether a score differs from the paper's by more than three standard errors; None if that is not known.

    The error is that of the difference of two means. Where one of them has no standard deviation, as the mean of one
    network, that of the other stands in for it. The paper's figure is also uncertain by its rounding.
    """
    figure = score.paper
    if figure is None or not math.isfinite(score.mean):
        return None
    known = math.isfinite(score.error)
    if not known and not figure.std:
        return None
    paper_std = float(figure.std) if figure.std else score.std
    error = math.hypot(score.error if known else paper_std, paper_std / math.sqrt(figure.draws))
    return abs(score.mean - float(figure.mean)) > figure.rounding + MAX_STANDARD_ERRORS * error


def cells(section: Section) -> list[list[str]]:
    """Returns a table's cells, headings first: our figure, the paper's in brackets, * if they differ."""
    headings, lines = headings_of(section.rows), []
    for row in section.rows:
        trained, requested = row.networks
        shown = {}
        for score in row.scores.values():
            std = f" ± {score.std:.1f}" if trained > 1 else ""
            paper = f" ({score.paper})" if score.paper else ""
            off = " *" if is_off(score) else ""
            shown[score.heading] = f"{score.mean:.1f}{std}{paper}{off}" if math.isfinite(score.mean) else "-"
        networks = f"{trained}" if trained == requested else f"{trained} of {requested}"
        networks += next((f" ({score.paper.networks})" for score in row.scores.values() if score.paper), "")
        figures = [shown.get(heading, "") for heading in headings]
        lines.append([section.label(row), *figures, networks, f"{row.seconds:.0f}" if trained else ""])
    return [["%", *headings, "networks", "seconds"], *lines]


def as_text(section: Section) -> str:
    """Returns a table for a terminal."""
    return "\n".join([section.title, tables.as_text(cells(section))])


def as_markdown(section: Section) -> str:
    """Returns a table for a page of Markdown."""
    return f"## {section.title}\n\n{tables.as_markdown(cells(section))}"


def as_rows(section: Section) -> Iterator[dict[str, Any]]:
    """Yields a row of CSV for each score of a table."""
    for row in section.rows:
        trained, _ = row.networks
        for name, score in row.scores.items():
            off, figure = is_off(score), score.paper
            yield {
                "table": section.table,
                "task": section.task,
                "row": section.label(row),
                "preset": row.preset,
                "figure": name,
                "mean": f"{score.mean:.3f}",
                "std": f"{score.std:.3f}",
                "networks": trained,
                "paper": figure.mean if figure else "",
                "paper_std": figure.std if figure else "",
                "paper_networks": figure.networks if figure else "",
                "off": "" if off is None else off,
                "seconds": round(row.seconds),
            }


def write_tables(sections: Sequence[Section], out: Path) -> None:
    """Writes each table in each format."""
    for table in dict.fromkeys(section.table for section in sections):
        parts = [section for section in sections if section.table == table]
        _write(out / f"{table}.txt", "\n\n".join([*map(as_text, parts), LEGEND]) + "\n")
        _write(out / f"{table}.md", "\n\n".join([*map(as_markdown, parts), LEGEND]) + "\n")
        tables.write_csv(out / f"{table}.csv", [row for section in parts for row in as_rows(section)])


def write_report(sections: Sequence[Section], pictures: Sequence[Path], file: Path) -> None:
    """Writes one page with tables, pictures and settings, which needs no other file.

    Args:
      sections: the tables.
      pictures: pictures of attention, for the end of the page; those that don't exist are left out.
      file: the page.
    """
    parts = ["<h1>Understanding attention and generalization in graph neural networks: results</h1>"]
    parts += [f"<p>{LEGEND}</p>"]
    parts += [_table(section) + "".join(_details(section)) for section in sections]
    there = [path for path in pictures if path.exists()]
    if there:
        parts += ["<h2>Attention</h2>", *map(_picture, there)]
    page.write_page(file, "Results", parts)


def _table(section: Section) -> str:
    return f"<h2>{html.escape(section.title)}</h2>{page.table(cells(section), section.title)}"


def _details(section: Section) -> Iterator[str]:
    """Yields pictures and settings of every row, folded."""
    for row, folder in zip(section.rows, section.folders, strict=True):
        images = "".join(_picture(folder / name) for name in PICTURES if (folder / name).exists())
        config = folder / "config.json"
        settings = config.read_text("utf-8", errors="replace") if config.exists() else f"{config} is missing"
        yield page.details(section.label(row), images + page.preformatted(settings))


def _picture(path: Path) -> str:
    """Returns a picture in 256 colors, which looks the same and is a third of the size."""
    file = io.BytesIO()
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<p><img alt="{html.escape(path.stem)}" src="data:image/png;base64,{data}">'


def _write(file: Path, text: str) -> None:
    write_atomically(file, lambda temporary: temporary.write_text(text, "utf-8"))
