"""Tables as text in columns and as CSV files."""

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from jattn.io import write_atomically


def align_columns(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Rows as text, each column as wide as its widest cell.

    Args:
      rows: of as many cells each.
      left: columns whose cells stand at the left.
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


def write_csv(file: Path, rows: Sequence[Mapping[str, Any]], first: str = "") -> None:
    """Writes rows of the same columns as CSV, with a line before them if wanted; never half of them."""
    text = io.StringIO(first)
    text.seek(0, io.SEEK_END)
    if rows:
        table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({name: f"{x:.6g}" if isinstance(x, float) else x for name, x in row.items()} for row in rows)
    write_atomically(file, lambda temporary: temporary.write_text(text.getvalue(), "utf-8"))
