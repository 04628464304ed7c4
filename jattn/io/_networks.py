"""A network and its weights in one file: named arrays and a JSON description of the network."""

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

NETWORK = "network"  # entry of the file with the JSON
FORMAT, KNOWN = "format", 2
NOT_ARCHITECTURE = ("parent", "name", "dtype", "param_dtype", "precision")


def save_network(path: str | Path, network: Network, params: Params) -> None:
    """Writes a network and its weights to an npz file, atomically and without pickles.

    Args:
      path: the file.
      network: the architecture.
      params: its parameters, with or without a leading axis of seeds. The names of the arrays are paths in the network,
        such as `conv_0/linear/kernel`.

    Raises:
      ValueError: the network is of a subclass, a pooling selects nodes by something other than `Threshold` or `TopK`,
        or `params` have a layer that the network does not have.

    >>> import tempfile
    >>> network = Network(filters=(4,))
    >>> params = {"output": {"kernel": [[0.5], [1.0]], "bias": [0.0]}}  # and so on
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_network(Path(folder) / "weights.npz", network, params)
    ...     loaded, _ = load_network(Path(folder) / "weights.npz")
    >>> loaded == network
    True
    """
    described = json.dumps(describe(network))
    _expect_no_surplus(network, params)
    arrays = {"/".join(name): array for name, array in flatten_dict(params).items()}
    write_arrays(Path(path), {FORMAT: KNOWN, NETWORK: described, **arrays}, compress=True)


def _expect_no_surplus(network: Network, params: Params) -> None:
    """Raises `ValueError` if `params` have a layer that the network does not have."""
    learned = [
        i
        for i, pooling in enumerate(network.poolings)
        if isinstance(pooling, DiffPoolConfig) or (pooling is not None and pooling.scorer.kind != "ground_truth")
    ]
    layers = {*(f"conv_{i}" for i in range(len(network.filters))), *(f"pool_{i}" for i in learned), "output"}
    if surplus := sorted(set(params) - layers):
        raise ValueError(f"params: the network has no layer {surplus[0]}; its layers are {sorted(layers)}")


def load_network(path: str | Path) -> tuple[Network, Params]:
    """The network that `save_network` wrote, and its parameters as numpy arrays.

    Raises:
      ValueError: `save_network` did not write the file, or it has another format.
      FileNotFoundError: the file does not exist.

    >>> network, params = load_network("runs/mine/weights.npz")  # doctest: +SKIP
    """
    if Path(path).exists() and not is_zipfile(path):
        raise ValueError(f"{path}: not a network that save_network wrote (not an npz file)")
    try:
        arrays = read_arrays(Path(path))
        described, number = str(arrays.pop(NETWORK)), arrays.pop(FORMAT, None)
        remedy = "train it again, or load it with that version"
        expect_format(Path(path), None if number is None else int(number), KNOWN, remedy)
        network = network_from(json.loads(described))
    except (FileNotFoundError, FormatError):
        raise
    except Exception as error:  # numpy, zipfile and json raise errors of many types
        raise ValueError(f"{path}: not a network that save_network wrote ({type(error).__name__}: {error})") from error
    return network, unflatten_dict({tuple(name.split("/")): array for name, array in arrays.items()})


def describe(network: Network) -> dict[str, Any]:
    """Settings of a network as values of JSON.

    >>> describe(Network(filters=(8,)))["filters"]
    (8,)
    """
    if type(network) is not Network:
        raise ValueError(f"network: {type(network).__name__} is a subclass; only `Network` itself can be saved")
    names = [field.name for field in fields(network) if field.name not in NOT_ARCHITECTURE]
    settings = {name: getattr(network, name) for name in names}
    poolings = [None if pooling is None else _describe_pooling(pooling) for pooling in network.poolings]
    return settings | {"poolings": poolings}


def network_from(described: Mapping[str, Any]) -> Network:
    """The network of a description by `describe`."""
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
