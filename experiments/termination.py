"""SIGTERM, by which batch systems ask a job to end, and Ctrl-C: at once, or where training can be gone on with."""

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
    """Within, SIGTERM and Ctrl-C wait: yields a function that says whether one came.

    In the end `Terminated` or KeyboardInterrupt is raised if so. A second Ctrl-C does not wait.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if came and number == signal.SIGINT:
            raise KeyboardInterrupt
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise Terminated if signal.SIGTERM in came else KeyboardInterrupt
