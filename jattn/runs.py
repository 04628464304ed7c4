"""A run's folder: configuration, metric lines, results and weights, none of them ever half-written.

config.json     the configuration
metrics.jsonl   one JSON line an epoch: stage, epoch, seconds, loss, accuracy, ...
checkpoints/    of each stage of training, by epoch
labels.npz      leave-one-out labels of the training graphs, and a hash of the twin and the graphs that they are of
weights.npz     the network and the trained weights of all seeds
results.json    scores of the finished run
study.db, study.csv, fold_labels.npz   where settings are tuned: the study, its trials, and the folds' labels
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from jattn.files import plain, write_atomically, write_json

RESULTS = "results.json"  # the last file: a run that has it is finished


class RunError(Exception):
    """A run can't start or go on; the message says why and what to do."""


class Lines:
    """The lines of `metrics.jsonl`; those of a run that goes on stay, up to where it goes on from."""

    def __init__(self, path: Path | None):
        """Takes up the file of that path, or a new one; where None, nothing is written."""
        self._path, self._file = path, path.open("a", buffering=1, encoding="utf-8") if path else None

    def write(self, line: Mapping[str, Any]) -> None:
        """Appends one line; NaN becomes null."""
        if self._file is not None:
            self._file.write(json.dumps(plain(line), allow_nan=False) + "\n")

    def cut(self, stage: str, epoch: int) -> None:
        """Forgets all that was written after an epoch of a stage, or since the stage began where that is 0."""
        if self._path is None:
            return
        kept = []
        for line in read_lines(self._path):
            if line["stage"] == stage and line["epoch"] > epoch:
                break
            kept.append(json.dumps(line) + "\n")
            if (line["stage"], line["epoch"]) == (stage, epoch):
                break
        self.close()
        write_atomically(self._path, lambda temporary: temporary.write_text("".join(kept), "utf-8"))
        self._file = self._path.open("a", buffering=1, encoding="utf-8")

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()


class Run(NamedTuple):
    """A run's folder that this process alone holds.

    Attributes:
      folder: where it is.
      lines: its metric lines.
      finished: whether all of it is there.
    """

    folder: Path
    lines: Lines
    finished: bool


@contextmanager
def open_run(folder: Path, config: Any, may_differ: Collection[str] = ("out",)) -> Iterator[Run]:
    """Starts a run in a folder, or goes on with the one that is there, and holds the folder meanwhile.

    Args:
      folder: made where it does not exist.
      config: a dataclass of plain values and paths.
      may_differ: fields of it in which the command that goes on may differ from the one that started.

    Raises:
      RunError: the folder holds a run of another configuration, another process runs in it, or it can't be written.
    """
    settings, config_file, results = plain(config), folder / "config.json", folder / RESULTS
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(folder / ".lock", timeout=0))
            for left in folder.glob(".*.partial*"):  # by a process that was killed as it wrote
                left.unlink()
            if _expect_same(folder, config, may_differ) or not config_file.exists():
                results.unlink(missing_ok=True)
            write_json(config_file, settings)
            lines = held.enter_context(closing(Lines(folder / "metrics.jsonl")))
        except Timeout:
            raise RunError(f"{folder}: another process runs there; wait for it, or choose another folder") from None
        except OSError as error:
            raise RunError(f"{folder}: can't write a run there ({error.strerror}); choose another folder") from error
        yield Run(folder, lines, results.exists())


def is_finished(folder: Path, config: Any, may_differ: Collection[str] = ("out",)) -> bool:
    """Whether `open_run` would find all of a run there; False too where it would refuse the folder."""
    if not (folder / "config.json").exists() or not (folder / RESULTS).exists():
        return False
    try:
        return not _expect_same(folder, config, may_differ)
    except RunError:
        return False


def _expect_same(folder: Path, config: Any, may_differ: Collection[str]) -> bool:
    """Raises a `RunError` where a folder holds a run of another configuration; arguments as in `open_run`.

    Returns:
      Whether it holds a run whose study had another length.
    """
    before, settings = read_config(folder), plain(config)
    if before is None:
        return False
    names = sorted(name for name in before.keys() | settings.keys() if before.get(name) != settings.get(name))
    longer = ["tune"] if before.get("tune") and settings.get("tune") else []  # a study may be made longer
    changed = [name for name in names if name not in (*may_differ, *longer)]
    if changed:
        changes = "\n".join(f"  {name}: {before.get(name)!r} there, {settings.get(name)!r} now" for name in changed)
        raise RunError(f"{folder} holds a run of another configuration; choose another folder\n{changes}")
    return "tune" in names


def read_config(folder: Path) -> dict[str, Any] | None:
    """The configuration of the run in a folder, as JSON has it; None where there is none.

    Raises:
      RunError: it is damaged.
    """
    file = folder / "config.json"
    try:
        found = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunError(f"{file}: not JSON ({error}); remove it or choose another folder") from error
    if not isinstance(found, dict):
        raise RunError(f"{file}: not a run's configuration; remove it or choose another folder")
    return found


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON lines of a file, without a last one that was not written to its end.

    Raises:
      RunError: another line is not JSON.
    """
    lines = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(keepends=True), 1):
        if line.endswith("\n"):
            try:
                lines.append(json.loads(line))
            except ValueError as error:
                raise RunError(f"{path}: line {number} is not JSON ({error}); remove it") from error
    return lines


def read_json(path: Path, needed: Collection[str] = ()) -> dict[str, Any]:
    """The JSON object that `write_json` wrote; null becomes NaN.

    Args:
      path: the file.
      needed: names of objects or lists that it has to have.

    Raises:
      RunError: the file holds something else.
    """

    def numbers(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: numbers(item) for name, item in value.items()}
        if isinstance(value, list):
            return [numbers(item) for item in value]
        return math.nan if value is None else value

    try:
        found = numbers(json.loads(path.read_text("utf-8")))
    except ValueError as error:
        raise RunError(f"{path}: not JSON ({error}); remove it, and the same command makes it again") from error
    if not isinstance(found, dict) or not found:
        raise RunError(f"{path}: no JSON object; remove it, and the same command makes it again")
    for name in needed:
        if not isinstance(found.get(name), dict | list):
            raise RunError(f"{path}: it has no {name!r}; remove it, and the same command makes it again")
    return found
