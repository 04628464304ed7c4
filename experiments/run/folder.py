"""A run's folder: configuration, metric lines, results and weights, none of them ever half-written.

config.json     what it is a run of: experiment, preset, all settings, its data's digests, versions of libraries
metrics.jsonl   one JSON line an epoch: stage, epoch, seconds, loss, accuracy, ...
checkpoints/    of each stage of training, by epoch
labels.npz      leave-one-out labels of the training graphs, and the identity of the teacher and graphs that they are of
weights.npz     the network and the trained weights of all seeds
results.json    scores of the finished run
study.db, study.csv, fold_labels.npz   where settings are tuned: the study, its trials, and the folds' labels

Each of these files but lines and tables has a format number; one of another format is refused.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from jattn._version import __version__
from jattn.io import to_jsonable, write_atomically, write_json
from jattn.io._files import expect_format

from .groups import flat
from .identity import DATA, Difference, growing, settings_differences
from .identity import RESULTS as OF_RESULTS

CONFIG, RESULTS = "config.json", "results.json"  # the last file: a run that has it is finished
CONFIG_FORMAT, RESULTS_FORMAT = 2, 1
LIBRARIES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")  # whose versions a run notes


class RunError(Exception):
    """A run can't start or go on; the message says why and what to do."""


class MetricsLog:
    """The lines of `metrics.jsonl`; those of a run that goes on stay, up to where it goes on from."""

    def __init__(self, path: Path | None):
        """Takes up the file of that path, or a new one; where None, nothing is written."""
        self._path, self._file = path, path.open("a", buffering=1, encoding="utf-8") if path else None

    def write(self, line: Mapping[str, Any]) -> None:
        """Appends one line; NaN becomes null."""
        if self._file is not None:
            self._file.write(json.dumps(to_jsonable(line), allow_nan=False) + "\n")

    def truncate(self, stage: str, epoch: int) -> None:
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
      longer_config: if the folder has results of a shorter run, which this one continues: the new configuration.
    """

    folder: Path
    lines: MetricsLog
    finished: bool
    longer_config: Mapping[str, Any] | None = None

    def replace_shorter(self) -> None:
        """Removes the results of the shorter run, if any, and writes this one's configuration.

        Call it when the new results are about to be written: until then, configuration and results fit each other.
        """
        if self.longer_config is not None:
            (self.folder / RESULTS).unlink(missing_ok=True)
            write_json(self.folder / CONFIG, self.longer_config)


class RunConfig(NamedTuple):
    """What a run is of.

    Attributes:
      experiment: its name.
      preset: the preset that its settings started from.
      settings: a dataclass whose fields say what they affect; as JSON has them where this was read.
      data: digests of its data, by name; None where they were not read yet.
    """

    experiment: str
    preset: str
    settings: Any
    data: Mapping[str, str] | None = None


@contextmanager
def open_run(folder: Path, about: RunConfig) -> Iterator[Run]:
    """Starts a run in a folder, or goes on with the one that is there, and holds the folder meanwhile.

    Args:
      folder: made where it does not exist.
      about: what is to be run. The data are those of the run that is there if their digests are, wherever they lie.

    Raises:
      RunError: the folder holds another run, another process runs in it, or it can't be written. What it holds stays.
    """
    config_file, results = folder / CONFIG, folder / RESULTS
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(folder / ".lock", timeout=0))
            for left in folder.glob(".*.partial*"):  # by a process that was killed as it wrote
                left.unlink()
            longer = _expect_same(folder, about) and results.exists()
            config = {"format": CONFIG_FORMAT, "versions": versions(), **about._asdict()}
            config["settings"] = flat(about.settings)
            if not results.exists():
                write_json(config_file, config)
            lines = held.enter_context(closing(MetricsLog(folder / "metrics.jsonl")))
        except Timeout:
            raise RunError(f"{folder}: another process runs there; wait for it, or choose another folder") from None
        except OSError as error:
            raise RunError(f"{folder}: can't write a run there ({error.strerror}); choose another folder") from error
        yield Run(folder, lines, results.exists() and not longer, config if longer else None)


def is_finished(folder: Path, about: RunConfig) -> bool:
    """Whether `open_run` would find all of a run there; False too where it would refuse the folder, or depends on data.

    Args:
      folder: the run's.
      about: what is to be run; data that were not read yet are taken to be the same if what says which they are is.
    """
    try:
        return (folder / CONFIG).exists() and (folder / RESULTS).exists() and not _expect_same(folder, about)
    except RunError:
        return False


def versions() -> dict[str, str]:
    """The versions of jattn and of the libraries that a run's numbers come from."""
    return {"jattn": __version__, **{name: version(name) for name in LIBRARIES}}


