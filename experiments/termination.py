"""SIGTERM, by which batch systems ask a job to end: at once, or where training can be gone on with."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

STATUS = 128 + signal.SIGTERM  # of a program that ended so, as shells and batch systems count


class Terminated(SystemExit):
    """The program was asked to end."""

    def __init__(self) -> None:
        super().__init__(STATUS)


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Within, SIGTERM raises `Terminated`."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def can_wait() -> Iterator[Callable[[], bool]]:
    """Within, SIGTERM waits: yields a function that says whether it came. `Terminated` is raised at the end if so."""
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGTERM, before)
    if came:
        raise Terminated
