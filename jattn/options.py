"""Checking that settings have values that are allowed."""

import math
from typing import Any, get_args


def expect_one_of(name: str, value: Any, literal: Any) -> None:
    """Raises `ValueError` naming the setting and what is allowed, unless `value` is one of a `Literal`'s values."""
    allowed = get_args(literal)
    if value not in allowed:
        raise ValueError(f"{name}: {value!r} is not known, expected one of: {', '.join(allowed)}")


def expect_at_least(least: float, **values: float | None) -> None:
    """Raises `ValueError` naming the first setting that is less, infinite or NaN; None is not given."""
    for name, value in values.items():
        if value is not None and not least <= value < math.inf:
            finite = ", and finite" if value == math.inf else ""
            raise ValueError(f"{name}: {value} is not allowed, expected at least {least}{finite}")
