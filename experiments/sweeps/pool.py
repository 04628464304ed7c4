"""Jobs on this machine: as many at once as it has GPUs or CPU cores, each confined to a slice of them."""

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
GPU_MEMORY_FRACTION = 0.9  # of a GPU's memory, shared by its jobs; CUDA itself needs the rest
FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")  # jax reads either


class DeviceSlice(NamedTuple):
    """The devices of one of the jobs that run at once.

    Attributes:
      environment: variables that confine jax to them.
      cores: CPU cores; all if empty.
    """

    environment: Mapping[str, str]
    cores: tuple[int, ...] = ()


def device_slices(jobs: int | None) -> list[DeviceSlice]:
    """Returns one slice for each of the jobs that run at once.

    GPUs are assigned in turn, and jobs on the same GPU share its memory. Without GPUs, each job has its own CPU cores.

    Args:
      jobs: the number of jobs; None for one per GPU, or per CPU core without GPUs.
    """
    gpus = _gpus()
    if not gpus:
        cores = (
            sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
        )
        jobs = jobs or len(cores)
        parts = [cores[i * len(cores) // jobs : (i + 1) * len(cores) // jobs] for i in range(jobs)]
        slices = [tuple(part) or (cores[i % len(cores)],) for i, part in enumerate(parts)]
        return [DeviceSlice({"JAX_NUM_CPU_DEVICES": str(len(part))}, part) for part in slices]
    jobs = jobs or len(gpus)
    jobs_per_gpu = -(-jobs // len(gpus))
    memory = {}
    if jobs_per_gpu > 1 and not any(map(os.environ.get, FRACTIONS)):
        memory = {FRACTIONS[1]: f"{GPU_MEMORY_FRACTION / jobs_per_gpu:.3f}"}
    return [DeviceSlice({"CUDA_VISIBLE_DEVICES": gpus[i % len(gpus)], **memory}) for i in range(jobs)]


def _gpus() -> list[str]:
    """Returns the GPUs that jobs may use, by their names in CUDA_VISIBLE_DEVICES."""
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
    """Runs jobs until all have ended, or a signal stops it."""

    def __init__(
        self, commands: Mapping[str, Sequence[str]], out: Path, slices: Sequence[DeviceSlice], retries: int, quiet: bool
    ):
        """Prepares the jobs.

        Args:
          commands: the command line of each job, by name.
          out: the folder of the jobs' folders.
          slices: the devices of each of the jobs that may run at once.
          retries: how often a failed job is tried again.
          quiet: show nothing.
        """
        self._commands, self._out, self._retries = commands, out, retries
        self._waiting = deque((name, 0) for name in commands)
        self._free, self._running = deque(slices), list[_Running]()
        self._ended, self._failures = 0, dict[str, str]()
        self._quiet = quiet
        self._bar = tqdm(total=len(commands), desc="sweep", unit="job", disable=quiet or not sys.stderr.isatty())

    def run(self) -> tuple[dict[str, str], int | None]:
        """Runs all jobs.

        On Ctrl-C, SIGTERM and SIGHUP, running jobs are asked to save and end; it waits until they have.

        Returns:
          The reason for each job that failed, by name, and the number of the signal that stopped it, if any.
        """
        with _noted_signal() as stop_signal, self._bar:
            try:
                while (self._waiting or self._running) and stop_signal() is None:
                    self._start()
                    time.sleep(POLL)
                    self._collect()
                    self._bar.refresh()  # its clock shows that long jobs are alive
            finally:
                self._stop()
            return self._failures, stop_signal()

    def _start(self) -> None:
        """Starts waiting jobs while slices are free."""
        while self._waiting and self._free:
            name, failed = self._waiting.popleft()
            devices = self._free.popleft()
            try:
                attempt = Attempt(
                    self._commands[name], self._out / name, devices.environment, devices.cores, apart=True
                )
            except (Timeout, OSError) as error:
                self._free.append(devices)
                if isinstance(error, Timeout):
                    self._show(f"{name}: left to another process, which runs it")
                else:
                    self._fail(name, failed, str(error))
            else:
                self._running.append(_Running(name, failed, attempt, devices, time.monotonic()))

    def _collect(self) -> None:
        """Collects the jobs that have ended."""
        for running in [running for running in self._running if running.attempt.process.poll() is not None]:
            self._running.remove(running)
            self._free.append(running.devices)
            status = running.attempt.wait()
            if status == 0:
                self._show(f"{running.name}: finished after {time.monotonic() - running.start:.0f} s")
            else:
                self._fail(running.name, running.failed, reason(self._out / running.name, status))

    def _fail(self, name: str, failed: int, why: str) -> None:
        """Queues a failed job again, at the end, or gives it up."""
        if failed < self._retries:
            self._waiting.append((name, failed + 1))
            self._show(f"{name}: {why}; it is tried again", ended=0)
        else:
            self._failures[name] = why
            self._show(f"{name}: failed, {why}")

    def _stop(self) -> None:
        """Asks running jobs to save and end, and waits until they have."""
        for running in self._running:
            running.attempt.process.terminate()
        if self._running:
            self._show(f"asked {len(self._running)} running jobs to save and end; waiting for them", ended=0)
        for running in self._running:
            running.attempt.wait()

    def _show(self, text: str, ended: int = 1) -> None:
        """Shows a line, and the number of jobs that have ended."""
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
    failed: int  # earlier attempts
    attempt: Attempt
    devices: DeviceSlice
    start: float  # seconds of a monotonic clock


@contextmanager
def _noted_signal() -> Iterator[Callable[[], int | None]]:
    """Within, Ctrl-C, SIGTERM and SIGHUP are only noted: yields a function that returns the first of them, if any."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # A signal that is ignored stays ignored, as SIGHUP is under nohup.
    with handling(note, [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]):
        yield lambda: came[0] if came else None