def differences(there: RunConfig, now: RunConfig) -> list[Difference]:
    """What keeps two runs from being the same one, where `there` was read from a folder; without that if they are.

    Data are compared by their digests. Where those of one run are not known, settings say whether they are the same.
    """
    found = [Difference("experiment", there.experiment, now.experiment)] if there.experiment != now.experiment else []
    found += settings_differences(there.settings, now.settings, OF_RESULTS)
    asked = settings_differences(there.settings, now.settings, DATA)
    if there.data is None or now.data is None:
        return found + [of for of in asked if of not in found]
    digests = [
        Difference(f"data.{name}", there.data.get(name), now.data.get(name))
        for name in sorted(there.data.keys() | now.data.keys())
        if there.data.get(name) != now.data.get(name)
    ]
    return found + ([of for of in asked if of not in found] + digests if digests else [])


def _expect_same(folder: Path, about: RunConfig) -> bool:
    """Raises a `RunError` where a folder holds another run, or results of which nothing says what they are.

    Returns:
      Whether it holds a run that is to be made longer.
    """
    there = read_config(folder)
    if there is None:
        if (folder / RESULTS).exists():
            raise RunError(f"{folder} holds {RESULTS} without {CONFIG}, so of a run not known; choose another folder")
        return False
    found = differences(there, about)
    longer = [of for of in found if of.name in growing(about.settings) and of.there and of.now]
    changed = [of for of in found if of not in longer]
    if changed:
        lines = "\n".join(f"  {of}" for of in changed)
        raise RunError(f"{folder} holds a run of another configuration; choose another folder\n{lines}")
    return bool(longer)


def read_config(folder: Path) -> RunConfig | None:
    """What the run in a folder is of, its settings as JSON has them; None where there is no run.

    Raises:
      RunError: what is there is damaged, or of another format.
    """
    file = folder / CONFIG
    try:
        found = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunError(f"{file}: not JSON ({error}); remove it or choose another folder") from error
    if not isinstance(found, dict):
        raise RunError(f"{file}: not a run's configuration; remove it or choose another folder")
    remedy = "go on with that version, or choose another folder"
    expect_format(file, found.get("format"), CONFIG_FORMAT, remedy, RunError)
    if not isinstance(found.get("settings"), dict):
        raise RunError(f"{file}: it has no settings; choose another folder")
    known: dict[str, Any] = {name: found.get(name) for name in RunConfig._fields}
    return RunConfig(**known)


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


def write_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Writes a run's results, by which it is finished."""
    write_json(folder / RESULTS, {"format": RESULTS_FORMAT, **results})


def read_results(folder: Path, needed: Collection[str] = ()) -> dict[str, Any]:
    """The results that `write_results` wrote; null becomes NaN.

    Args:
      folder: the run's.
      needed: names of objects or lists that they have to have.

    Raises:
      RunError: the file holds something else, or is of another format.
    """
    path, remedy = folder / RESULTS, "remove it, and the same command makes it again"

    def numbers(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: numbers(item) for name, item in value.items()}
        if isinstance(value, list):
            return [numbers(item) for item in value]
        return math.nan if value is None else value

    try:
        found = numbers(json.loads(path.read_text("utf-8")))
    except ValueError as error:
        raise RunError(f"{path}: not JSON ({error}); {remedy}") from error
    if not isinstance(found, dict) or not found:
        raise RunError(f"{path}: no JSON object; {remedy}")
    expect_format(path, found.pop("format", None), RESULTS_FORMAT, remedy, RunError)
    for name in needed:
        if not isinstance(found.get(name), dict | list):
            raise RunError(f"{path}: it has no {name!r}; {remedy}")
    return found
