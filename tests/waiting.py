"""Waiting for what another process or thread does, with a limit."""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool], seconds: float = 120) -> None:
    """Returns once `holds()`; fails after so many seconds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"nothing happened within {seconds} s"
        time.sleep(0.002)
