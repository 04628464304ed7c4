"""Is this the same run? Decided here for folders, checkpoints, labels, studies, sweeps and tables.

An identity is JSON that says what was run: settings, network, training, and a fingerprint of the data. Two of them are
compared entry by entry, so that whoever refuses a file can say what differs. A setting that an older file lacks has its
default. Nothing in it depends on how a version of another library prints or orders things.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, NamedTuple, get_args

import numpy as np

from jattn._options import Affects
from jattn.io import describe, network_from, to_jsonable
from jattn.nn import Network
from jattn.training import TrainConfig

RESULTS: tuple[Affects, ...] = ("training", "evaluation")  # what a run's results depend on besides its data
DATA: tuple[Affects, ...] = ("location", "data")
ABSENT = "nothing"  # where an entry is in one identity alone


class Difference(NamedTuple):
    """An entry that two identities do not have in common; as text, a line.

    Attributes:
      name: of the setting; of an entry within another, with dots.
      there: its value in what was found.
      now: its value in what is asked for.
    """

    name: str
    there: Any
    now: Any

    def __str__(self) -> str:
        if self.name.startswith("data."):
            return f"{self.name}: the digest differs"
        return f"{self.name}: {self.there!r} there, {self.now!r} now"


def affected(settings: Any, of: Field[Any]) -> Affects:
    """What a field of some settings affects; training where it does not say."""
    unless = of.metadata.get("unless")
    return "evaluation" if unless and getattr(settings, unless, False) else of.metadata.get("affects", "training")


def settings_of(settings: Any, kinds: Collection[Affects]) -> dict[str, Any]:
    """Those settings that affect any of some kinds, as JSON has them."""
    return {
        of.name: to_jsonable(getattr(settings, of.name)) for of in fields(settings) if affected(settings, of) in kinds
    }


def growing(settings: Any) -> list[str]:
    """Names of the settings to whose larger values a run may be gone on with."""
    return [of.name for of in fields(settings) if of.metadata.get("may_grow")]


def settings_differences(there: Mapping[str, Any], now: Any, kinds: Collection[Affects] = RESULTS) -> list[Difference]:
    """The settings of some kinds that differ.

    Args:
      there: settings as JSON has them. Any that are not known now differ.
      now: a dataclass of settings.
      kinds: what the settings that count affect.
    """
    found: list[Difference] = []
    for of in fields(now):
        default = to_jsonable(of.default) if of.default is not MISSING else ABSENT
        old, new = there.get(of.name, default), to_jsonable(getattr(now, of.name))
        if old != new and affected(now, of) in kinds:
            found.append(Difference(of.name, old, new))
    known = {of.name for of in fields(now)}
    return found + [Difference(name, there[name], ABSENT) for name in sorted(there.keys() - known)]


def is_of_preset(settings: Any, preset: Any) -> bool:
    """Whether settings are a preset's, but for those that affect no results or of which any belong to the preset."""
    return all(
        getattr(settings, of.name) == getattr(preset, of.name)
        for of in fields(preset)
        if of.metadata.get("of_preset", True) and affected(preset, of) not in ("nothing", "location")
    )


def key_of(settings: Mapping[str, Any], of: Any, data: Mapping[str, str]) -> str:
    """A name for some settings of a dataclass `of` and their data: the same whatever settings are added at defaults."""
    defaults = {field.name: to_jsonable(field.default) for field in fields(of) if field.default is not MISSING}
    own = {name: value for name, value in settings.items() if name not in defaults or defaults[name] != value}
    return hashlib.sha256(json.dumps([own, dict(data)], sort_keys=True).encode()).hexdigest()[:16]


def training_identity(network: Network, config: TrainConfig | None = None, **others: Any) -> dict[str, Any]:
    """The identity of trained weights.

    Args:
      network: the architecture.
      config: how they were trained.
      others: further entries, such as epochs and seeds; `data` has the fingerprints of what it depends on, by name.
    """
    trained = {} if config is None else {"training": _training(config)}
    return {"network": to_jsonable(describe(network)), **trained, **to_jsonable(others)}


def differences(there: Any, now: Mapping[str, Any]) -> list[Difference]:
    """The entries in which two identities of the same kind differ.

    Args:
      there: what was found, perhaps by an older version that had fewer settings, or anything else.
      now: what `training_identity` gives.
    """
    old, new = _flat(_completed(there) if isinstance(there, Mapping) else {"identity": there}), _flat(now)
    names = [*new, *(name for name in old if name not in new)]
    return [
        Difference(name, old.get(name, ABSENT), new.get(name, ABSENT))
        for name in names
        if old.get(name, ABSENT) != new.get(name, ABSENT)
    ]


def fingerprint(tree: Any) -> str:
    """A digest of arrays, numbers and strings, by name or in order, with their types and shapes."""
    key = hashlib.blake2b(digest_size=16)

    def add(value: Any) -> None:
        if isinstance(value, np.generic):
            value = value.item()
        if is_dataclass(value) and not isinstance(value, type):
            value = {"": type(value).__name__} | {of.name: getattr(value, of.name) for of in fields(value)}
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            value = value._asdict()
        if isinstance(value, Mapping):
            key.update(f"named {len(value)};".encode())
            for name in sorted(value):
                add(name)
                add(value[name])
        elif isinstance(value, list | tuple | range):
            key.update(f"list {len(value)};".encode())
            for item in value:
                add(item)
        elif value is None or isinstance(value, bool | int | float | str):
            text = f"{type(value).__name__} {value!r}"
            key.update(f"{len(text)} {text};".encode())
        else:
            array = np.ascontiguousarray(value)
            if array.dtype.hasobject:
                raise TypeError(f"fingerprint: expected arrays, numbers and strings, got {type(value).__name__}")
            key.update(f"array {array.dtype.str} {np.shape(value)};".encode())
            key.update(array.reshape(-1).view(np.uint8).data)

    add(tree)
    return key.hexdigest()


def _training(config: TrainConfig) -> dict[str, Any]:
    """The settings of training, without those that affect nothing."""
    return settings_of(config, [kind for kind in get_args(Affects) if kind != "nothing"])


def _completed(there: Mapping[str, Any]) -> dict[str, Any]:
    """An identity with the defaults of settings that it lacks; as it is where it has some that are not known."""
    found = dict(there)
    try:
        if "network" in found:
            found["network"] = to_jsonable(describe(network_from(found["network"])))
        if "training" in found:
            found["training"] = _training(TrainConfig(**found["training"]))
    except (TypeError, ValueError, LookupError, AttributeError):
        return dict(there)
    return found


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """The entries of nested JSON by their paths; a list of numbers or strings is one entry."""
    if isinstance(value, Mapping):
        items: Sequence[tuple[str, Any]] = [(str(name), item) for name, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        items = [(str(i), item) for i, item in enumerate(value)]
    else:
        return {path: value}
    return {name: of for key, item in items for name, of in _flat(item, f"{path}.{key}" if path else key).items()}
