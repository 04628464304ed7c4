"""Checking that settings have values that are allowed."""

import math
from typing import Any, get_args

SEEDS = 1 << 32


def expect_one_of(name: str, value: Any, literal: Any) -> None:
    """Raises `ValueError` naming the setting and what is allowed, unless `value` is one of a `Literal`'s values."""
    allowed = get_args(literal)
    if value not in allowed:
        raise ValueError(f"{name}: {value!r} is not known, expected one of: {', '.join(allowed)}")


def expect_seeds(first: int, count: int) -> None:
    """Raises `ValueError` unless seeds that follow each other have 32 bits: jax takes no notice of more."""
    if not 0 <= first <= SEEDS - count:
        raise ValueError(f"seed: {first} is not allowed, expected 0 to {SEEDS - count}")


def expect_at_least(least: float, **values: float | None) -> None:
    """Raises `ValueError` naming the first setting that is less, infinite or NaN; None is not given."""
    for name, value in values.items():
        if value is not None and not least <= value < math.inf:
            finite = ", and finite" if value == math.inf else ""
            raise ValueError(f"{name}: {value} is not allowed, expected at least {least}{finite}")
