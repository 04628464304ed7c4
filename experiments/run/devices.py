"""How and where a run runs: its folder, devices and processes, what is shown. None of it changes what is trained."""

import os
import re
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, NoReturn

import jax
from joblib import cpu_count

from jattn._options import expect_at_least, setting
from jattn.datasets.download import cache_folder

from .errors import fail
from .joining import AUTO, JoinError, expect_address, join
from .paths import local_path, run_folder

TRY_AGAIN = 75  # the exit status of what went wrong by no fault of its own; os.EX_TEMPFAIL where there are such names


@dataclass(frozen=True)
class RunOptions:
    """Settings of how and where a run runs."""

    out: Path | None = setting(None, "nothing")
    """Folder of the run; a new one under runs/ where not given. Where it holds an unfinished run of the same settings,
    that goes on from its last checkpoint."""
    devices: int | Literal["all"] = setting("all", "nothing")
    """Devices to use: GPUs or TPU cores, or else CPU cores."""
    checkpoint_every: int = setting(10, "nothing", unless="best")
    """Epochs between checkpoints. One is also saved when the program is asked to end (SIGTERM, Ctrl-C)."""
    tensorboard: bool = setting(False, "nothing")
    """Write the metrics also as TensorBoard's event files, into the run's folder. Needs the extra "tensorboard"."""
    quiet: bool = setting(False, "nothing")
    """Show nothing but errors and the table at the end."""
    coordinator: str | None = setting(None, "nothing")
    """Where several processes, each with its own devices, run as one: the first one's address as HOST:PORT, the same
    for all; or "auto" in a SLURM job and on a TPU pod."""
    coordinator_timeout: int = setting(300, "nothing")
    """Seconds that processes wait for each other at the start before they give up."""
    processes: int | None = setting(None, "nothing")
    """How many processes there are, where --coordinator is an address."""
    process: int | None = setting(None, "nothing")
    """Which of them this is, counted from 0; the first one alone writes files."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if isinstance(path := getattr(self, field.name), Path):
                checked = run_folder("out", path) if field.name == "out" else local_path(field.name, path)
                object.__setattr__(self, field.name, checked)
        expect_at_least(1, devices=None if self.devices == "all" else self.devices)
        expect_at_least(1, checkpoint_every=self.checkpoint_every, processes=self.processes)
        expect_at_least(0, process=self.process)
        expect_at_least(1, coordinator_timeout=self.coordinator_timeout)
        if self.coordinator is not None:
            expect_address(self.coordinator)
        addressed = self.coordinator not in (None, AUTO)
        for name in ("processes", "process"):
            if (getattr(self, name) is not None) != addressed:
                raise ValueError(f"{name}: give it together with --coordinator HOST:PORT, and not without")
        if self.processes is not None and self.process is not None and self.process >= self.processes:
            raise ValueError(f"process: {self.process} is not allowed, expected 0 to {self.processes - 1}")
        if self.coordinator is not None and self.devices != "all":
            raise ValueError("devices: several processes use all that each of them has; leave it out")


def configure_jax(running: RunOptions = RunOptions()) -> None:
    """Starts jax with the devices and processes asked for, and lets it keep compiled programs for later runs.

    Where there is no GPU or TPU, every CPU core is a device, so that seeds run side by side. Compiled programs are kept
    where JAX_COMPILATION_CACHE_DIR says, or else in the user's cache folder. Call it before jax is used.

    Exits with a message where there are not so many devices or none of the kind that JAX_PLATFORMS asks for, or where
    the processes don't find each other.
    """
    cores = _cores()
    with suppress(RuntimeError):  # jax has started already, as in a notebook: its devices are what they are
        jax.config.update("jax_num_cpu_devices", cores if running.devices == "all" else min(running.devices, cores))
        if running.devices != "all":
            for kind in ("cuda", "rocm"):
                jax.config.update(f"jax_{kind}_visible_devices", ",".join(map(str, range(running.devices))))
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        try:
            jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "xla"))
        except OSError as error:
            fail(str(error))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    if running.coordinator is not None:
        try:
            join(running.coordinator, running.processes, running.process, running.coordinator_timeout)
        except JoinError as error:
            fail(str(error))
    found = _found_devices()
    if running.devices not in ("all", len(found)):
        has = f"this machine has {len(found)} ({found[0].platform})"
        fail(f"devices: {running.devices} asked for, but {has}; say --devices all, or up to that number")


def _cores() -> int:
    """CPU devices to make where all are asked for: those that a variable says, or else the CPU cores."""
    said = os.environ.get("JAX_NUM_CPU_DEVICES", "")
    if said and int(said) < 1:  # that it is a number is what jax looked at when it was imported
        fail(f"JAX_NUM_CPU_DEVICES={said}: expected at least 1; this machine has {cpu_count()} CPU cores")
    return int(said) if said else cpu_count()


def _found_devices() -> list[jax.Device]:
    """The devices of the platform that JAX_PLATFORMS asks for, or else of the best one."""
    try:
        found = jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter where jax knows no driver of that kind
        asked, why = os.environ.get("JAX_PLATFORMS"), str(error).split("\n")[0]
        if not asked:
            fail(f"jax finds no device: {why}")
        jax.config.update("jax_platforms", None)
        there = ", ".join(sorted({device.platform for device in jax.devices()}))
        reason = f" ({why})" if why else ""
        fail(f"JAX_PLATFORMS={asked}: jax finds no such device here, but {there}; unset the variable{reason}")
    return found


def is_of_xla(error: Exception) -> bool:
    """Whether XLA raised an error, as it does where another process is gone: its messages begin with a status."""
    return isinstance(error, jax.errors.JaxRuntimeError) or re.match("[A-Z_]+: ", str(error)) is not None


def abort_process(reason: str) -> NoReturn:
    """Ends this process, one of several of which another was lost, without waiting for the others; status 75."""
    told = f"error: another process was lost ({reason}); start all again, and the run goes on"
    print(told, file=sys.stderr, flush=True)
    os._exit(TRY_AGAIN)  # what jax does at the end of a program would wait for the lost one, then abort


def break_off(error: Exception) -> NoReturn:
    """Ends this process, one of several, with an error of which the others do not know; they find it gone at once."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(1)  # what jax does at the end of a program would wait for the others, which wait for this one
