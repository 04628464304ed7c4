"""A network and its weights in one file: named arrays and, as JSON, what the network is.

network, params = load_network("runs/mine/weights.npz")
said = predict_seeds(network, params, graphs)
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, cast
from zipfile import is_zipfile

from flax.traverse_util import flatten_dict, unflatten_dict

from jattn.io._files import FormatError, expect_format, read_arrays, write_arrays
from jattn.nn import AttentionPoolingConfig, DiffPoolConfig, Network, ScorerConfig
from jattn.nn._attention_pooling import SELECTIONS
from jattn.types import Params

NETWORK = "network"  # the entry of the file that has the JSON
FORMAT, KNOWN = "format", 2
OTHERS = ("parent", "name", "dtype", "param_dtype", "precision")  # fields of a network that are not its architecture


def save_network(path: str | Path, network: Network, params: Params) -> None:
    """Writes a network to an npz file, without pickles, never half-written.

    Args:
      path: the file.
      network: the architecture.
      params: its parameters, with or without a leading axis of seeds; the file names them by their path in the network,
        such as `conv_0/linear/kernel`.

    Raises:
      ValueError: a pooling goes by a rule that is neither `Threshold` nor `TopK`, or the network is of a subclass,
        or `params` have a layer that it does not have.
    """
    described = json.dumps(describe(network))
    _expect_no_surplus(network, params)
    arrays = {"/".join(name): array for name, array in flatten_dict(params).items()}
    write_arrays(Path(path), {FORMAT: KNOWN, NETWORK: described, **arrays})


def _expect_no_surplus(network: Network, params: Params) -> None:
    """Raises where there are weights of a layer that the network does not have."""
    learned = [
        i
        for i, pooling in enumerate(network.poolings)
        if isinstance(pooling, DiffPoolConfig) or (pooling is not None and pooling.scorer.kind != "ground_truth")
    ]
    layers = {*(f"conv_{i}" for i in range(len(network.filters))), *(f"pool_{i}" for i in learned), "output"}
    if surplus := sorted(set(params) - layers):
        raise ValueError(f"params: {surplus[0]} is no weight of the network, whose layers are {sorted(layers)}")


def load_network(path: str | Path) -> tuple[Network, Params]:
    """The network and the parameters that `save_network` wrote, as numpy arrays.

    Raises:
      ValueError: the file is not one of those, or of another format.
      FileNotFoundError: there is none.
    """
    if Path(path).exists() and not is_zipfile(path):
        raise ValueError(f"{path}: not a network that save_network wrote (no npz file)")
    try:
        arrays = read_arrays(Path(path))
        described, number = str(arrays.pop(NETWORK)), arrays.pop(FORMAT, None)
        remedy = "train it again, or load it with that version"
        expect_format(Path(path), None if number is None else int(number), KNOWN, remedy)
        network = network_from(json.loads(described))
    except (FileNotFoundError, FormatError):
        raise
    except Exception as error:  # numpy, zipfile and json each have their own for a file that is not theirs
        raise ValueError(f"{path}: not a network that save_network wrote ({type(error).__name__}: {error})") from error
    return network, unflatten_dict({tuple(name.split("/")): array for name, array in arrays.items()})


def describe(network: Network) -> dict[str, Any]:
    """A network's settings as what JSON knows."""
    if type(network) is not Network:
        raise ValueError(f"network: {type(network).__name__} is a subclass, whose layers a file can't know")
    settings = {field.name: getattr(network, field.name) for field in fields(network) if field.name not in OTHERS}
    poolings = [None if pooling is None else _describe_pooling(pooling) for pooling in network.poolings]
    return settings | {"poolings": poolings}


def network_from(described: Mapping[str, Any]) -> Network:
    """The network that `describe` described."""
    poolings = [None if pooling is None else _pooling_from(pooling) for pooling in described["poolings"]]
    return Network(**{**described, "poolings": tuple(poolings)})


def _describe_pooling(pooling: AttentionPoolingConfig | DiffPoolConfig) -> dict[str, Any]:
    if isinstance(pooling, DiffPoolConfig):
        return asdict(pooling)
    kind = next((name for name, rule in SELECTIONS.items() if type(pooling.select) is rule), None)
    if kind is None:
        raise ValueError(f"network: only poolings by Threshold or TopK can be saved, not by {pooling.select!r}")
    return {**asdict(cast(Any, pooling)), "select": {kind: asdict(cast(Any, pooling.select))}}


def _pooling_from(described: Mapping[str, Any]) -> AttentionPoolingConfig | DiffPoolConfig:
    if "clusters" in described:
        return DiffPoolConfig(**described)
    ((kind, settings),) = described["select"].items()
    scorer = ScorerConfig(**described["scorer"])
    return AttentionPoolingConfig(**{**described, "select": SELECTIONS[kind](**settings), "scorer": scorer})
