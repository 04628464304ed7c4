"""The check of signatures that tests switch on: beartype, with an int wherever a float is asked for."""

from collections.abc import Callable
from typing import Any, Self

from beartype import BeartypeConf, beartype

_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its arguments and result checked.

    Fields of dataclasses are not: jax rebuilds containers around things that are no arrays. Nor is `Self`, which
    beartype knows in whole classes alone.
    """
    if function.__name__ in ("__init__", "check_single_arg"):
        return function
    function.__annotations__ = {name: Any if hint is Self else hint for name, hint in function.__annotations__.items()}
    return _beartype(function)
