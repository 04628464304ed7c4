"""How several processes become one run: they meet at an address, within a time limit, or each ends with a line."""

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import jax

AUTO = "auto"  # for an address that a batch system names
ADDRESS = re.compile(r"(?:\[[\da-fA-F:.]+\]|[^\s:/\[\]]+):(\d+)")
PATIENCE = 60  # seconds more until jax itself ends a process, without a line that a person can read
OF_SLURM = ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST")


class JoinError(Exception):
    """Processes can't meet; the message says why."""


def expect_address(coordinator: str) -> None:
    """Raises `ValueError` unless that is HOST:PORT or "auto"."""
    found = ADDRESS.fullmatch(coordinator)
    if coordinator != AUTO and not (found and 0 < int(found[1]) < 1 << 16):
        raise ValueError(f"coordinator: {coordinator!r} is not allowed, expected HOST:PORT, such as node1:8476")


def join(coordinator: str, processes: int | None, process: int | None, seconds: int) -> None:
    """Makes this process one of several that run as one; ends it with status 2 where the others don't come.

    Args:
      coordinator: the first one's address, or "auto".
      processes: how many there are, where that is an address.
      process: which of them this is.
      seconds: how long to wait for the others.

    Raises:
      JoinError: the processes can't meet.
    """
    where, who = coordinator, f"process {process} of {processes}, counted from 0"
    if coordinator == AUTO:
        said = [f"{name}={os.environ[name]}" for name in OF_SLURM if name in os.environ]
        where, who = "the address that the batch system names", ", ".join(["this process", *said])
        _expect_whole_step()
    print(f"{who}: meets the others at {where} within {seconds} s, or ends", file=sys.stderr)
    try:
        with _limited(seconds, f"error: coordinator: {who}: not all came to {where} within {seconds} s; see that all"):
            jax.distributed.initialize(
                None if coordinator == AUTO else coordinator,
                processes,
                process,
                initialization_timeout=seconds + PATIENCE,
                heartbeat_timeout_seconds=60,
            )
    except (RuntimeError, ValueError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        if coordinator == AUTO:
            why = f"coordinator: no batch system says where the processes meet ({why}); give HOST:PORT"
            raise JoinError(why) from error
        raise JoinError(f"coordinator: the processes did not come together at {coordinator}: {why}") from error


def _expect_whole_step() -> None:
    """Raises where a SLURM job has more processes than its step, for which this one would wait in vain."""
    of_job, of_step = (os.environ.get(name) for name in ("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"))
    if of_job is not None and of_step is not None and of_job != of_step:
        counted = f"the job has {of_job} processes (SLURM_NTASKS), its step {of_step} (SLURM_STEP_NUM_TASKS)"
        raise JoinError(f"coordinator: {counted}; start all of them with one srun --ntasks={of_job}")


@contextmanager
def _limited(seconds: int, message: str) -> Iterator[None]:
    """Ends the process with a message where what is within takes longer; jax would abort, and say so in many lines."""

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
