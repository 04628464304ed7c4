"""Files that are never half-written, also where the power is cut: JSON and named arrays, no pickles."""

import json
import math
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

_umask_lock = threading.Lock()


def write_json(path: Path, value: Any) -> None:
    """Writes JSON under a temporary name, then renames it; NaN becomes null."""
    text = json.dumps(to_jsonable(value), indent=1, allow_nan=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, "utf-8"))


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes named arrays as an npz file."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **{name: np.asarray(array) for name, array in arrays.items()})

    write_atomically(path, write)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays that `write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Lets `write` fill a temporary file beside `path`, then renames it to `path`.

    No two calls share a temporary file, whatever process, thread or machine makes them. What was written is on the disk
    before it has its name, so that a power cut leaves the old file or the new one.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=f".partial{path.suffix}", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        temporary.chmod(0o666 & ~_umask())  # as any new file; mkstemp's are the owner's alone
        write(temporary)
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # elsewhere a folder can't be opened
        sync(path.parent)


def sync(path: Path) -> None:
    """Waits until a file, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """The permissions that new files of this process do not get."""
    with _umask_lock:  # it can only be read by setting it
        mask = os.umask(0o077)
        os.umask(mask)
    return mask


class FormatError(ValueError):
    """A file is of a format that this version does not know."""


def expect_format(file: str | Path, found: Any, known: int, remedy: str, error: type[Exception] = FormatError) -> None:
    """Raises an error that names the file and the remedy, unless its format is the one that this version knows.

    Args:
      file: whose format it is.
      found: the number in the file; None where it has none.
      known: the number that this version writes.
      remedy: what to do about a file of another format.
      error: what to raise.
    """
    if found == known:
        return
    if found is None:
        raise error(f"{file}: it has no format number, as if an older version of jattn wrote it; {remedy}")
    age = "a newer" if isinstance(found, int) and found > known else "another"
    raise error(f"{file}: its format is {found}, of {age} version of jattn; this one knows {known}; {remedy}")


def to_jsonable(value: Any) -> Any:
    """Dataclasses, paths, numpy values and NaN as what JSON knows."""
    if is_dataclass(value) and not isinstance(value, type):
        return to_jsonable(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [to_jsonable(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return to_jsonable(value.tolist())
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
