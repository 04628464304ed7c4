"""The checkpoints of one stage of training: saved in the background, never half-written; the last ones are kept."""

import errno
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import Float, Int

from jattn.io._files import expect_format
from jattn.training import TrainState
from jattn.training._devices import broadcast_from_main, fail_together, is_main_process, to_host
from jattn.types import Params

from .folder import RunError
from .identity import differences

NUM_KEPT = 2  # checkpoints to keep: if the last one can't be read, there is another
STATE, BEST, ABOUT = "state", "best", "about"  # the items of a checkpoint
FORMAT = 3


class Best(NamedTuple):
    """The best weights of each seed so far, as numpy arrays; each checkpoint has them.

    Attributes:
      params: the weights, with a leading axis of seeds.
      epoch: the epoch after which each seed had them; 0 if none were scored yet.
      score: their validation accuracy.
    """

    params: Params
    epoch: Int[np.ndarray, " seeds"]
    score: Float[np.ndarray, " seeds"]

    @classmethod
    def none(cls, params: Params) -> Self:
        """The value before any weights are scored; `params` gives the shapes."""
        seeds = len(jax.tree.leaves(params)[0])
        empty = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), params)
        return cls(empty, np.zeros(seeds, np.int32), np.full(seeds, -np.inf, np.float32))

    def or_better(self, epoch: int, params: Params, score: Sequence[float]) -> "Best":
        """The best weights after another epoch; of equal scores the later weights."""
        scores = np.nan_to_num(np.asarray(score, np.float32), nan=-np.inf)
        better = scores >= self.score

        def choose(new: np.ndarray, old: np.ndarray) -> np.ndarray:
            return np.where(better.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        epochs = np.full_like(self.epoch, epoch)
        return Best(jax.tree.map(choose, params, self.params), choose(epochs, self.epoch), choose(scores, self.score))


class Saved(NamedTuple):
    """The content of a checkpoint.

    Attributes:
      epoch: the epoch after which it was saved; 0 for the state before the first.
      state: the state of all seeds, as numpy arrays if it was read.
      seconds: the time that training had taken.
      best: the best weights so far, if these are kept.
    """

    epoch: int
    state: TrainState
    seconds: float
    best: Best | None = None


class Checkpoints:
    """The checkpoints of a stage, in a folder with one subfolder per epoch. A context manager.

    If several processes run as one, all of them call every method; only the first one reads and writes, and it passes
    on what it read, or its error.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]):
        """Opens them.

        Args:
          folder: made if it does not exist. What an interrupted save left there is removed.
          identity: the identity of the weights.

        Raises:
          RunError: the folder can't be made or read.
        """
        logging.getLogger("absl").setLevel(logging.CRITICAL)  # orbax logs its steps; errors it raises as well
        self.folder, self.identity = folder.absolute(), identity
        self._manager: ocp.CheckpointManager | None = None
        with self._reporting("opened"):
            if is_main_process():
                self._manager = self._open()

    def _open(self) -> ocp.CheckpointManager:
        options = ocp.CheckpointManagerOptions(
            max_to_keep=NUM_KEPT,
            create=False,
            cleanup_tmp_directories=True,
            multiprocessing_options=ocp.options.MultiprocessingOptions(
                primary_host=0, active_processes={0}, barrier_sync_key_prefix="first"
            ),
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        return ocp.CheckpointManager(self.folder, options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            with self._reporting("finished"):
                if self._manager is not None:
                    self._manager.close()
        elif self._manager is not None:
            with suppress(Exception):  # the error that is being raised is the one to show
                self._manager.close()

    def save(self, epoch: int, state: TrainState, seconds: float, best: Best | None = None) -> None:
        """Saves the state after an epoch, in the background.

        Args:
          epoch: its number, larger than those before.
          state: the state of all seeds.
          seconds: the time that training has taken.
          best: the best weights so far, if these are kept.

        Raises:
          RunError: it can't be written; earlier checkpoints are unchanged.
        """
        whole = to_host(_without_key(state))
        about = {"format": FORMAT, "of": self.identity, "seconds": seconds}
        items = {STATE: ocp.args.StandardSave(whole), ABOUT: ocp.args.JsonSave(about)}
        if best is not None:
            items[BEST] = ocp.args.StandardSave(best)
        with self._reporting("written"):
            if self._manager is not None and not self._manager.save(epoch, args=ocp.args.Composite(**items)):
                raise OSError(f"that of epoch {epoch} was left out, since there is one of a later epoch")

    def restore_latest(self, state: TrainState, best: Best | None = None) -> Saved:
        """The last checkpoint that can be read; if there is none, epoch 0 with `state` and `best`.

        A checkpoint that can't be read is renamed, with a warning, so that training can write it again.

        Args:
          state: the state before training, whose shapes a checkpoint has.
          best: the same for the best weights, if these are kept.

        Raises:
          RunError: the checkpoints are of something else, or of another format. They are left alone.
        """
        target = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), _without_key(state))
        found = Saved(0, target, 0.0, best)
        with self._reporting("read"):
            if self._manager is not None:
                for epoch in sorted(self._manager.all_steps(), reverse=True):
                    saved = self._read(self._manager, epoch, target, best)
                    if saved is not None:
                        found = saved
                        break
        epoch, whole, seconds, best = broadcast_from_main(
            (np.int32(found.epoch), found.state, np.float32(found.seconds), found.best)
        )
        key = jax.random.wrap_key_data(whole.key)
        return Saved(int(epoch), whole._replace(key=key) if epoch else state, float(seconds), best)

    def _read(self, manager: ocp.CheckpointManager, epoch: int, target: Any, best: Best | None) -> Saved | None:
        """The checkpoint of an epoch; None if it is damaged, after which it is out of the way."""
        file = self.folder / str(epoch)
        try:
            about = manager.restore(epoch, args=ocp.args.Composite(**{ABOUT: ocp.args.JsonRestore()}))[ABOUT]
            self._expect_same(file, about)
            wanted = {STATE: ocp.args.StandardRestore(target)}
            if best is not None:
                wanted[BEST] = ocp.args.StandardRestore(best)
            found = manager.restore(epoch, args=ocp.args.Composite(**wanted))
            return Saved(epoch, found[STATE], about["seconds"], None if best is None else found[BEST])
        except RunError:
            raise
        except Exception as error:  # a damaged file raises any kind
            aside = _free(file.with_name(f"{file.name}.unreadable"))
            file.rename(aside)
            warnings.warn(f"{file}: can't be read ({_reason(error)}); it is now {aside.name}", stacklevel=2)
            manager.reload()
            return None

    def _expect_same(self, file: Path, about: Mapping[str, Any]) -> None:
        """Raises a `RunError` if a checkpoint is of another format, or of something else."""
        remedy = "go on with what made it, or choose another folder"
        expect_format(file, about.get("format"), FORMAT, remedy, RunError)
        changed = differences(about["of"], self.identity)
        if changed:
            why = f"{file} is a checkpoint of other data or settings; {remedy}"
            raise RunError("\n  ".join([why, *map(str, changed)]))

    @contextmanager
    def _reporting(self, action: str) -> Iterator[None]:
        """Within, an error of the first process becomes a `RunError` in all processes."""
        with fail_together():
            try:
                yield
            except RunError:
                raise
            except Exception as error:  # tensorstore, orbax and the system each have their own for a full disk
                raise RunError(
                    f"{self.folder}: checkpoints can't be {action} ({_reason(error)}); those before are kept, and "
                    "the same command goes on from them"
                ) from error


def _free(path: Path) -> Path:
    """The path, or one with a number if it is taken."""
    taken = path.parent.glob(f"{path.name}*")
    return path.with_name(f"{path.name}{len(list(taken)) or ''}")


def _reason(error: Exception) -> str:
    """The message of an error, in one line; only the system's words, if it has them."""
    text = str(error)
    systems = map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG))
    return next((words for words in systems if words in text), (text.splitlines() or [type(error).__name__])[0])


def _without_key(state: TrainState) -> Any:
    """The state with its random keys as numbers."""
    return state._replace(key=jax.random.key_data(state.key))
