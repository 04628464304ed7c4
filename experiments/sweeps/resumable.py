"""A job on a node of a SLURM cluster, called by submitit: it saves before its time limit, and is resumed later.

The process that imports this on the node only waits for the job, so nothing here imports jax.
"""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import Timeout

from .attempts import RESULTS, TERMINATED_CODES, Attempt, reason


class Resumable:
    """A job that submitit calls on a node of the cluster."""

    def __init__(self, command: Sequence[str], folder: Path, retries: int):
        """Prepares the job.

        Args:
          command: its command line.
          folder: its folder.
          retries: how often it is tried again if it fails.
        """
        self.command, self.folder, self.retries = command, folder, retries
        self._attempt: Attempt | None = None

    def __call__(self) -> None:
        """Runs the job, unless it is finished. Exits with a status if it fails, or another process runs it."""
        if (self.folder / RESULTS).exists():
            return
        for _ in range(self.retries + 1):
            try:
                self._attempt = self._start()
            except Timeout:
                print(f"{self.folder}: left to another process, which runs it", flush=True)
                raise SystemExit(os.EX_TEMPFAIL) from None
            status = self._attempt.wait()
            if status == 0:
                return
            print(f"{self.folder}: {reason(self.folder, status)}", flush=True)
            if status in TERMINATED_CODES:  # by preemption or scancel: SLURM decides whether it is resumed
                break
        raise SystemExit(status if status > 0 else 128 - status)

    def _start(self) -> Attempt:
        from submitit import JobEnvironment

        # SLURM sends the signal that calls `checkpoint` to all processes of a job. It would kill the run.
        number = getattr(signal, f"SIG{JobEnvironment.USR_SIG}")
        before = signal.signal(number, signal.SIG_IGN)
        try:
            return Attempt(self.command, self.folder)
        finally:
            signal.signal(number, before)

    def checkpoint(self) -> Any:
        """Saves, and returns what the job runs when it is queued again; submitit calls this before the time limit."""
        from submitit.helpers import DelayedSubmission

        if self._attempt is not None:
            process = self._attempt.process
            process.terminate()
            with suppress(ChildProcessError):  # a second `wait` would need the lock of the one that this interrupts
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return DelayedSubmission(Resumable(self.command, self.folder, self.retries))
