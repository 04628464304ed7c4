"""SIGTERM, by which batch systems ask a job to end, and Ctrl-C: at once, or where training can be gone on with."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from experiments.running import fail
from jattn.runs import RunError


class Terminated(SystemExit):
    """The program was asked to end."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)  # as shells and batch systems count


@contextmanager
def ends_plainly() -> Iterator[None]:
    """Within, SIGTERM and Ctrl-C end the program at once, and so does what a user can mend, with a line that says what.

    SIGTERM raises `Terminated`. The status is 143, 130, or 2 for such an error.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except RunError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error}; what was saved before is kept, and with --out the same command goes on from there")
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
