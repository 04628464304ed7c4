"""Is this the same run? Decided here for folders, checkpoints, labels, studies, sweeps and tables.

An identity is JSON: settings, network, training, and a fingerprint of the data. Two identities are compared entry by
entry, so that an error can name what differs. A setting that an older file lacks counts as its default. An identity
does not depend on how versions of other libraries print or order things.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from jattn._options import Affects
from jattn.io import to_jsonable
from jattn.training import TrainConfig

from .groups import entries, flat

if TYPE_CHECKING:
    from jattn.nn import Network

RESULTS: tuple[Affects, ...] = ("training", "evaluation")  # what a run's results depend on besides its data
DATA: tuple[Affects, ...] = ("location", "data")


class _Absent:
    """The value of an entry that only the other identity has."""

    def __repr__(self) -> str:
        return "not set"


ABSENT = _Absent()


class Difference(NamedTuple):
    """An entry that differs between two identities; as text, a line.

    Attributes:
      name: the name of the setting; of an entry within another, with dots.
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


def affected(field: Field[Any], values: Mapping[str, Any]) -> Affects:
    """What a setting affects; "training" if it does not say.

    Args:
      field: its declaration.
      values: all settings by name.
    """
    if values.get(field.metadata.get("unless", "")):
        return "evaluation"
    return field.metadata.get("affects", "training")


def settings_of(settings: Any, kinds: Collection[Affects]) -> dict[str, Any]:
    """The settings that affect any of some kinds, by name, as JSON has them."""
    values = flat(settings)
    return {field.name: values[field.name] for _, field, _ in entries(settings) if affected(field, values) in kinds}


def growing(settings: Any) -> list[str]:
    """Names of the settings that may be larger when a run is continued."""
    return [field.name for _, field, _ in entries(settings) if field.metadata.get("may_grow")]


def settings_differences(there: Mapping[str, Any], now: Any, kinds: Collection[Affects] = RESULTS) -> list[Difference]:
    """The settings of some kinds that differ.

    Args:
      there: settings by name, as JSON has them. Unknown ones differ.
      now: a dataclass of settings, perhaps in groups.
      kinds: what the settings to compare affect.
    """
    values, found = flat(now), []
    for _, field, _ in entries(now):
        default = to_jsonable(field.default) if field.default is not MISSING else ABSENT
        old, new = there.get(field.name, default), values[field.name]
        if old != new and affected(field, values) in kinds:
            found.append(Difference(field.name, old, new))
    return found + [Difference(name, there[name], ABSENT) for name in sorted(there.keys() - values.keys())]


def is_of_preset(settings: Mapping[str, Any], preset: Any) -> bool:
    """Whether settings are a preset's, apart from those that affect no results or have `of_preset=False`.

    Args:
      settings: settings by name, as JSON has them.
      preset: a dataclass of settings, perhaps in groups.
    """
    of_preset = flat(preset)
    return all(
        settings.get(field.name, of_preset[field.name]) == of_preset[field.name]
        for _, field, _ in entries(preset)
        if field.metadata.get("of_preset", True) and affected(field, of_preset) not in ("nothing", "location")
    )


def key_of(names: Collection[str], settings: Any, data: Mapping[str, str]) -> str:
    """A name for some settings and their data, which does not change when a setting is added at its default.

    Args:
      names: the settings that count.
      settings: a dataclass of settings, perhaps in groups.
      data: fingerprints of the data, by name.
    """
    changed = {
        field.name: to_jsonable(value)
        for _, field, value in entries(settings)
        if field.name in names and (field.default is MISSING or to_jsonable(field.default) != to_jsonable(value))
    }
    return hashlib.sha256(json.dumps([changed, dict(data)], sort_keys=True).encode()).hexdigest()[:16]


def training_identity(network: "Network", config: TrainConfig | None = None, **others: Any) -> dict[str, Any]:
    """The identity of trained weights.

    Args:
      network: the architecture.
      config: how they were trained.
      others: further entries, such as epochs and seeds; `data` holds fingerprints of the data, by name.
    """
    from jattn.io import describe

    trained = {} if config is None else {"training": _training(config)}
    return {"network": to_jsonable(describe(network)), **trained, **to_jsonable(others)}


def differences(there: Any, now: Mapping[str, Any]) -> list[Difference]:
    """The entries in which two identities of the same kind differ.

    Args:
      there: what was found, perhaps of an older version with fewer settings, or anything else.
      now: an identity, as `training_identity` returns it.
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
            value = {"": type(value).__name__} | {field.name: getattr(value, field.name) for field in fields(value)}
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
    """An identity with the defaults of settings that it lacks; unchanged if it has unknown ones."""
    from jattn.io import describe, network_from

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
    return {name: leaf for key, item in items for name, leaf in _flat(item, f"{path}.{key}" if path else key).items()}
