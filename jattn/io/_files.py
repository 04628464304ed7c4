"""Files of JSON and of named arrays, without pickles. They are written atomically, even if the power fails."""

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
    """Writes a value as JSON, atomically; NaN becomes null.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(Path(folder) / "scores.json", {"accuracy": np.float32(0.5)})
    ...     json.loads((Path(folder) / "scores.json").read_text())
    {'accuracy': 0.5}
    """
    text = json.dumps(to_jsonable(value), indent=1, allow_nan=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, "utf-8"))


def write_arrays(path: Path, arrays: Mapping[str, Any], *, compress: bool = False) -> None:
    """Writes named arrays as an npz file, atomically.

    Compression is worth its time for weights: those of dead units have decayed to 0.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_arrays(Path(folder) / "weights.npz", {"bias": np.zeros(2)})
    ...     read_arrays(Path(folder) / "weights.npz")
    {'bias': array([0., 0.])}
    """
    save = np.savez_compressed if compress else np.savez

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            save(file, allow_pickle=False, **{name: np.asarray(array) for name, array in arrays.items()})

    write_atomically(path, write)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The named arrays of an npz file."""
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Calls `write` with the path of a temporary file beside `path`, then renames that file to `path`.

    Each call has its own temporary file, also among threads, processes and machines. The content is on the disk before
    the file is renamed, so that a power cut leaves the old file or the new one.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=f".partial{path.suffix}", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        temporary.chmod(0o666 & ~_umask())  # as any new file; those of mkstemp are private
        write(temporary)
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # other systems can't open a folder
        sync(path.parent)


def sync(path: Path) -> None:
    """Waits until a file, or the list of files of a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """Permissions that new files of this process do not get."""
    with _umask_lock:  # it can be read only by setting it
        mask = os.umask(0o077)
        os.umask(mask)
    return mask


class FormatError(ValueError):
    """A file has a format that this version can't read."""


def expect_format(file: str | Path, found: Any, known: int, remedy: str, error: type[Exception] = FormatError) -> None:
    """Raises an error with the file and a remedy, unless its format is the one that this version writes.

    Args:
      file: the file.
      found: its format number; None if it has none.
      known: the format number that this version writes.
      remedy: what to do about a file of another format.
      error: type of the error.
    """
    if found == known:
        return
    if found is None:
        raise error(f"{file}: it has no format number, so an older version of jattn wrote it; {remedy}")
    version = "a newer" if isinstance(found, int) and found > known else "another"
    raise error(f"{file}: its format is {found}, of {version} version of jattn; this one knows {known}; {remedy}")


def to_jsonable(value: Any) -> Any:
    """Dataclasses, mappings, sequences, paths and numpy values as values of JSON; NaN and infinity become None.

    >>> to_jsonable({"values": np.array([1.0, np.nan]), "file": Path("weights.npz")})
    {'values': [1.0, None], 'file': 'weights.npz'}
    """
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
