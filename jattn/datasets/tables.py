"""Reading tables of numbers from text, a line a row with commas between; a line that is anything else is named."""

import bisect
import codecs
import contextlib
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np

Location: TypeAlias = Path | zipfile.Path

_CHUNK = 1 << 20  # bytes parsed at a time, so that hundreds of megabytes of text are never in memory at once


def read_table(file: Location, dtype: type[np.number], columns: int | None = None) -> np.ndarray:
    """Reads a file of numbers.

    Args:
      file: on disk or in a zip.
      dtype: int32 or float32. Numbers have to be finite, and integers where it is int32.
      columns: as many as the first line has where not given.

    Returns:
      Numbers, [rows, columns].

    Raises:
      ValueError: a line is empty, is no numbers or has another number of columns; the message says which line. Or the
        file is encrypted or compressed in a way that Python can't undo, or UTF-16.
    """
    parts, read = [], 0
    with _opened(file) as stream:
        while text := stream.read(_CHUNK):
            lines = _lines(text + stream.readline())
            columns = columns or lines[0].count(",") + 1
            part = _parsed(lines, dtype, columns)
            if part is None:
                prefixes = range(1, len(lines) + 1)
                bad = bisect.bisect_left(prefixes, True, key=lambda end: _parsed(lines[:end], dtype, columns) is None)
                kind = "integer" if dtype is np.int32 else "number"
                wanted = f"one {kind}" if columns == 1 else f"{columns} {kind}s with commas between"
                raise ValueError(f"{file}, line {read + bad + 1}: expected {wanted}, got {lines[bad].rstrip()!r}")
            parts.append(part)
            read += len(part)
    return np.concatenate(parts) if parts else np.zeros((0, columns or 1), dtype)


@contextlib.contextmanager
def _opened(file: Location) -> Iterator[IO[bytes]]:
    """The bytes of a file, behind the mark that some editors put in front of UTF-8."""
    try:
        stream = file.open("rb")
    except RuntimeError as error:  # zipfile knows no password, or not the compression
        raise ValueError(f"{file} can't be read ({error}): unpack the zip and give the folder") from error
    with stream:
        start = stream.read(len(codecs.BOM_UTF8))
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError(f"{file} is UTF-16: save it as UTF-8")
        if start != codecs.BOM_UTF8:
            stream.seek(0)
        yield stream


def _lines(text: bytes) -> list[str]:
    # Every byte is a latin-1 character, so a strange one is just text that is no number. Lines end as in text files;
    # reading them as such, line by line, makes COLLAB take a fifth longer.
    decoded = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").decode("latin-1")
    return decoded.removesuffix("\n").split("\n")


def _parsed(lines: list[str], dtype: type[np.number], columns: int) -> np.ndarray | None:
    """The numbers, or None where a line is empty, is no finite numbers or has another number of columns."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy may only warn of 1.5 as an integer, and of nothing but empty lines
            numbers = np.loadtxt(lines, dtype, delimiter=",", comments=None, ndmin=2)
    except (ValueError, Warning):
        return None
    return numbers if numbers.shape == (len(lines), columns) and np.isfinite(numbers).all() else None
