"""Tables of numbers in text files: a row per line, with commas between numbers. Errors name the line."""

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

_CHUNK = 1 << 20  # bytes parsed at a time: the lines of a file of 300 MB, as strings, would take 1.5 GB


def read_table(file: Location, dtype: type[np.number], columns: int | None = None) -> np.ndarray:
    """Reads a file of finite numbers.

    Args:
      file: on disk or in a zip.
      dtype: int32 or float32.
      columns: number of columns. Default: that of the first line.

    Returns:
      Numbers, [rows, columns].

    Raises:
      ValueError: a line is empty, has another number of columns or something that is not such a number; the message
        names the line. Or the file is UTF-16, encrypted, or compressed in a way that Python can't read.
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
                if "\0" in lines[bad]:
                    raise ValueError(f"{file} looks like UTF-16: save it as UTF-8")
                kind = "integer" if dtype is np.int32 else "number"
                expected = f"one {kind}" if columns == 1 else f"{columns} {kind}s with commas between"
                raise ValueError(f"{file}, line {read + bad + 1}: expected {expected}, got {lines[bad].rstrip()!r}")
            parts.append(part)
            read += len(part)
    return np.concatenate(parts) if parts else np.zeros((0, columns or 1), dtype)


@contextlib.contextmanager
def _opened(file: Location) -> Iterator[IO[bytes]]:
    """The bytes of a file, without the byte-order mark that some editors put in front of UTF-8."""
    try:
        stream = file.open("rb")
    except RuntimeError as error:  # zipfile lacks the password or the compression method
        raise ValueError(f"{file} can't be read ({error}): unpack the zip and give the folder") from error
    with stream:
        start = stream.read(len(codecs.BOM_UTF8))
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError(f"{file} is UTF-16: save it as UTF-8")
        if start != codecs.BOM_UTF8:
            stream.seek(0)
        yield stream


def _lines(text: bytes) -> list[str]:
    # In latin-1 every byte is a character, so that any file can be decoded. A text stream that is read line by line is
    # a fifth slower.
    decoded = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").decode("latin-1")
    return decoded.removesuffix("\n").split("\n")


def _parsed(lines: list[str], dtype: type[np.number], columns: int) -> np.ndarray | None:
    """The numbers, or None if a line is empty, has another number of columns or an entry that is not finite."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns of 1.5 as an integer, and of lines that are all empty
            numbers = np.loadtxt(lines, dtype, delimiter=",", comments=None, ndmin=2)
    except (ValueError, Warning):
        return None
    return numbers if numbers.shape == (len(lines), columns) and np.isfinite(numbers).all() else None
