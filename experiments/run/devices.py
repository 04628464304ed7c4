"""Where a run is kept, its devices and processes, and the start of jax. None of it changes results."""

import os
import re
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from jattn._options import expect_at_least, setting
from jattn.datasets._cache_folder import cache_folder

from .errors import fail
from .groups import Checked
from .joining import AUTO, JoinError, expect_address, join
from .paths import run_folder

if TYPE_CHECKING:  # a command line is read without jax
    import jax

TRY_AGAIN = 75  # exit status of a failure that another attempt may not meet (os.EX_TEMPFAIL on Unix)


@dataclass(frozen=True)
class RunSettings(Checked):
    """Where a run is kept, what it shows, and its devices; none of it changes results."""

    out: Path | None = setting(None, "nothing")
    """Folder of the run; by default a new one under runs/. To resume an unfinished run, repeat its command with the
    same folder: it continues from its last checkpoint."""
    devices: int | Literal["all"] = setting("all", "nothing")
    """Devices to use: GPUs or TPU cores, or else CPU cores."""
    checkpoint_every: int = setting(10, "nothing", unless="best")
    """Epochs between checkpoints. One is also saved when the program is asked to end (SIGTERM, Ctrl-C)."""
    tensorboard: bool = setting(False, "nothing")
    """Also write the metrics as TensorBoard event files, into the run's folder. Needs the extra "tensorboard"."""
    quiet: bool = setting(False, "nothing")
    """Show only errors and the final table."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        if self.out is not None:
            object.__setattr__(self, "out", run_folder("out", self.out))
        super().validate()
        expect_at_least(1, devices=None if self.devices == "all" else self.devices)
        expect_at_least(1, checkpoint_every=self.checkpoint_every)


@dataclass(frozen=True)
class ProcessSettings(Checked):
    """Several processes, each with its own devices, that train as one."""

    coordinator: str | None = setting(None, "nothing")
    """Address of the first process as HOST:PORT, the same for all; "auto" in a SLURM job and on a TPU pod. Without it
    there is one process."""
    coordinator_timeout: int = setting(300, "nothing")
    """Seconds that processes wait for each other at the start before they give up."""
    processes: int | None = setting(None, "nothing")
    """Number of processes, if --coordinator is an address."""
    process: int | None = setting(None, "nothing")
    """Index of this process, counted from 0; only the first one writes files."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        super().validate()
        expect_at_least(1, coordinator_timeout=self.coordinator_timeout, processes=self.processes)
        expect_at_least(0, process=self.process)
        if self.coordinator is not None:
            expect_address(self.coordinator)
        addressed = self.coordinator not in (None, AUTO)
        for name in ("processes", "process"):
            if (getattr(self, name) is not None) != addressed:
                raise ValueError(f"{name}: give it together with --coordinator HOST:PORT, and not without")
        if self.processes is not None and self.process is not None and self.process >= self.processes:
            raise ValueError(f"process: {self.process} is not allowed, expected 0 to {self.processes - 1}")


def configure_jax(run: RunSettings = RunSettings(), processes: ProcessSettings = ProcessSettings()) -> None:
    """Starts jax with the requested devices and processes, and keeps compiled programs for later runs.

    Without a GPU or TPU, every CPU core is a device, so that seeds run side by side. Compiled programs are kept in
    JAX_COMPILATION_CACHE_DIR, or else in the user's cache folder. Call it before jax is used.

    Exits with a message if there are fewer devices, or none of the kind that JAX_PLATFORMS asks for, or if the
    processes do not find each other.
    """
    import jax

    cores = _cpu_devices()
    with suppress(RuntimeError):  # jax has started already, as in a notebook: its devices are what they are
        jax.config.update("jax_num_cpu_devices", cores if run.devices == "all" else min(run.devices, cores))
        if run.devices != "all":
            for kind in ("cuda", "rocm"):
                jax.config.update(f"jax_{kind}_visible_devices", ",".join(map(str, range(run.devices))))
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        try:
            jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "xla"))
        except OSError as error:
            fail(str(error))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    if processes.coordinator is not None:
        try:
            join(processes.coordinator, processes.processes, processes.process, processes.coordinator_timeout)
        except JoinError as error:
            fail(str(error))
    devices = _find_devices()
    if run.devices not in ("all", len(devices)):
        available = f"this machine has {len(devices)} ({devices[0].platform})"
        fail(f"--devices: {run.devices} requested, but {available}; say --devices all, or up to that number")


def _cpu_devices() -> int:
    """The number of CPU devices to make if all are requested: JAX_NUM_CPU_DEVICES, or else the CPU cores."""
    from joblib import cpu_count

    requested = os.environ.get("JAX_NUM_CPU_DEVICES", "")
    if requested and int(requested) < 1:  # jax has refused what is no number when it was imported
        fail(f"JAX_NUM_CPU_DEVICES={requested}: expected at least 1; this machine has {cpu_count()} CPU cores")
    return int(requested) if requested else cpu_count()


def _find_devices() -> "list[jax.Device]":
    """The devices of the platform that JAX_PLATFORMS names, or else of the best one."""
    import jax

    try:
        devices = jax.devices()
    except (RuntimeError, AssertionError) as error:  # AssertionError: jax knows no driver of that kind
        requested, why = os.environ.get("JAX_PLATFORMS"), str(error).split("\n")[0]
        if not requested:
            fail(f"jax finds no device: {why}")
        jax.config.update("jax_platforms", None)
        available = ", ".join(sorted({device.platform for device in jax.devices()}))
        reason = f" ({why})" if why else ""
        fail(f"JAX_PLATFORMS={requested}: jax finds no such device here, but {available}; unset the variable{reason}")
    return devices


def is_xla_error(error: Exception) -> bool:
    """Whether XLA raised an error, as when another process is gone: its messages begin with a status."""
    import jax

    return isinstance(error, jax.errors.JaxRuntimeError) or re.match("[A-Z_]+: ", str(error)) is not None


def exit_process_lost(reason: str) -> NoReturn:
    """Ends this process at once with status 75, because another process of the run was lost."""
    line = f"error: another process was lost ({reason}); start all of them again to resume the run"
    print(line, file=sys.stderr, flush=True)
    os._exit(TRY_AGAIN)  # jax's handlers at exit would wait for the lost process, then abort


def exit_for_others(error: Exception) -> NoReturn:
    """Ends this process at once with an error that the other processes do not know of; they notice that it is gone."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(1)  # jax's handlers at exit would wait for the others, which wait for this process
