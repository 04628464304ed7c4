"""Ready-made models: trained networks of main rows of the paper's tables, each with a card."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from jattn.io._files import expect_format, write_json
from jattn.io._networks import load_network, save_network
from jattn.nn import Network
from jattn.types import Params, Task

FOLDER = Path(__file__).parent / "pretrained"
FORMAT = 1  # format number of a card


class PretrainedScores(NamedTuple):
    """Scores of a ready-made model on one test subset, in per cent.

    Attributes:
      accuracy: share of graphs predicted correctly.
      attention_auc: area under the ROC curve of attention, for each pooling layer; empty without pooling.
      graphs: number of graphs.
    """

    accuracy: float
    attention_auc: tuple[float | None, ...]
    graphs: int


@dataclass(frozen=True)
class PretrainedCard:
    """What a ready-made model is, how good it is, and how to make it again.

    Attributes:
      name: its name, EXPERIMENT-PRESET.
      about: how its attention was trained.
      task: what it predicts.
      features: the columns of the input features.
      feature_mean: mean to subtract from the input features; empty if they are used as they are.
      feature_std: standard deviation to divide them by afterwards.
      scores: scores by test subset, and on "all" of them together.
      seed: its seed.
      seeds: all seeds that were trained with it; of these its validation accuracy is the median.
      validation_accuracy: validation accuracy of each of `seeds`, in per cent; empty if it was not measured.
      command: the command that trains all seeds again, as typed in an installation.
      settings: all settings that affect its weights and scores.
      data: "name" of the data set, its "source" ("published" or "generated"), and SHA-256 of its "files" by name.
      versions: versions of jattn and the libraries that trained it.
      seconds: seconds that each stage took for all seeds together.
      examples: its outputs for the graphs of `experiments.pretrained.examples`, [graphs, outputs].
    """

    name: str
    about: str
    task: Task
    features: str
    feature_mean: tuple[float, ...]
    feature_std: tuple[float, ...]
    scores: Mapping[str, PretrainedScores]
    seed: int
    seeds: tuple[int, ...]
    validation_accuracy: tuple[float, ...]
    command: str
    settings: Mapping[str, Any]
    data: Mapping[str, Any]
    versions: Mapping[str, str]
    seconds: Mapping[str, float]
    examples: tuple[tuple[float, ...], ...]


def load_pretrained(name: str) -> tuple[Network, Params]:
    """A ready-made model: the network and its weights, without an axis of seeds, as numpy arrays.

    `predict_seeds` and `leave_one_out_seeds` need that axis: `jax.tree.map(lambda x: x[None], params)` adds it.

    Args:
      name: one of `pretrained_cards()`, such as "colors-weak". Its card says what the input features have to be.

    Raises:
      ValueError: there is no model of that name.

    >>> import jax, jattn
    >>> network, params = load_pretrained("colors-supervised")
    >>> graphs = jattn.datasets.generate_colors(train=3, validation=0, test=0)["train"]
    >>> predictions = jattn.predict_seeds(network, jax.tree.map(lambda x: x[None], params), graphs)
    >>> graphs.globals["label"].tolist(), predictions.prediction[0, :, 0].round().astype(int).tolist()
    ([10, 2, 0], [10, 2, 0])
    """
    known = sorted(file.stem for file in FOLDER.glob("*.json"))
    if name not in known:
        nearest = get_close_matches(name, known, 1)
        question = f"; did you mean {nearest[0]}?" if nearest else "."
        raise ValueError(f"name: {name!r} is no ready-made model{question} There are: {', '.join(known)}")
    return load_network(FOLDER / f"{name}.npz")


def pretrained_cards() -> dict[str, PretrainedCard]:
    """The cards of all ready-made models, by name.

    >>> pretrained_cards()["colors-supervised"].scores["orig"].graphs
    2500
    """
    return {file.stem: _read_card(file) for file in sorted(FOLDER.glob("*.json"))}


def write_pretrained(folder: Path, card: PretrainedCard, network: Network, params: Params) -> None:
    """Writes a model and its card, each atomically; there is never a card of other weights."""
    file = folder / f"{card.name}.json"
    file.unlink(missing_ok=True)
    save_network(file.with_suffix(".npz"), network, params)
    scores = {name: subset._asdict() for name, subset in card.scores.items()}
    write_json(file, {"format": FORMAT, **asdict(card), "scores": scores})


def _read_card(file: Path) -> PretrainedCard:
    found = json.loads(file.read_text("utf-8"))
    expect_format(file, found.pop("format", None), FORMAT, "install jattn again")
    scores = {
        name: PretrainedScores(**subset | {"attention_auc": tuple(subset["attention_auc"])})
        for name, subset in found["scores"].items()
    }
    tuples = {name: tuple(found[name]) for name in ("feature_mean", "feature_std", "seeds", "validation_accuracy")}
    return PretrainedCard(**{**found, **tuples, "scores": scores, "examples": tuple(map(tuple, found["examples"]))})
