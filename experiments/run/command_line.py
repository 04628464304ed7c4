"""The command line of an experiment: `[PRESET] [--setting value ...]`, one flag per setting, shown by group."""

import ast
import functools
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_type_hints

import tyro

from .errors import expect_known, expect_no_empty, fail
from .groups import Checked, SettingError, entries, flag
from .presets import listing
from .settings import GeneratedData, Settings

# For settings of attention and its teacher: the values of others with which they have an effect.
_SCORED = ("unsupervised", "supervised", "weak")
_POOLED = (*_SCORED, "ground_truth")
_NUMBER = ("K",)  # any number, but not None
_USED_WITH: Mapping[str, Mapping[str, Sequence[str]]] = {
    "pooling": {"attention": _POOLED},
    "threshold": {"attention": _POOLED, "pooling": ("threshold",)},
    "ratio": {"attention": _POOLED, "pooling": ("topk",)},
    "entropy_weight": {"clusters": _NUMBER},
    "scorer": {"attention": _SCORED},
    "scorer_hidden": {"attention": _SCORED, "scorer": ("mlp", "gnn")},
    "scorer_layers": {"attention": _SCORED, "scorer": ("gnn",)},
    "score_from": {"attention": _SCORED},
    "init": {"attention": _SCORED, "scorer": ("linear", "mlp")},
    "init_scale": {"attention": _SCORED, "scorer": ("linear", "mlp"), "init": ("normal", "uniform")},
    "attention_weight": {"attention": ("supervised", "weak")},
    "softmax": {"attention": _SCORED},
    "renormalize": {"attention": _POOLED},
    "relative": {"attention": _POOLED},
    "label_change": {"attention": ("weak",)},
    "label_threshold": {"attention": ("weak",)},
    "label_fraction": {"attention": ("weak",)},
    "teacher_epochs": {"attention": ("weak",)},
    "teacher_decay_epochs": {"attention": ("weak",)},
}

_SPACES = str.maketrans(",=", "  ")

Configured = TypeVar("Configured", bound=Settings)
Parsed = TypeVar("Parsed", bound=Checked)
Returned = TypeVar("Returned")


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
    if not named and arguments and arguments[0].lstrip("-") in presets:
        fail(f"{arguments[0]}: a preset has no dashes: {program} {arguments[0].lstrip('-')} ...")
    expect_known("preset", name, presets)
    if late := _misplaced_preset(presets, arguments):
        fail(f"preset {late!r}: one preset is allowed, before all settings: {program} {late} ...")
    _expect_published(name, presets[name], arguments)
    lines = listing(presets, default, variants)
    settings = parse_settings(
        type(presets[name]),
        arguments[1:] if named else arguments,
        f"{program} [PRESET]",
        f"{about}\n\nPresets; the defaults below are those of {name}:\n{lines}",
        presets[name],
    )
    for setting, why in late_decays(settings).items():
        if getattr(settings.optimizer, setting) != getattr(presets[name].optimizer, setting):
            fail(f"{flag(setting)}: {why}")
    expect_used(settings, presets[name])
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
    declare_help(kind)
    try:
        return call(kind, arguments, program, about, config=flat, **options)
    except SettingError as error:
        fail(str(error))


def call(
    function: Callable[..., Returned], arguments: Sequence[str], program: str, about: str, **options: Any
) -> Returned:
    """Returns what a function or class makes of a command line; exits with a message if an argument is wrong.

    Args:
      function: its parameters are the flags.
      arguments: the command line after the program's name.
      program: how the program is called, for its help.
      about: what it does, for its help.
      options: further ones of `tyro.cli`.
    """
    expect_no_empty(arguments)
    for argument in arguments:
        if re.fullmatch(r"(--[\w-]+=)?-?[\d.]+(,-?[\d.]+)+", argument):
            fail(f"{argument}: write several values with spaces between them: {argument.translate(_SPACES)}")
    description = _one_line_paragraphs(about)
    try:
        try:
            return tyro.cli(function, args=list(arguments), prog=program, description=description, **options)
        finally:
            sys.stdout.flush()  # here, and not as Python ends, where an error could not be caught
    except BrokenPipeError:  # its help, in a pipe that is closed early, as by `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python writes as it ends
        raise SystemExit(0) from None


def _expect_published(name: str, preset: Settings, arguments: Sequence[str]) -> None:
    """Exits with a message if a command line names published data for a preset of data that are only generated."""
    given = {argument.partition("=")[0].replace("_", "-") for argument in arguments}
    if "--data-dir" in given and isinstance(preset.data, GeneratedData):
        for setting, value in preset.data.unpublished().items():
            if flag(setting) not in given:
                why = f"preset {name} has {flag(setting)} {value}, which no published data set has"
                fail(f"--data-dir: {why}; leave --data-dir out")


# Of text in several lines tyro keeps the breaks before lines that begin with a space, a sign or a digit, wherever it
# wraps the others. So it gets each paragraph as one line.
def declare_help(kind: Any) -> None:
    """Gives the docstring of each setting of a dataclass, also of those in groups, to its field as help in one line."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):  # all but `object`
        texts |= _docstrings(base)
    for field in fields(kind):
        if field.name in texts:
            field.metadata = MappingProxyType({**field.metadata, "help": texts[field.name]})
    for inner in get_type_hints(kind).values():
        if inspect.isclass(inner) and is_dataclass(inner):
            declare_help(inner)


@functools.cache
def _docstrings(kind: Any) -> dict[str, str]:
    """The docstrings below the fields of a class, by name, in one line each; none if its source can't be read."""
    try:
        source = inspect.getsource(kind)
    except OSError:  # a module that runs as `__main__` without a file, as in a notebook
        return {}
    (definition,) = ast.parse(textwrap.dedent(source)).body
    found = {}
    for declared, below in pairwise(getattr(definition, "body", ())):
        match declared, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


def _one_line_paragraphs(text: str) -> str:
    """Returns a text with each paragraph in one line; breaks before indented lines stay."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text)


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
    return settings.optimizer.late_decays(teacher=settings.attention.attention == "weak")


def expect_used(settings: Settings, preset: Settings) -> None:
    """Exits with a message if a setting that differs from the preset's has no effect.

    What a study chooses may take any value.
    """
    values, before = ({field.name: value for _, field, value in entries(each)} for each in (settings, preset))
    chosen = ("scorer", "init") if values.get("tune") else ()
    known = get_args(get_type_hints(type(settings.attention))["attention"])
    for name, conditions in _USED_WITH.items():
        if values[name] == before[name]:
            continue
        for other, wanted in conditions.items():
            used = values[other] is not None if wanted is _NUMBER else values[other] in wanted
            if not used and other not in chosen:
                *some, last = [value for value in wanted if other != "attention" or value in known]
                needed = f"{', '.join(some)} or {last}" if some else last
                fail(f"{flag(name)}: no effect with {flag(other)} {values[other]}; it needs {flag(other)} {needed}")
