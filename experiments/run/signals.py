"""SIGTERM, with which batch systems ask a job to end, and Ctrl-C: at once, or after an epoch is saved."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .errors import fail
from .folder import RunError

_noted: list[int] = []  # signals to one of several processes between stages, until the next stage tells the others


class Terminated(SystemExit):
    """The program was asked to end."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)  # as shells and batch systems count


@contextmanager
def handling(handler: Callable[[int, FrameType | None], Any], numbers: Sequence[int]) -> Iterator[None]:
    """Within, some signals call `handler`.

    Only the main thread can have handlers: in other threads, as of notebooks and servers, nothing changes.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers} if main else {}
    try:
        yield
    finally:
        for number, handled in before.items():  # None if it was not set from Python
            signal.signal(number, signal.SIG_DFL if handled is None else handled)


@contextmanager
def exit_on_signal() -> Iterator[None]:
    """Within, SIGTERM and Ctrl-C end the program at once, and so do errors that a user can mend, with a line of text.

    SIGTERM raises `Terminated`. The status is 143, 130, or 2 for such an error. If several processes run as one,
    SIGTERM to one of them waits for the next stage, where all of them end; a second one does not wait.
    """
    import jax  # here, since a process that only waits for others does not need it

    from jattn.training._devices import ProcessError

    several = jax.process_count() > 1
    _noted.clear()

    def end(number: int, frame: FrameType | None) -> None:
        if not several or _noted:
            raise Terminated
        _noted.append(number)

    try:
        with handling(end, [signal.SIGTERM]):
            yield
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except (RunError, ProcessError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error}; what was saved is kept: to resume, repeat the command with the same --out")


@contextmanager
def defer_signals() -> Iterator[Callable[[], bool]]:
    """Within, SIGTERM and Ctrl-C are deferred: yields a function that is true once one arrived, now or between stages.

    At the end `Terminated` or KeyboardInterrupt is raised if one did. A second Ctrl-C is not deferred.
    """
    arrived = list(_noted)

    def note(number: int, frame: FrameType | None) -> None:
        if arrived and number == signal.SIGINT:
            raise KeyboardInterrupt
        arrived.append(number)

    with handling(note, [signal.SIGTERM, signal.SIGINT]):
        yield lambda: bool(arrived)
    if arrived:
        raise Terminated if signal.SIGTERM in arrived else KeyboardInterrupt
