"""Checkpoints of one stage of training: saved in the background, the last ones and the best kept, none half-written."""

import errno
import logging
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import AnyPreservationPolicy, BestN, LatestN

from jattn.parallel import fetch, is_first, share
from jattn.runs import RunError
from jattn.training import State

LAST = 2  # checkpoints that are kept besides the best: should one not be readable, there is another
STATE, ABOUT = "state", "about"  # the two items of a checkpoint

Result = TypeVar("Result")


class Saved(NamedTuple):
    """What a checkpoint holds.

    Attributes:
      epoch: after which it was saved; 0 for the state before the first.
      state: of all seeds, numpy arrays.
      seconds: that training had taken until then.
    """

    epoch: int
    state: State
    seconds: float


class Checkpoints:
    """The checkpoints of a stage, in a folder with one of its own for each epoch. A context manager.

    Where several processes run as one, the first of them reads and writes, and tells the others what it read.
    """

    def __init__(self, folder: Path, of: str):
        """Opens them.

        Args:
          folder: made where it does not exist. What an interrupted save left there is removed.
          of: what is trained, such as a hash. Checkpoints of something else are removed when it comes to reading them.
        """
        logging.getLogger("absl").setLevel(logging.CRITICAL)  # orbax tells its steps; what goes wrong it raises, too
        self.folder, self.of = folder.absolute(), of
        self._manager = self._open() if is_first() else None

    def _open(self) -> ocp.CheckpointManager:
        def score(metrics: Any) -> float:
            return metrics["score"]

        best = BestN(get_metric_fn=score, n=1, keep_checkpoints_without_metrics=False)
        options = ocp.CheckpointManagerOptions(
            best_fn=score,  # or else scores are not written
            preservation_policy=AnyPreservationPolicy([LatestN(LAST), best]),
            create=False,
            cleanup_tmp_directories=True,
            multiprocessing_options=ocp.options.MultiprocessingOptions(
                primary_host=0, active_processes={0}, barrier_sync_key_prefix="first"
            ),
        )

        def opened() -> ocp.CheckpointManager:
            self.folder.mkdir(parents=True, exist_ok=True)
            return ocp.CheckpointManager(self.folder, options=options)

        return self._trying("opened", opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._manager is not None:
            try:
                self._trying("finished", self._manager.close)
            except RunError:
                if kind is None:  # or else that is what a person should read
                    raise

    def save(self, epoch: int, state: State, seconds: float, score: float | None = None) -> None:
        """Saves the state after an epoch, in the background.

        Args:
          epoch: its number, larger than those before.
          state: of all seeds.
          seconds: that training has taken.
          score: how good it is, where the best is to be kept.

        Raises:
          RunError: it can't be written; those before are as they were.
        """
        whole = fetch(_without_key(state))
        if self._manager is None:
            return
        about = {"of": self.of, "seconds": seconds}
        items = {STATE: ocp.args.StandardSave(whole), ABOUT: ocp.args.JsonSave(about)}
        metrics = None if score is None else {"score": score}
        manager = self._manager
        self._trying("written", lambda: manager.save(epoch, args=ocp.args.Composite(**items), metrics=metrics))

    def last(self, state: State) -> Saved:
        """The last checkpoint that can be read; where there is none, `state`, the one before training.

        Those that can't be read are removed with a warning, so that training can write them anew.
        """
        manager = self._manager

        def read(target: State) -> Saved | None:
            assert manager is not None
            epochs = sorted(manager.all_steps(), reverse=True)
            return next(filter(None, map(self._reader(target), epochs)), None)

        return self._told(state, read)

    def best(self, state: State) -> Saved:
        """The checkpoint of the highest score, of equal ones the last; `state` says what it looks like.

        Raises:
          RunError: it can't be read.
        """
        manager = self._manager

        def read(target: State) -> Saved | None:
            assert manager is not None
            manager.wait_until_finished()
            metrics = {epoch: manager.metrics(epoch) for epoch in manager.all_steps()}
            scored = [(of["score"], epoch) for epoch, of in metrics.items() if of is not None]
            found = self._reader(target)(max(scored)[1]) if scored else None
            if found is None:
                raise RunError(f"{self.folder}: the best checkpoint can't be read; remove the folder to train anew")
            return found

        return self._told(state, read)

    def _told(self, state: State, read: Callable[[State], Saved | None]) -> Saved:
        """What the first process reads, told to all."""
        target = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), _without_key(state))
        nothing = Saved(0, target, 0.0)
        found = (read(target) or nothing) if self._manager is not None else nothing
        epoch, whole, seconds = share((np.int32(found.epoch), found.state, np.float32(found.seconds)))
        key = jax.random.wrap_key_data(whole.key)
        return Saved(int(epoch), whole._replace(key=key), float(seconds)) if epoch else Saved(0, state, 0.0)

    def _reader(self, target: State) -> Callable[[int], Saved | None]:
        """A function that reads the checkpoint of an epoch, or removes it: one that is damaged or of something else."""

        def read(epoch: int) -> Saved | None:
            manager = self._manager
            assert manager is not None
            why = "is of other data or settings"
            try:
                about = manager.restore(epoch, args=ocp.args.Composite(**{ABOUT: ocp.args.JsonRestore()}))[ABOUT]
                if about["of"] == self.of:
                    found = manager.restore(epoch, args=ocp.args.Composite(**{STATE: ocp.args.StandardRestore(target)}))
                    return Saved(epoch, found[STATE], about["seconds"])
            except Exception as error:  # a damaged file makes any kind
                why = f"can't be read ({_reason(error)})"
            warnings.warn(f"{self.folder / str(epoch)}: {why}; it is removed", stacklevel=2)
            self._trying("removed", lambda: shutil.rmtree(self.folder / str(epoch)))
            manager.reload()
            return None

        return read

    def _trying(self, what: str, do: Callable[[], Result]) -> Result:
        """Does something with files; if it can't be done, that is a `RunError`."""
        try:
            return do()
        except Exception as error:  # tensorstore, orbax and the system each have their own for a full disk
            raise RunError(
                f"{self.folder}: checkpoints can't be {what} ({_reason(error)}); those before are kept, and the same "
                "command goes on from them"
            ) from error


def _reason(error: Exception) -> str:
    """What an error says: the system's own words where they are among many of others."""
    text = str(error)
    systems = map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG))
    return next((words for words in systems if words in text), (text.splitlines() or [type(error).__name__])[0])


def _without_key(state: State) -> Any:
    """The state with its random keys as plain numbers."""
    return state._replace(key=jax.random.key_data(state.key))
