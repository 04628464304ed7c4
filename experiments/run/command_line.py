"""The command line of an experiment: `[PRESET] [--setting value ...]`, one flag per setting, shown by group."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import tyro

from .errors import expect_no_empty, fail
from .groups import Checked, SettingError, entries, flag
from .presets import listing
from .settings import Settings

Configured = TypeVar("Configured", bound=Settings)
Parsed = TypeVar("Parsed", bound=Checked)


def parse(
    presets: Mapping[str, Configured],
    arguments: Sequence[str],
    program: str,
    about: str,
    variants: Mapping[str, str],
) -> tuple[str, Configured]:
    """The name of the preset and the settings that a command line asks for.

    Exits with a message if a preset or a setting is unknown, or a value is not allowed.

    Args:
      presets: settings by name; the first preset is the default.
      arguments: the command line after the program's name.
      program: how the program is called, for its help.
      about: what it does, for its help.
      variants: what suffixes of presets stand for, for its help.
    """
    expect_no_empty(arguments)
    default = next(iter(presets))
    named = bool(arguments) and not arguments[0].startswith("-")
    name = arguments[0] if named else default
    if name not in presets:
        fail(f"preset {name!r} is not known; expected one of: {', '.join(presets)}")
    if late := _misplaced_preset(presets, arguments):
        fail(f"preset {late!r}: one preset is allowed, before all settings: {program} {late} ...")
    lines = listing(presets, default, variants)
    settings = parse_settings(
        type(presets[name]),
        arguments[1:] if named else arguments,
        f"{program} [PRESET]",
        f"{about}\n\nPresets; the defaults below are those of {name}:\n{lines}",
        presets[name],
    )
    for setting, why in late_decays(settings).items():
        if getattr(settings.optimiser, setting) != getattr(presets[name].optimiser, setting):
            fail(f"{flag(setting)}: {why}")
    return name, settings


def parse_settings(
    kind: type[Parsed], arguments: Sequence[str], program: str, about: str, defaults: Parsed | None = None
) -> Parsed:
    """The settings that a command line asks for; exits with a message if a value is not allowed.

    Args:
      kind: a `Checked` dataclass of settings, perhaps in groups, whose fields are the flags.
      arguments: the command line after the program's name.
      program: how the program is called, for its help.
      about: what it does, for its help.
      defaults: other defaults than those of the fields.
    """
    options: dict[str, Any] = {} if defaults is None else {"default": defaults}
    flat = (tyro.conf.OmitArgPrefixes,)  # flags without the names of groups
    try:
        return tyro.cli(kind, args=list(arguments), prog=program, description=about, config=flat, **options)
    except SettingError as error:
        fail(str(error))


def _misplaced_preset(presets: Mapping[str, Configured], arguments: Sequence[str]) -> str | None:
    """The first preset after other arguments; a word after a flag that takes a value is its value."""
    switches = [
        flag(field.name) for _, field, value in entries(next(iter(presets.values()))) if isinstance(value, bool)
    ]
    for before, argument in pairwise(arguments):
        if argument in presets and (not before.startswith("--") or "=" in before or before in switches):
            return argument
    return None


def late_decays(settings: Settings) -> Mapping[str, str]:
    """For each schedule of the learning rate with an epoch that is never reached: a line that says so."""
    return settings.optimiser.late_decays(teacher=settings.attention.attention == "weak")
