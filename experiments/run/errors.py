"""How a command ends over what it was given: a line that says why, and status 2. Imports nothing heavy."""

import difflib
import sys
from collections.abc import Collection, Sequence
from typing import NoReturn


def fail(message: str) -> NoReturn:
    """Ends the program with a message and status 2."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


def suggestion(name: str, known: Collection[str]) -> str:
    """Returns the known name that is nearest to an unknown one, as a question; all of them if none is near."""
    nearest = difflib.get_close_matches(name, known, 1)
    return f"did you mean {nearest[0]}?" if nearest else f"expected one of: {', '.join(known)}"


def expect_no_empty(arguments: Sequence[str]) -> None:
    """Exits with a message if a command line has an empty value, as an unset variable of the shell leaves it."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if not argument or (argument.startswith("--") and argument.endswith("=")):
            fail(f"{argument or before or 'the preset'} has an empty value; is a variable of the shell not set?")


def expect_known(what: str, name: str, known: Collection[str]) -> None:
    """Exits with a message if a name is not known, which suggests the nearest one."""
    if name not in known:
        fail(f"{what} {name!r} is not known; {suggestion(name, known)}")
