"""Files that are never half-written: JSON and named arrays, no pickles."""

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np


def write_json(path: Path, value: Any) -> None:
    """Writes JSON under a temporary name, then renames it; NaN becomes null."""
    text = json.dumps(plain(value), indent=1, allow_nan=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text))


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
    """Lets `write` fill a temporary file beside `path`, of this process alone, then renames it to `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial{path.suffix}")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def plain(value: Any) -> Any:
    """Dataclasses, paths, numpy values and NaN as what JSON knows."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
