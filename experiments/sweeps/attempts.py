"""Attempts at a job, each a process, and the state of a job as its folder shows it.

Besides the files of its run, a job's folder has

log.txt    the output of all attempts, each after a line with its command
job.lock   held by the process that runs the job
status     exit status of the last attempt, once that has ended; negative if a signal killed it
"""

import os
import shlex
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

State = Literal["done", "running", "failed", "waiting"]
TERMINATED_CODES = (128 + signal.SIGTERM, -signal.SIGTERM)  # of attempts that were asked to end, which is no failure
TAIL = 4096  # bytes at the end of a log in which its last line is searched
RESULTS = "results.json"  # as in `run.folder`, whose import brings jax: a process that waits for a job does without
LOCK_TIMEOUT_S = 1.0  # within which a process that only tests a lock has released it


class Attempt:
    """A process that runs a job, with the job's lock for as long as it runs."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        cores: Collection[int] = (),
        apart: bool = False,
    ):
        """Starts the process.

        Args:
          command: the command line.
          folder: the job's folder; made if it does not exist.
          environment: variables to set.
          cores: CPU cores to run on; all if empty.
          apart: keep the terminal's Ctrl-C from the process.

        Raises:
          Timeout: another process runs the job.
          OSError: the folder can't be written, or the process can't be started.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        with ExitStack() as held:
            held.enter_context(FileLock(folder / "job.lock", timeout=LOCK_TIMEOUT_S))
            if _locked(folder / ".lock"):  # the run is alive although the process that started it is gone
                raise Timeout(str(folder / ".lock"))
            (folder / "status").unlink(missing_ok=True)
            with (folder / "log.txt").open("a", encoding="utf-8") as log:
                log.write(f"[{datetime.now():%Y-%m-%d %H:%M:%S}] {shlex.join(command)}\n")
                log.flush()
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environment or {})},
                    process_group=0 if apart else None,
                )
            if cores and hasattr(os, "sched_setaffinity"):  # before it starts other threads
                os.sched_setaffinity(self.process.pid, cores)
            self._held = held.pop_all()

    def wait(self) -> int:
        """Waits until the process ends and returns its exit status; 1 if it ended well without results."""
        with self._held:
            status = self.process.wait()
            if status == 0 and not (self.folder / RESULTS).exists():
                status = 1
            with suppress(OSError):  # a full disk fails this job alone
                (self.folder / "status").write_text(f"{status}\n", "utf-8")
        return status


def state(folder: Path) -> State:
    """Returns the state of a job. One that was interrupted, or never started, is waiting."""
    if (folder / RESULTS).exists():
        return "done"
    if _locked(folder / "job.lock") or _locked(folder / ".lock"):
        return "running"
    return "waiting" if last_status(folder) in (None, *TERMINATED_CODES) else "failed"


def last_status(folder: Path) -> int | None:
    """Returns the exit status of a job's last attempt; None if it has not ended, or there was none."""
    try:
        return int((folder / "status").read_text("utf-8"))
    except (OSError, ValueError):
        return None


def reason(folder: Path, status: int | None) -> str:
    """Returns why a job failed: the exit status of its last attempt, and the last line of its log."""
    if status is None:
        return "ended without a status"
    last = "its log is missing"
    with suppress(FileNotFoundError), (folder / "log.txt").open("rb") as log:
        log.seek(max(log.seek(0, os.SEEK_END) - TAIL, 0))
        lines = log.read().decode("utf-8", errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{f'status {status}' if status >= 0 else f'killed by {signal.Signals(-status).name}'}: {last}"


def _locked(file: Path) -> bool:
    """Whether a process holds a lock; tests it by taking it for a moment."""
    if not file.exists():
        return False
    try:
        with FileLock(file, timeout=0):
            return False
    except (Timeout, OSError):
        return True
