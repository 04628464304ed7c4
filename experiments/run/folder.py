"""A run's folder: configuration, metric lines, results and weights, none of them ever half-written.

config.json     experiment, preset, all settings, digests of the data, versions of libraries
metrics.jsonl   one JSON line per epoch: stage, epoch, seconds, loss, accuracy, ...
checkpoints/    the checkpoints of each training stage, by epoch
labels.npz      leave-one-out labels of the training graphs, and the identity of the teacher and the graphs
weights.npz     the network and the trained weights of all seeds
results.json    scores; a run that has them is finished
samples.npz     some test graphs, with predictions and attention of the first network
*.png, report.html   pictures, and a page with scores, curves and samples, all made from the files above and the data
study.db, study.csv, fold_labels.npz   if settings are tuned: the study, its trials, and the labels of the folds

All of these files but metrics.jsonl, study.csv, pictures and the report have a format number; a file of another format
is refused.
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

CONFIG, RESULTS, REPORT = "config.json", "results.json", "report.html"
CONFIG_FORMAT, RESULTS_FORMAT = 2, 1
MADE_AGAIN = "remove it, and the same command makes it again"  # how messages about a damaged file end
LIBRARIES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")  # whose versions config.json has


class RunError(Exception):
    """A run can't start or go on; the message says why and what to do."""


class MetricsLog:
    """The lines of `metrics.jsonl`; a resumed run keeps those up to its last checkpoint."""

    def __init__(self, path: Path | None):
        """Opens the file, or a new one; None to write nothing."""
        self._path, self._file = path, path.open("a", buffering=1, encoding="utf-8") if path else None

    def write(self, line: Mapping[str, Any]) -> None:
        """Appends one line; NaN becomes null."""
        if self._file is not None:
            self._file.write(json.dumps(to_jsonable(line), allow_nan=False) + "\n")

    def truncate(self, stage: str, epoch: int) -> None:
        """Removes all lines after an epoch of a stage; for epoch 0, from the beginning of the stage."""
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
      folder: its path.
      lines: its metric lines.
      finished: whether it has all results.
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
    """The configuration of a run.

    Attributes:
      experiment: the experiment's name.
      preset: the preset that the settings started from.
      settings: a dataclass of settings, perhaps in groups; from a file, JSON of all settings by name.
      data: digests of the data, by name; None if the data were not read yet.
    """

    experiment: str
    preset: str
    settings: Any
    data: Mapping[str, str] | None = None


@contextmanager
def open_run(folder: Path, config: RunConfig) -> Iterator[Run]:
    """Starts or resumes the run in a folder, and locks the folder meanwhile.

    Args:
      folder: made if it does not exist.
      config: the run's configuration. Data are the same if their digests are, wherever they lie.

    Raises:
      RunError: the folder holds another run, another process runs in it, or it can't be written. Its files are
        unchanged.
    """
    config_file, results = folder / CONFIG, folder / RESULTS
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(folder / ".lock", timeout=0))
            for partial in folder.glob(".*.partial*"):  # of a process that was killed while it wrote
                partial.unlink()
            longer = _expect_same(folder, config) and results.exists()
            written = {"format": CONFIG_FORMAT, "versions": versions(), **config._asdict()}
            written["settings"] = flat(config.settings)
            if not results.exists():
                write_json(config_file, written)
            lines = held.enter_context(closing(MetricsLog(folder / "metrics.jsonl")))
        except Timeout:
            raise RunError(f"{folder}: another process runs there; wait for it, or choose another folder") from None
        except OSError as error:
            raise RunError(f"{folder}: can't write a run there ({error.strerror}); choose another folder") from error
        yield Run(folder, lines, results.exists() and not longer, written if longer else None)


def is_finished(folder: Path, config: RunConfig) -> bool:
    """Whether `open_run` would find a finished run; False also if it would refuse the folder.

    Args:
      folder: the run's folder.
      config: the run's configuration. Data that were not read yet are the same if the settings that choose them are.
    """
    try:
        return (folder / CONFIG).exists() and (folder / RESULTS).exists() and not _expect_same(folder, config)
    except RunError:
        return False


def versions() -> dict[str, str]:
    """Returns the versions of jattn and of the libraries that compute a run's numbers."""
    return {"jattn": __version__, **{name: version(name) for name in LIBRARIES}}


def differences(there: RunConfig, now: RunConfig) -> list[Difference]:
    """Returns the differences between a run that was read from a folder and another; empty if they are the same.

    Data are compared by their digests. If those of one run are not known, the settings that choose data are compared.
    """
    found = [Difference("experiment", there.experiment, now.experiment)] if there.experiment != now.experiment else []
    found += settings_differences(there.settings, now.settings, OF_RESULTS)
    data_settings = settings_differences(there.settings, now.settings, DATA)
    if there.data is None or now.data is None:
        return found + [change for change in data_settings if change not in found]
    digests = [
        Difference(f"data.{name}", there.data.get(name), now.data.get(name))
        for name in sorted(there.data.keys() | now.data.keys())
        if there.data.get(name) != now.data.get(name)
    ]
    return found + ([change for change in data_settings if change not in found] + digests if digests else [])


def _expect_same(folder: Path, config: RunConfig) -> bool:
    """Raises `RunError` if a folder holds another run, or results without a configuration.

    Returns:
      Whether the folder holds a shorter run, which this one continues.
    """
    there = read_config(folder)
    if there is None:
        if (folder / RESULTS).exists():
            raise RunError(f"{folder} holds {RESULTS} of an unknown run, without {CONFIG}; choose another folder")
        return False
    found = differences(there, config)
    longer = [change for change in found if change.name in growing(config.settings) and change.there and change.now]
    refused = [change for change in found if change not in longer]
    if refused:
        lines = "\n".join(f"  {change}" for change in refused)
        raise RunError(f"{folder} holds a run of another configuration; choose another folder\n{lines}")
    return bool(longer)


def read_config(folder: Path) -> RunConfig | None:
    """Returns the configuration of the run in a folder, with settings as JSON has them; None if there is no run.

    Raises:
      RunError: it is damaged, or of another format.
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
    """Returns the JSON lines of a file, without a last line that is incomplete.

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
    """Writes `results.json`, which makes a run finished."""
    write_json(folder / RESULTS, {"format": RESULTS_FORMAT, **results})


def read_results(folder: Path, needed: Collection[str] = ()) -> dict[str, Any]:
    """Returns the content of `results.json`; null becomes NaN.

    Args:
      folder: the run's folder.
      needed: names of objects or lists that it must have.

    Raises:
      RunError: the file lacks one of them, is no such file, or is of another format.
    """
    path = folder / RESULTS

    def numbers(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: numbers(item) for name, item in value.items()}
        if isinstance(value, list):
            return [numbers(item) for item in value]
        return math.nan if value is None else value

    try:
        found = numbers(json.loads(path.read_text("utf-8")))
    except ValueError as error:
        raise RunError(f"{path}: not JSON ({error}); {MADE_AGAIN}") from error
    if not isinstance(found, dict) or not found:
        raise RunError(f"{path}: no JSON object; {MADE_AGAIN}")
    expect_format(path, found.pop("format", None), RESULTS_FORMAT, MADE_AGAIN, RunError)
    for name in needed:
        if not isinstance(found.get(name), dict | list):
            raise RunError(f"{path}: it has no {name!r}; {MADE_AGAIN}")
    return found
