"""Joining: several processes become one run at an address within a time limit, or each ends with a line."""

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

AUTO = "auto"  # the address that a batch system names
ADDRESS = re.compile(r"(?:\[[\da-fA-F:.]+\]|[^\s:/\[\]]+):(\d+)")
GRACE = 60  # seconds after the time limit until jax itself ends a process, with many lines
SLURM_VARIABLES = ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST")


class JoinError(Exception):
    """The processes can't meet; the message says why."""


def expect_address(coordinator: str) -> None:
    """Raises `ValueError` unless the coordinator is HOST:PORT or "auto"."""
    address = ADDRESS.fullmatch(coordinator)
    if coordinator != AUTO and not (address and 0 < int(address[1]) < 1 << 16):
        raise ValueError(f"coordinator: {coordinator!r} is not allowed, expected HOST:PORT, such as node1:8476")


def join(coordinator: str, processes: int | None, process: int | None, seconds: int) -> None:
    """Makes this process one of several that run as one; ends it with status 2 if the others do not come in time.

    Args:
      coordinator: the address of the first process, or "auto".
      processes: the number of processes, if `coordinator` is an address.
      process: the index of this process.
      seconds: the time to wait for the others.

    Raises:
      JoinError: the processes can't meet.
    """
    import jax

    where, who = coordinator, f"process {process} of {processes}, counted from 0"
    if coordinator == AUTO:
        variables = [f"{name}={os.environ[name]}" for name in SLURM_VARIABLES if name in os.environ]
        where, who = "the address that the batch system names", ", ".join(["this process", *variables])
        _expect_whole_step()
    print(f"{who}: meets the others at {where} within {seconds} s, or ends", file=sys.stderr)
    try:
        late = f"error: --coordinator: {who}: not all came to {where} within {seconds} s; see that all"
        with _limited(seconds, late):
            jax.distributed.initialize(
                None if coordinator == AUTO else coordinator,
                processes,
                process,
                initialization_timeout=seconds + GRACE,
                heartbeat_timeout_seconds=60,
            )
    except (RuntimeError, ValueError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        if coordinator == AUTO:
            why = f"--coordinator: no batch system says where the processes meet ({why}); give HOST:PORT"
            raise JoinError(why) from error
        raise JoinError(f"--coordinator: the processes did not come together at {coordinator}: {why}") from error


def _expect_whole_step() -> None:
    """Raises a `JoinError` if a SLURM job has other processes than this step, which would wait for them in vain."""
    job, step = (os.environ.get(name) for name in ("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"))
    if job is not None and step is not None and job != step:
        counts = f"the job has {job} processes (SLURM_NTASKS), its step {step} (SLURM_STEP_NUM_TASKS)"
        raise JoinError(f"--coordinator: {counts}; start all of them with one srun --ntasks={job}")


@contextmanager
def _limited(seconds: int, message: str) -> Iterator[None]:
    """Within, ends the process with a message after some seconds; jax would abort with many lines."""

    def end() -> None:
        print(f"{message} are started and can reach it, or set --coordinator-timeout", file=sys.stderr, flush=True)
        os._exit(2)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
