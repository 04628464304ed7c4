"""Jobs on this machine: as many at once as there is room for, each confined to its share of GPUs or CPU cores."""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from filelock import Timeout
from tqdm import tqdm

from ..run.signals import handling
from .attempts import Attempt, reason

POLL = 0.1  # seconds between looks at the running jobs
GPU_MEMORY_FRACTION = 0.9  # the part of a GPU's memory that jobs share; the rest is for what CUDA itself needs
FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")  # jax takes one of the two


class DeviceSlice(NamedTuple):
    """What one of the jobs that run at once may use.

    Attributes:
      environment: variables that tell jax so.
      cores: CPU cores; all where there are none.
    """

    environment: Mapping[str, str]
    cores: tuple[int, ...] = ()


def device_slices(jobs: int | None) -> list[DeviceSlice]:
    """A share for each of the jobs that run at once.

    With GPUs, jobs go to them in turn, and those on the same GPU share its memory. Without, each has cores of its own.

    Args:
      jobs: how many; as many as there are GPUs, or else cores, where None.
    """
    gpus = _gpus()
    if not gpus:
        cores = (
            sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
        )
        jobs = jobs or len(cores)
        parts = [cores[i * len(cores) // jobs : (i + 1) * len(cores) // jobs] for i in range(jobs)]
        own = [tuple(part) or (cores[i % len(cores)],) for i, part in enumerate(parts)]
        return [DeviceSlice({"JAX_NUM_CPU_DEVICES": str(len(part))}, part) for part in own]
    jobs = jobs or len(gpus)
    on_one = -(-jobs // len(gpus))
    memory = (
        {FRACTIONS[1]: f"{GPU_MEMORY_FRACTION / on_one:.3f}"}
        if on_one > 1 and not any(map(os.environ.get, FRACTIONS))
        else {}
    )
    return [DeviceSlice({"CUDA_VISIBLE_DEVICES": gpus[i % len(gpus)], **memory}) for i in range(jobs)]


def _gpus() -> list[str]:
    """The GPUs that jobs may use, as CUDA_VISIBLE_DEVICES names them."""
    if os.environ.get("JAX_PLATFORMS", "").startswith("cpu"):
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [gpu.strip() for gpu in visible.split(",") if gpu.strip() not in ("", "-1")]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, encoding="utf-8", check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [str(i) for i in range(sum(line.startswith("GPU ") for line in listed.splitlines()))]


class JobPool:
    """Runs jobs until all have ended, or until it is asked to end."""

    def __init__(
        self, commands: Mapping[str, Sequence[str]], out: Path, shares: Sequence[DeviceSlice], retries: int, quiet: bool
    ):
        """Prepares it.

        Args:
          commands: of each job, by name.
          out: has the jobs' folders.
          shares: one for each job that may run at once.
          retries: how often a job that failed is tried again.
          quiet: show nothing.
        """
        self._commands, self._out, self._retries = commands, out, retries
        self._waiting = deque((name, 0) for name in commands)
        self._free, self._running = deque(shares), list[_Running]()
        self._ended, self._failures = 0, dict[str, str]()
        self._quiet = quiet
        self._bar = tqdm(total=len(commands), desc="sweep", unit="job", disable=quiet or not sys.stderr.isatty())

    def run(self) -> tuple[dict[str, str], int | None]:
        """Runs them all; for those that failed in the end, why, and the signal by which it was asked to end.

        Ctrl-C, SIGTERM and the end of its terminal ask all running jobs to save and end, which it waits for.
        """
        with _asked_to_end() as asked, self._bar:
            try:
                while (self._waiting or self._running) and asked() is None:
                    self._start()
                    time.sleep(POLL)
                    self._look()
                    self._bar.refresh()  # its clock shows that there is life in long jobs
            finally:
                self._stop()
            return self._failures, asked()

    def _start(self) -> None:
        """Starts jobs while there is room."""
        while self._waiting and self._free:
            name, failed = self._waiting.popleft()
            share = self._free.popleft()
            try:
                attempt = Attempt(self._commands[name], self._out / name, share.environment, share.cores, apart=True)
            except (Timeout, OSError) as error:
                self._free.append(share)
                if isinstance(error, Timeout):
                    self._show(f"{name}: left to another process, which runs it")
                else:
                    self._fail(name, failed, str(error))
            else:
                self._running.append(_Running(name, failed, attempt, share, time.monotonic()))

    def _look(self) -> None:
        """Takes note of jobs that have ended."""
        for running in [running for running in self._running if running.attempt.process.poll() is not None]:
            self._running.remove(running)
            self._free.append(running.share)
            status = running.attempt.wait()
            if status == 0:
                self._show(f"{running.name}: finished after {time.monotonic() - running.start:.0f} s")
            else:
                self._fail(running.name, running.failed, reason(self._out / running.name, status))

    def _fail(self, name: str, failed: int, why: str) -> None:
        """Puts a job that failed last in line, or gives it up."""
        if failed < self._retries:
            self._waiting.append((name, failed + 1))
            self._show(f"{name}: {why}; it is tried again", ended=0)
        else:
            self._failures[name] = why
            self._show(f"{name}: failed, {why}")

    def _stop(self) -> None:
        """Asks running jobs to end, and waits until they have."""
        for running in self._running:
            running.attempt.process.terminate()
        if self._running:
            self._show(f"asked {len(self._running)} running jobs to save and end; waiting for them", ended=0)
        for running in self._running:
            running.attempt.wait()

    def _show(self, text: str, ended: int = 1) -> None:
        """Shows a line, and how many jobs have ended."""
        self._ended += ended
        if self._quiet:
            return
        counts = f"{len(self._failures)} failed"
        self._bar.set_postfix_str(counts, refresh=False)
        self._bar.update(ended)
        where = f" ({self._ended} of {len(self._commands)} jobs, {counts})" if self._bar.disable and ended else ""
        self._bar.write(f"{text}{where}", file=sys.stderr)


class _Running(NamedTuple):
    name: str
    failed: int  # attempts before
    attempt: Attempt
    share: DeviceSlice
    start: float  # seconds of a clock


@contextmanager
def _asked_to_end() -> Iterator[Callable[[], int | None]]:
    """Within, Ctrl-C, SIGTERM and SIGHUP wait: yields a function that says which came first, if any did."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # One that is ignored stays so, as SIGHUP under nohup.
    with handling(note, [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]):
        yield lambda: came[0] if came else None
