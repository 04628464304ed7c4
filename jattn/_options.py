"""Settings: what each of them affects, and that it has a value that is allowed."""

import contextlib
import math
import operator
from dataclasses import field
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np

# What another value of a setting makes other: "nothing", only how and where a run runs; "location", only where data are
# read from; "data", what is trained and tested on; "training", the networks; "evaluation", what is measured of them.
Affects = Literal["nothing", "location", "data", "training", "evaluation"]
Value = TypeVar("Value")


def setting(
    default: Value, affects: Affects, *, of_preset: bool = True, may_grow: bool = False, unless: str = ""
) -> Value:
    """A dataclass's field that says what it affects; `experiments.run.identity` goes by that.

    Args:
      default: its default. A setting that is new has one that leaves everything as it was without it.
      affects: what another value makes other.
      of_preset: False where a preset with another value is still that preset, as with seeds.
      may_grow: whether a run may be gone on with to a larger value.
      unless: a setting with which, where it is on, this one affects the evaluation.
    """
    declared = {"affects": affects, "of_preset": of_preset, "may_grow": may_grow, "unless": unless}
    return cast(Value, field(default=default, metadata=declared))


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


def expect_mask(name: str, mask: Any, length: int, what: str) -> None:
    """Raises `ValueError` unless a mask is an array of `length` booleans, one for each of `what`."""
    dtype, shape = getattr(mask, "dtype", type(mask).__name__), np.shape(mask)
    if str(dtype) != "bool" or shape != (length,):
        raise ValueError(
            f"{name}: expected a mask of booleans, one per {what} ({length}), got {dtype} of shape {shape}"
        )


def as_int(name: str, value: Any) -> int:
    """A whole number, of numpy or jax too, as Python's; raises `ValueError` for what is none."""
    if not _is_flag(value):
        with contextlib.suppress(TypeError):
            return operator.index(value)
    raise ValueError(f"{name}: expected a whole number, got {value!r}")


def as_float(name: str, value: Any) -> float:
    """A number, of numpy or jax too, as Python's; raises `ValueError` for what is none."""
    is_number = isinstance(value, int | float | np.number) or (hasattr(value, "dtype") and np.ndim(value) == 0)
    if _is_flag(value) or not is_number:
        raise ValueError(f"{name}: expected a number, got {value!r}")
    return float(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"


def set_numbers(
    settings: Any,
    *,
    ints: tuple[str, ...] = (),
    floats: tuple[str, ...] = (),
    optional_ints: tuple[str, ...] = (),
    bools: tuple[str, ...] = (),
) -> None:
    """Makes fields of a dataclass Python's own numbers, so that equal settings are equal, hash alike and are JSON.

    Raises:
      ValueError: a field has no such number.
    """
    for name in (*ints, *optional_ints, *floats, *bools):
        value = getattr(settings, name)
        if name in bools:
            if not isinstance(value, bool | np.bool_):
                raise ValueError(f"{name}: expected True or False, got {value!r}")
            value = bool(value)
        elif name in floats:
            value = as_float(name, value)
        elif not (value is None and name in optional_ints):
            value = as_int(name, value)
        object.__setattr__(settings, name, value)
