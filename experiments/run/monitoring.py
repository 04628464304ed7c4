"""Speed and memory of a run, for its metric lines, and those lines as TensorBoard event files."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import jax

from .errors import fail

try:
    import resource
except ImportError:  # as on Windows
    resource = None  # type: ignore[assignment]

# jax has no call for its compilation time. Its monitoring is public, but names of events may change: a test checks that
# this one still counts.
COMPILATION = "/jax/core/compile/backend_compile_duration"
MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes, of ru_maxrss

_compiled = 0.0  # seconds in this process


def _count_compilation(event: str, duration_secs: float, **about: Any) -> None:
    global _compiled
    if event == COMPILATION:
        _compiled += duration_secs


jax.monitoring.register_event_duration_secs_listener(_count_compilation)


def resources(graphs_per_second: float) -> dict[str, float]:
    """Returns the speed and memory of a metric line.

    Args:
      graphs_per_second: training graphs of all seeds.

    Returns:
      The argument, the seconds that this process has spent compiling, and its peak memory in MiB: of the host, and of
      the device with the highest peak, as far as the system and jax report them.
    """
    figures = {"graphs_per_second": round(graphs_per_second, 1), "compile_seconds": round(_compiled, 2)}
    if resource is not None:
        figures["host_memory_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MEMORY_UNIT / 2**20)
    device_stats = [device.memory_stats() for device in jax.local_devices()]
    peaks = [stats["peak_bytes_in_use"] for stats in device_stats if stats and "peak_bytes_in_use" in stats]
    return figures | ({"device_memory_mib": round(max(peaks) / 2**20)} if peaks else {})


class EventFile:
    """The TensorBoard event file of one stage, or nothing; a context manager."""

    def __init__(self, folder: Path | None, trained: int):
        """Opens the file.

        Args:
          folder: its folder; None to write nothing.
          trained: the last epoch that counts if the stage is resumed; lines of later epochs are discarded.
        """
        self._writer = None
        if folder is not None:
            try:
                from tensorboardX import SummaryWriter
            except ImportError:
                fail("tensorboard: tensorboardX is not installed; pip install 'jattn[tensorboard]'")
            self._writer = SummaryWriter(str(folder), purge_step=trained + 1 if trained else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, line: Mapping[str, Any]) -> None:
        """Writes the numbers of a metric line; their means over seeds."""
        if self._writer is None:
            return
        for name, value in line.items():
            values = value if isinstance(value, list) else [value]
            for i, layer in enumerate(values, 1):
                number = layer["mean"] if isinstance(layer, Mapping) else layer
                if isinstance(number, int | float) and name != "epoch":
                    self._writer.add_scalar(f"{name}_{i}" if len(values) > 1 else name, number, line["epoch"])
