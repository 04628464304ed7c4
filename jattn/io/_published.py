"""Reader of trained models of the paper's published implementation.

A model is a configuration (JSON) and named arrays. Poolings and convolutions are numbered together, in the order of the
forward pass: `graph_layers.I.fc.J` are the linear maps of a convolution, `graph_layers.I.proj` is the scorer of a
pooling, `fc.0` is the output map (`fc.1` after dropout). Weights are [out, in] in the files, [in, out] here.
"""

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jattn.nn import AttentionPoolingConfig, Network, ScorerConfig
from jattn.nn._attention_pooling import SELECTIONS

Arrays = Mapping[str, np.ndarray]


class PublishedModel(NamedTuple):
    """A trained model.

    Attributes:
      network: the architecture.
      params: its weights, as `network.init` returns them under "params".
      config: the configuration as published, with "dataset".
      expected: its published scores: accuracy (%) by subset, "auc_0" (%) of attention in the first pooling, and so on.
      feature_mean: mean subtracted from the input features, [features]; None if they are not normalized.
      feature_std: standard deviation by which they were divided afterwards.
    """

    network: Network
    params: dict[str, Any]
    config: dict[str, Any]
    expected: dict[str, float]
    feature_mean: tuple[float, ...] | None
    feature_std: tuple[float, ...] | None


def load_published(folder: Path) -> dict[str, PublishedModel]:
    """All models of a folder with `index.json` and, for each NAME in it, `NAME.weights.npz`.

    Raises:
      FileNotFoundError: one of these files is missing.
      ValueError: a configuration and its weights do not fit together; the message names the model.

    >>> models = load_published(Path("published"))  # doctest: +SKIP
    """
    index_file = folder / "index.json"
    if not index_file.is_file():
        raise FileNotFoundError(
            f"{index_file}: not found; expected index.json and NAME.weights.npz of every model in it"
        )
    try:
        index = json.loads(index_file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{index_file}: not JSON ({error})") from error
    if not isinstance(index, dict) or not index:
        raise ValueError(f"{index_file}: expected an object with an entry for every model")
    return {name: _load(folder / f"{name}.weights.npz", name, entry) for name, entry in index.items()}


def _load(weights_file: Path, name: str, entry: Any) -> PublishedModel:
    if not weights_file.is_file():
        raise FileNotFoundError(f"{weights_file}: not found, though the index names the model {name!r}")
    try:
        with np.load(weights_file, allow_pickle=False) as arrays:
            weights = dict(arrays)
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{weights_file}: not an npz file of plain arrays, or incomplete") from error
    try:
        config = entry["config"]
        network = network_from_config(config, outputs=_outputs(weights))
        return PublishedModel(
            network,
            params_from_weights(weights, network),
            config,
            expected=entry.get("test", {}),
            feature_mean=_numbers(entry.get("feature_mean")),
            feature_std=_numbers(entry.get("feature_std")),
        )
    except KeyError as error:
        raise ValueError(f"model {name!r}: {error.args[0]!r} is missing in the index or the weights") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"model {name!r}: {error}") from error


def network_from_config(config: Mapping[str, Any], outputs: int) -> Network:
    """The architecture of a published configuration.

    Args:
      config: "filters", "filter_scale" (K), "n_hidden" (0: a linear map), "aggregation", "readout", "dropout", "pool"
        (None, or "attn", the kind of supervision, the kind of selection, then for each convolution "skip" or the
        threshold or ratio of the pooling before it) and "pool_arch" ("fc", "prev" or "curr", and hidden units of an
        MLP; or "gnn", "prev" or "curr").
      outputs: number of outputs per graph.

    Raises:
      ValueError: a setting has an unknown value.
    """
    return Network(
        filters=tuple(config["filters"]),
        order=config["filter_scale"],
        aggregation=config["aggregation"],
        hidden=config["n_hidden"] or None,
        readout=config["readout"],
        outputs=outputs,
        poolings=_poolings(config.get("pool"), config.get("pool_arch")),
        dropout=config["dropout"],
    )


def _poolings(pool: list[str] | None, architecture: list[str] | None) -> tuple[AttentionPoolingConfig | None, ...]:
    if pool is None:
        return ()
    _, supervision, selection, *values = pool
    if selection not in SELECTIONS:
        raise ValueError(f"pool: rule {selection!r} is not known, expected one of {sorted(SELECTIONS)}")
    kind, score_from, *hidden = architecture or ["fc", "prev"]
    scorers = {
        "fc": ScorerConfig("mlp", hidden=int(hidden[0])) if hidden else ScorerConfig("linear"),
        "gnn": ScorerConfig("gnn"),
    }
    if kind not in scorers:
        raise ValueError(f"pool_arch: {kind!r} is not known, expected one of {sorted(scorers)}")
    scorer = ScorerConfig("ground_truth") if supervision == "gt" else scorers[kind]
    poolings: list[AttentionPoolingConfig | None] = [None] * len(values)
    for i, value in enumerate(values):
        if value != "skip":
            # Before the first convolution there are no previous features: published models score those being pooled.
            current = score_from == "curr" or i == 0
            select = SELECTIONS[selection](float(value))
            poolings[i] = AttentionPoolingConfig(select, scorer, "current" if current else "previous")
    return tuple(poolings)


def params_from_weights(weights: Arrays, network: Network) -> dict[str, Any]:
    """Named arrays as the parameters of a network.

    Raises:
      KeyError: an array that the network needs is missing.
    """
    params: dict[str, Any] = {}
    layer = 0  # of the published model
    for i in range(len(network.filters)):
        pooling = network.poolings[i] if i < len(network.poolings) else None
        if isinstance(pooling, AttentionPoolingConfig):
            if pooling.scorer.kind != "ground_truth":
                params[f"pool_{i}"] = {
                    "scorer": _scorer(weights, f"graph_layers.{layer}.proj", pooling.scorer, min(network.order, 2))
                }
            layer += 1
        params[f"conv_{i}"] = _convolution(
            weights, f"graph_layers.{layer}.fc", network.order, network.hidden is not None
        )
        layer += 1
    params["output"] = _linear(weights, "fc.1" if network.dropout else "fc.0")
    return params


def _scorer(weights: Arrays, name: str, scorer: ScorerConfig, order: int) -> dict[str, Any]:
    match scorer.kind:
        case "linear":
            return {"projection": {"kernel": weights[f"{name}.weight"].T}}
        case "mlp":
            return {"hidden_layer": _linear(weights, f"{name}.0"), "linear": _linear(weights, f"{name}.2")}
        case _:
            layers = range(scorer.layers)
            return {
                f"ChebyGINConv_{j}": _convolution(weights, f"{name}.graph_layers.{j}.fc", order, False) for j in layers
            }


def _convolution(weights: Arrays, name: str, order: int, mlp: bool) -> dict[str, Any]:
    """Weights of a convolution; the first map has a column for each feature of T_0 x, then of T_1 x, ..."""
    first = _linear(weights, f"{name}.0")
    columns, features = first["kernel"].shape
    first["kernel"] = first["kernel"].reshape(order, columns // order, features).swapaxes(0, 1)
    return {"hidden_layer": first, "linear": _linear(weights, f"{name}.2")} if mlp else {"linear": first}


def _linear(weights: Arrays, name: str) -> dict[str, np.ndarray]:
    return {"kernel": weights[f"{name}.weight"].T, "bias": weights[f"{name}.bias"]}


def _numbers(values: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(float(value) for value in values)


def _outputs(weights: Arrays) -> int:
    return len(weights["fc.1.bias"] if "fc.1.bias" in weights else weights["fc.0.bias"])
