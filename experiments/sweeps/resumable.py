"""A job on a machine of a SLURM cluster, where submitit calls it: it saves when its time ends, and then goes on.

This is imported there in a process that waits as long as the job runs, so it leaves jax to the job.
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
    """A job as submitit calls it, on a machine of the cluster."""

    def __init__(self, command: Sequence[str], folder: Path, retries: int):
        """Prepares it.

        Args:
          command: what to run.
          folder: of the job.
          retries: how often it is tried again where it fails.
        """
        self.command, self.folder, self.retries = command, folder, retries
        self._attempt: Attempt | None = None

    def __call__(self) -> None:
        """Runs the job, unless it is finished. Exits with a status where it fails or another process runs it."""
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
            if status in TERMINATED_CODES:  # by preemption or scancel: SLURM knows whether it is to go on
                break
        raise SystemExit(status if status > 0 else 128 - status)

    def _start(self) -> Attempt:
        from submitit import JobEnvironment

        # SLURM sends the signal for `checkpoint` to all processes of a job. It would kill the run, which has to save.
        number = getattr(signal, f"SIG{JobEnvironment.USR_SIG}")
        before = signal.signal(number, signal.SIG_IGN)
        try:
            return Attempt(self.command, self.folder)
        finally:
            signal.signal(number, before)

    def checkpoint(self) -> Any:
        """What to run when the job is queued again, once it has saved; submitit calls this ahead of a time limit."""
        from submitit.helpers import DelayedSubmission

        if self._attempt is not None:
            process = self._attempt.process
            process.terminate()
            with suppress(ChildProcessError):  # `wait`, which this interrupts, holds a lock that another would need
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return DelayedSubmission(Resumable(self.command, self.folder, self.retries))
