"""Settings and arguments: what a setting affects, and checks that values are allowed."""

import contextlib
import math
import operator
from dataclasses import field
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np

# What a setting changes: "nothing" but how and where a run runs; the "location" that data are read from; the "data" of
# training and test; "training", so the networks; "evaluation", so the scores.
Affects = Literal["nothing", "location", "data", "training", "evaluation"]
Value = TypeVar("Value")


def setting(
    default: Value, affects: Affects, *, of_preset: bool = True, may_grow: bool = False, unless: str = ""
) -> Value:
    """A dataclass field that declares what it affects, for `experiments.run.identity`.

    Args:
      default: the default. That of a new setting must leave everything as it was before the setting existed.
      affects: what changes with the value.
      of_preset: whether a preset with another value is another preset; False for seeds, for example.
      may_grow: whether a run may be resumed with a larger value.
      unless: name of a setting that, if it is on, makes this one affect the evaluation.
    """
    declared = {"affects": affects, "of_preset": of_preset, "may_grow": may_grow, "unless": unless}
    return cast(Value, field(default=default, metadata=declared))


SEED_LIMIT = 1 << 32


def expect_one_of(name: str, value: Any, literal: Any) -> None:
    """Raises `ValueError` with the name and the allowed values, unless `value` is one of those of a `Literal`."""
    allowed = get_args(literal)
    if value not in allowed:
        raise ValueError(f"{name}: {value!r} is not known, expected one of: {', '.join(allowed)}")


def expect_seeds(first: int, count: int) -> None:
    """Raises `ValueError` unless consecutive seeds fit into 32 bits: jax ignores higher bits."""
    if not 0 <= first <= SEED_LIMIT - count:
        raise ValueError(f"seed: {first} is not allowed, expected 0 to {SEED_LIMIT - count}")


def expect_at_least(least: float, **values: float | None) -> None:
    """Raises `ValueError` naming the first value that is less than `least`, infinite or NaN; None is allowed."""
    for name, value in values.items():
        if value is not None and not least <= value < math.inf:
            finite = ", and finite" if value == math.inf else ""
            raise ValueError(f"{name}: {value} is not allowed, expected at least {least}{finite}")


def expect_mask(name: str, mask: Any, length: int, unit: str) -> None:
    """Raises `ValueError` unless a mask is an array of `length` booleans, one per `unit`."""
    dtype, shape = getattr(mask, "dtype", type(mask).__name__), np.shape(mask)
    if str(dtype) != "bool" or shape != (length,):
        raise ValueError(
            f"{name}: expected a mask of booleans, one per {unit} ({length}), got {dtype} of shape {shape}"
        )


def as_numbers(name: str, values: Any) -> np.ndarray:
    """A numpy array of real numbers; raises `ValueError` if rows differ in length or entries are not real numbers."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: expected an array of real numbers, its rows of equal length ({error})") from error
    if array.dtype.kind not in "buif" and not _is_real(array.dtype):  # such as bfloat16
        of_text = "; make numbers of text first, such as one-hot columns" if array.dtype.kind in "US" else ""
        raise ValueError(f"{name}: expected an array of real numbers, got {array.dtype}{of_text}")
    return array


def as_int(name: str, value: Any) -> int:
    """An integer of Python, numpy or jax as Python's; raises `ValueError` for anything else."""
    if not _is_flag(value):
        with contextlib.suppress(TypeError):
            return operator.index(value)
    raise ValueError(f"{name}: expected a whole number, got {value!r}")


def as_float(name: str, value: Any) -> float:
    """A real number of Python, numpy or jax as Python's float; raises `ValueError` for anything else."""
    is_number = isinstance(value, int | float) or (
        hasattr(value, "dtype") and np.ndim(value) == 0 and _is_real(value.dtype)
    )
    is_number &= not np.iscomplexobj(value)
    if _is_flag(value) or not is_number:
        raise ValueError(f"{name}: expected a number, got {value!r}")
    return float(value)


def _is_real(dtype: Any) -> bool:
    """Whether a type is one of real numbers, among them those that numpy lacks."""
    import jax.numpy as jnp  # here, so that a command line is read without jax

    return bool(jnp.issubdtype(dtype, jnp.number) and not jnp.issubdtype(dtype, jnp.complexfloating))


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
    """Converts fields of a dataclass to Python's numbers, so that equal settings are equal, hash alike and are JSON.

    Raises:
      ValueError: a field is not a number of its kind.
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
