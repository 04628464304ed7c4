"""Settings in groups: a dataclass of dataclasses, whose names are unique, so that it can be listed and changed flat.

On the command line, in config.json and in a sweep a setting has its name alone: `settings.attention.threshold` is
`--threshold` and `"threshold"`.
"""

import re
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from jattn.io import to_jsonable

from .paths import local_path

Configured = TypeVar("Configured")


class SettingError(Exception):
    """A setting has a value that is not allowed; the message begins with its flag."""


class Entry(NamedTuple):
    """One setting.

    Attributes:
      group: the name of its group; "" for a field of the whole.
      field: its declaration, which says what it affects.
      value: its value.
    """

    group: str
    field: Field[Any]
    value: Any


def entries(settings: Any) -> Iterator[Entry]:
    """Lists the settings of all groups, in order."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if is_dataclass(value):
            yield from (Entry(field.name, inner, getattr(value, inner.name)) for inner in fields(value))
        else:
            yield Entry("", field, value)


def flat(settings: Any) -> dict[str, Any]:
    """All settings by name, as JSON has them."""
    return {field.name: to_jsonable(value) for _, field, value in entries(settings)}


def with_changes(settings: Configured, **changes: Any) -> Configured:
    """The settings with other values of some of them, in any group.

    Raises:
      ValueError: there is no setting of that name.
      SettingError: a value is not allowed.
    """
    group_of = {field.name: group for group, field, _ in entries(settings)}
    by_group: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        if name not in group_of:
            raise ValueError(f"{name}: no setting of {type(settings).__name__}, which has {', '.join(group_of)}")
        by_group.setdefault(group_of[name], {})[name] = value
    changed = by_group.pop("", {})
    for group, values in by_group.items():
        changed[group] = replace(getattr(settings, group), **values)
    made: Configured = replace(settings, **changed)  # type: ignore[type-var]  # a dataclass
    return made


class Checked:
    """A dataclass of settings, or of groups of them, that checks its values when it is made.

    Subclasses extend `validate`. Of paths `~` is replaced.

    Attributes:
      positional: names of fields that have no flag.
    """

    positional: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        try:
            self.validate()
        except ValueError as error:  # tyro would show a ValueError in a box, under the group's name
            raise SettingError(name_flag(str(error), self)) from error

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed; the message begins with the setting's name."""
        for field in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            if isinstance(path := getattr(self, field.name), Path):
                object.__setattr__(self, field.name, local_path(field.name, path))


def name_flag(message: str, settings: Checked) -> str:
    """The message of an error with flags in place of names of settings, at its beginning or with an underscore."""
    known = {entry.field.name for entry in entries(settings)} - {*settings.positional}

    def replace_known(match: re.Match[str]) -> str:
        return flag(match[0]) if match[0] in known else match[0]

    return re.sub(r"^\w+|(?<![\w/.-])[a-z]+(_[a-z]+)+(?![\w/]|\.\w)", replace_known, message)


def flag(name: str) -> str:
    """A setting's name on the command line."""
    return f"--{name.replace('_', '-')}"
