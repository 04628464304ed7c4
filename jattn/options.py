"""Checking that a setting has a value that is known."""

from typing import Any, get_args


def expect_one_of(name: str, value: Any, literal: Any) -> None:
    """Raises `ValueError` naming the setting and what is allowed, unless `value` is one of a `Literal`'s values."""
    allowed = get_args(literal)
    if value not in allowed:
        raise ValueError(f"{name}: {value!r} is not known, expected one of: {', '.join(allowed)}")
