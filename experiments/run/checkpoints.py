"""Checkpoints of one stage of training: saved in the background, the last ones kept, none half-written."""

import errno
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import Float, Int

from jattn.io._files import expect_format
from jattn.training import Params, TrainState
from jattn.training._devices import broadcast_from_main, fail_together, is_main_process, to_host

from .folder import RunError
from .identity import differences

NUM_KEPT = 2  # checkpoints that are kept: should one not be readable, there is another
STATE, BEST, ABOUT = "state", "best", "about"  # the items of a checkpoint
FORMAT = 2

Result = TypeVar("Result")


class Best(NamedTuple):
    """The best weights of each seed so far, which every checkpoint has, numpy arrays.

    Attributes:
      params: the weights, with a leading axis of seeds.
      epoch: after which each seed had them; 0 where none were looked at.
      score: how good they are.
    """

    params: Params
    epoch: Int[np.ndarray, " seeds"]
    score: Float[np.ndarray, " seeds"]

    @classmethod
    def none(cls, params: Params) -> Self:
        """Before any weights were looked at; `params` says what they look like."""
        seeds = len(jax.tree.leaves(params)[0])
        empty = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), params)
        return cls(empty, np.zeros(seeds, np.int32), np.full(seeds, -np.inf, np.float32))

    def or_better(self, epoch: int, params: Params, score: Sequence[float]) -> "Best":
        """With the weights after an epoch for each seed whose score is as good as any before, or better."""
        now = np.nan_to_num(np.asarray(score, np.float32), nan=-np.inf)
        better = now >= self.score

        def chosen(new: np.ndarray, old: np.ndarray) -> np.ndarray:
            return np.where(better.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        epochs = np.full_like(self.epoch, epoch)
        return Best(jax.tree.map(chosen, params, self.params), chosen(epochs, self.epoch), chosen(now, self.score))


class Saved(NamedTuple):
    """What a checkpoint holds.

    Attributes:
      epoch: after which it was saved; 0 for the state before the first.
      state: of all seeds, numpy arrays.
      seconds: that training had taken until then.
      best: the best weights until then, where these are kept.
    """

    epoch: int
    state: TrainState
    seconds: float
    best: Best | None = None


class Checkpoints:
    """The checkpoints of a stage, in a folder with one of its own for each epoch. A context manager.

    Where several processes run as one, the first of them reads and writes, and tells the others what it read, or why it
    could not; all of them call every method.
    """

    def __init__(self, folder: Path, of: Mapping[str, Any]):
        """Opens them.

        Args:
          folder: made where it does not exist. What an interrupted save left there is removed.
          of: the identity of what is trained.

        Raises:
          RunError: the folder can't be made or read.
        """
        logging.getLogger("absl").setLevel(logging.CRITICAL)  # orbax tells its steps; what goes wrong it raises, too
        self.folder, self.of = folder.absolute(), of
        self._manager = self._on_first("opened", self._open)

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
            self._on_first("finished", lambda: self._open_manager.close())
        elif self._manager is not None:
            with suppress(Exception):  # what was raised before is what a person should read
                self._manager.close()

    def save(self, epoch: int, state: TrainState, seconds: float, best: Best | None = None) -> None:
        """Saves the state after an epoch, in the background.

        Args:
          epoch: its number, larger than those before.
          state: of all seeds.
          seconds: that training has taken.
          best: the best weights so far, where these are kept.

        Raises:
          RunError: it can't be written; those before are as they were.
        """
        whole = to_host(_without_key(state))
        about = {"format": FORMAT, "of": self.of, "seconds": seconds}
        items = {STATE: ocp.args.StandardSave(whole), ABOUT: ocp.args.JsonSave(about)}
        if best is not None:
            items[BEST] = ocp.args.StandardSave(best)

        def write() -> None:
            if not self._open_manager.save(epoch, args=ocp.args.Composite(**items)):
                raise OSError(f"that of epoch {epoch} was left out, since there is one of a later epoch")

        self._on_first("written", write)

    def restore_latest(self, state: TrainState, best: Best | None = None) -> Saved:
        """The last checkpoint that can be read; where there is none, what is given: `state` as before training.

        One that can't be read is put aside with a warning, so that training can write it anew.

        Args:
          state: what one looks like.
          best: the same of the best weights, where these are kept.

        Raises:
          RunError: the checkpoints are of something else, or of another format. They are left alone.
        """
        target = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), _without_key(state))
        nothing = Saved(0, target, 0.0, best)

        def read() -> Saved:
            epochs = sorted(self._open_manager.all_steps(), reverse=True)
            return next(filter(None, (self._read(epoch, target, best) for epoch in epochs)), nothing)

        found = self._on_first("read", read) or nothing
        epoch, whole, seconds, best = broadcast_from_main(
            (np.int32(found.epoch), found.state, np.float32(found.seconds), found.best)
        )
        key = jax.random.wrap_key_data(whole.key)
        return Saved(int(epoch), whole._replace(key=key) if epoch else state, float(seconds), best)

    def _read(self, epoch: int, target: Any, best: Best | None) -> Saved | None:
        """The checkpoint of an epoch; None where it is damaged, after which it is out of the way."""
        file, manager = self.folder / str(epoch), self._open_manager
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
        except Exception as error:  # a damaged file makes any kind
            aside = _free(file.with_name(f"{file.name}.unreadable"))
            file.rename(aside)
            warnings.warn(f"{file}: can't be read ({_reason(error)}); it is now {aside.name}", stacklevel=2)
            manager.reload()
            return None

    def _expect_same(self, file: Path, about: Mapping[str, Any]) -> None:
        """Raises where a checkpoint is of another format, or of something else."""
        remedy = "go on with what made it, or choose another folder"
        expect_format(file, about.get("format"), FORMAT, remedy, RunError)
        changed = differences(about["of"], self.of)
        if changed:
            why = f"{file} is a checkpoint of other data or settings; {remedy}"
            raise RunError("\n  ".join([why, *map(str, changed)]))

    @property
    def _open_manager(self) -> ocp.CheckpointManager:
        assert self._manager is not None  # in the first process
        return self._manager

    def _on_first(self, what: str, do: Callable[[], Result]) -> Result | None:
        """Does something with files in the first process; if it can't be done, that is a `RunError`, told to all."""
        result = None
        with fail_together():
            if is_main_process():
                try:
                    result = do()
                except RunError:
                    raise
                except Exception as error:  # tensorstore, orbax and the system each have their own for a full disk
                    raise RunError(
                        f"{self.folder}: checkpoints can't be {what} ({_reason(error)}); those before are kept, and "
                        "the same command goes on from them"
                    ) from error
        return result


def _free(path: Path) -> Path:
    """The path, or one with a number where that is taken."""
    taken = path.parent.glob(f"{path.name}*")
    return path.with_name(f"{path.name}{len(list(taken)) or ''}")


def _reason(error: Exception) -> str:
    """What an error says: the system's own words where they are among many of others."""
    text = str(error)
    systems = map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG))
    return next((words for words in systems if words in text), (text.splitlines() or [type(error).__name__])[0])


def _without_key(state: TrainState) -> Any:
    """The state with its random keys as plain numbers."""
    return state._replace(key=jax.random.key_data(state.key))
