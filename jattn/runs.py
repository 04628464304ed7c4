"""A run's folder: configuration, metric lines, results and weights, none of them ever half-written.

config.json     the configuration
metrics.jsonl   one JSON line an epoch: stage, epoch, seconds, loss, accuracy, ...
results.json    scores of the finished run
weights.npz     trained weights of all seeds, named by their path in the network
labels.npz      leave-one-out labels of the training graphs, and a hash of the twin and the graphs that they are of
study.db, study.csv, fold_labels.npz   where settings are tuned: the study, its trials, and the folds' labels
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

RESULTS = ("results.json", "weights.npz", "training.png", "graphs.png", "accuracy.png", "study.csv", "study.png")

MAY_DIFFER = ("out", "storage")  # a folder may be spelt in several ways, and a study moved


class RunError(Exception):
    """A run can't start or go on; the message says why and what to do."""


def open_run(folder: Path, config: Any) -> TextIO:
    """Starts a run in a folder: writes `config.json` and returns `metrics.jsonl`, open and empty.

    A folder that holds a run of the same configuration is used again: the same run replaces it.

    Args:
      folder: made where it does not exist.
      config: a dataclass of plain values and paths.

    Raises:
      RunError: the folder holds a run of another configuration, or can't be written.
    """
    settings = plain(config)
    config_file = folder / "config.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if config_file.exists():
            _expect_same(config_file, settings)
        for name in RESULTS:  # of the run that this one replaces
            (folder / name).unlink(missing_ok=True)
        write_json(config_file, settings)
        return (folder / "metrics.jsonl").open("w", buffering=1)
    except OSError as error:
        raise RunError(f"{folder}: can't write a run there ({error.strerror}); choose another folder") from error


def _expect_same(config_file: Path, settings: dict[str, Any]) -> None:
    try:
        before = json.loads(config_file.read_text())
    except ValueError as error:
        raise RunError(f"{config_file}: not JSON ({error}); remove it or choose another folder") from error
    if not isinstance(before, dict):
        raise RunError(f"{config_file}: not a run's configuration; remove it or choose another folder")
    names = sorted(name for name in before.keys() | settings.keys() if before.get(name) != settings.get(name))
    longer = ["tune"] if before.get("tune") and settings.get("tune") else []  # a study may be made longer
    names = [name for name in names if name not in (*MAY_DIFFER, *longer)]
    if names:
        changes = "\n".join(f"  {name}: {before.get(name)!r} there, {settings.get(name)!r} now" for name in names)
        raise RunError(f"{config_file.parent} holds a run of another configuration; choose another folder\n{changes}")


def write_line(file: TextIO, line: Mapping[str, Any]) -> None:
    """Appends one JSON line; NaN becomes null."""
    file.write(json.dumps(plain(line), allow_nan=False) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON lines of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_json(path: Path, value: Any) -> None:
    """Writes JSON under a temporary name, then renames it; NaN becomes null."""
    text = json.dumps(plain(value), indent=1, allow_nan=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text))


def write_weights(path: Path, params: Mapping[str, Any]) -> None:
    """Writes a network's parameters as an npz file whose names are paths such as `conv_0/linear/kernel`."""
    write_arrays(path, {"/".join(name): array for name, array in flatten_dict(params).items()})


def read_weights(path: Path) -> dict[str, Any]:
    """The parameters that `write_weights` wrote."""
    return unflatten_dict({tuple(name.split("/")): array for name, array in read_arrays(path).items()})


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
