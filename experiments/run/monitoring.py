"""What a run costs, for its metric lines, and those lines as TensorBoard's event files."""

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

# No call of jax tells how long it compiled. Its monitoring is public, the names of its events are not promised: a test
# sees that this one still counts.
COMPILATION = "/jax/core/compile/backend_compile_duration"
KIB = 1 if sys.platform == "darwin" else 1024  # what the system counts memory in, in bytes

_compiled = 0.0  # seconds, of this process


def _count_compilation(event: str, duration_secs: float, **about: Any) -> None:
    global _compiled
    if event == COMPILATION:
        _compiled += duration_secs


jax.monitoring.register_event_duration_secs_listener(_count_compilation)


def resources(graphs_per_second: float) -> dict[str, float]:
    """A metric line's figures of speed and memory.

    Args:
      graphs_per_second: training graphs of all seeds.

    Returns:
      That; the seconds that this process has spent compiling; and its peak memory in MiB, of the host, where the system
      tells, and of the device that had most, where jax tells.
    """
    figures = {"graphs_per_second": round(graphs_per_second, 1), "compile_seconds": round(_compiled, 2)}
    if resource is not None:
        figures["host_memory_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB / 2**20)
    of_devices = [device.memory_stats() for device in jax.local_devices()]
    peaks = [stats["peak_bytes_in_use"] for stats in of_devices if stats and "peak_bytes_in_use" in stats]
    return figures | ({"device_memory_mib": round(max(peaks) / 2**20)} if peaks else {})


class EventFile:
    """TensorBoard's file of one stage, or nothing; a context manager."""

    def __init__(self, folder: Path | None, done: int):
        """Opens it.

        Args:
          folder: where it goes; nothing is written where None.
          done: epochs that were written before; what is there of later ones no longer counts.
        """
        self._writer = None
        if folder is not None:
            try:
                from tensorboardX import SummaryWriter
            except ImportError:
                fail("tensorboard: tensorboardX is not installed; pip install 'jattn[tensorboard]'")
            self._writer = SummaryWriter(str(folder), purge_step=done + 1 if done else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, line: Mapping[str, Any]) -> None:
        """Writes a metric line's numbers; of several seeds' the mean."""
        if self._writer is None:
            return
        for name, value in line.items():
            values = value if isinstance(value, list) else [value]
            for i, of_layer in enumerate(values, 1):
                number = of_layer["mean"] if isinstance(of_layer, Mapping) else of_layer
                if isinstance(number, int | float) and name != "epoch":
                    self._writer.add_scalar(f"{name}_{i}" if len(values) > 1 else name, number, line["epoch"])
