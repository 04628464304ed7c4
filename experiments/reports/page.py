"""A page of HTML in one file: its frame, style sheet, scripts, and data embedded as JSON."""

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jattn.io import to_jsonable, write_atomically

from ..run.tables import as_html

FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
{scripts}</body>
</html>
"""


def write_page(file: Path, title: str, parts: Sequence[str], scripts: Sequence[str] = ()) -> None:
    """Writes a page that needs no other file, atomically.

    Args:
      file: where to.
      title: its title, as text.
      parts: its content, as HTML.
      scripts: names of scripts of this package, which run after the content.
    """
    code = "".join(f"<script>\n{_resource(name)}</script>\n" for name in scripts)
    page = FRAME.format(title=html.escape(title), style=_resource("page.css"), body="\n".join(parts), scripts=code)
    write_atomically(file, lambda temporary: temporary.write_text(page, "utf-8"))


def embedded_json(name: str, value: Any) -> str:
    """Returns an element that holds a value as JSON, for scripts; NaN becomes null."""
    text = json.dumps(to_jsonable(value), allow_nan=False, separators=(",", ":"))
    text = text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")  # nothing ends the element
    return f'<script type="application/json" id="{name}">{text}</script>'


def table(rows: Sequence[Sequence[str]], label: str, marked: str = "*") -> str:
    """Returns rows, headings first, as a table that scrolls sideways where the page is narrow.

    Args:
      rows: of as many cells each, as text.
      label: what the table holds.
      marked: how cells end that stand out.
    """
    region = f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(label)}">'
    return f"{region}{as_html(rows, marked)}</div>"


def details(summary: str, content: str) -> str:
    """Returns content, as HTML, that is folded under a summary, as text."""
    return f"<details><summary>{html.escape(summary)}</summary>{content}</details>"


def preformatted(text: str) -> str:
    """Returns text with its lines as they are."""
    return f"<pre>{html.escape(text)}</pre>"


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
