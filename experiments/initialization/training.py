"""Training COLORS from many initial projections p at once, and tables of what came of them that are made once."""

import csv
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from jraph import GraphsTuple

from jattn.datasets.colors import GREEN
from jattn.evaluation import accuracy, attention_auc, cosine_similarity, join
from jattn.io._files import expect_format
from jattn.training import Params, predict_seeds

from ..colors import Colors
from ..run.folder import Run, RunError, read_lines
from ..run.identity import RESULTS, differences, fingerprint, settings_differences, settings_of
from ..run.stages import InitialWeights, StageTrainer
from ..run.tables import write_csv
from .projections import with_projections

PART_FORMAT = 1
SUBSETS = ("orig", "large", "largec")
INTEGERS = ("seed", "epoch")  # columns of tables
POOLING = "pool_1"  # of the networks trained here

Row = Mapping[str, Any]


class StudyCell(NamedTuple):
    """What is trained alike, apart from p.

    Attributes:
      name: of its stages and files.
      training: how to train; `seeds` of them from each p's distribution.
      splits: COLORS of so many dimensions, host-side.
    """

    name: str
    training: Colors
    splits: Mapping[str, GraphsTuple]

    @property
    def model_seeds(self) -> list[int]:
        """Seeds of networks that have the same p's distribution."""
        return list(range(self.training.seed, self.training.seed + self.training.seeds))

    @property
    def dimension(self) -> int:
        """Columns of the features that are not 0 in training: n."""
        return int(self.splits["train"].nodes["features"].shape[1]) - 1


class Trained(NamedTuple):
    """What came of some initial projections, one entry a network.

    Attributes:
      initial_cosine: with the optimum, of the p that training began with.
      final_cosine: of the p that it ended with.
      auc: of attention on all test subsets together, in per cent.
      accuracies: on each of `SUBSETS`, in per cent.
    """

    initial_cosine: list[float]
    final_cosine: list[float]
    auc: list[float]
    accuracies: list[list[float]]


def optimum(dimension: int) -> Float[np.ndarray, " dimension"]:
    """The direction of p that finds green nodes alone, the column that is 0 in training left out."""
    return np.eye(dimension, dtype=np.float32)[GREEN]


def cosine(p: Float[np.ndarray, " columns"]) -> float:
    """How well p points at the optimum, the last column left out, which is 0 in training: no gradient ever moves it."""
    return cosine_similarity(p[:-1], optimum(len(p) - 1))


def train(run: Run, setting: StudyCell, stage: str, projections: Float[np.ndarray, "networks columns"]) -> Params:
    """Trains a network from each p, all in one program; p's go through the seeds again and again.

    Args:
      run: whose stage it is; goes on from the stage's checkpoints.
      setting: what to train.
      stage: its name.
      projections: initial p's, those of all seeds one after another.
    """
    colors, rounds = setting.training, len(projections) // len(setting.model_seeds)
    labels = np.tile(_weak_labels(run, setting), (rounds, 1)) if colors.attention == "weak" else None
    stages = StageTrainer(run, colors, setting.splits["train"], "regression", setting.model_seeds * rounds)
    return stages.train(
        stage,
        colors.network(1),
        colors.training("regression"),
        colors.epochs,
        labels,
        start=InitialWeights(
            lambda state: with_projections(state, POOLING, projections), {"projections": fingerprint(projections)}
        ),
    )


def _weak_labels(run: Run, setting: StudyCell) -> Float[np.ndarray, "seeds nodes"]:
    """Labels by each seed's teacher, which has no attention and so is the same whatever p is; made once for all p's."""
    colors = setting.training
    stages = StageTrainer(run, colors, setting.splits["train"], "regression", setting.model_seeds)
    name = f"{setting.name} teacher"
    params = stages.train(name, colors.teacher(1), colors.teacher_training("regression"), colors.teacher_epochs)
    file = run.folder / "parts" / f"{name.replace(' ', '-')}-labels.npz"
    return stages.leave_one_out_labels(
        f"{setting.name} labels", file, colors.teacher(1), params, colors.label_threshold
    )


def test(setting: StudyCell, params: Params, projections: Float[np.ndarray, "networks columns"]) -> Trained:
    """Tests trained networks, as many at a time as there are seeds.

    Args:
      setting: what was trained.
      params: their weights.
      projections: initial p's of each.
    """
    network, graphs = setting.training.network(1), join({name: setting.splits[name] for name in SUBSETS})
    sizes = [len(setting.splits[name].n_node) for name in SUBSETS]
    label, truth = (np.split(graphs.globals["label"], np.cumsum(sizes)[:-1])), graphs.nodes["attention"]
    final = np.asarray(params[POOLING]["scorer"]["projection"]["kernel"])[:, :, 0]
    auc, accuracies, together = [], [], len(setting.model_seeds)
    for start in range(0, len(final), together):
        chosen = jax.tree.map(lambda x, start=start: x[start : start + together], params)
        said = predict_seeds(network, chosen, graphs, compact=setting.training.compact)
        auc += [attention_auc(np.asarray(of_network), truth) for of_network in said.attention[0]]
        for output in said.prediction:
            parts = np.split(np.asarray(output), np.cumsum(sizes)[:-1])
            accuracies.append([accuracy(*part, "regression") for part in zip(parts, label, strict=True)])
    return Trained([cosine(p) for p in projections], [cosine(p) for p in final], auc, accuracies)


def cached_table(run: Run, setting: StudyCell, name: str, of: Any, make: Callable[[str], Sequence[Row]]) -> list[Row]:
    """A table of the run that is made once, then read from its file.

    Args:
      run: in whose folder the file is.
      setting: what it depends on.
      name: of the table, and of the stage of training that it takes.
      of: what else it depends on: arrays and strings.
      make: makes it: stage -> rows of numbers.

    Returns:
      The rows, the same whether they were made or read.

    Raises:
      RunError: the file is of other settings or data, or of another format.
    """
    file = run.folder / "parts" / f"{name.replace(' ', '-')}.csv"
    identity = {
        "format": PART_FORMAT,
        "settings": settings_of(setting.training, RESULTS),
        "data": {"of": fingerprint(of), **{split: fingerprint(graphs) for split, graphs in setting.splits.items()}},
    }
    if file.exists():
        _expect_same(file, identity, setting.training)
    else:
        write_csv(file, make(name), f"# {json.dumps(identity)}\n")
    # They take much room, and are of no use once the table is there.
    shutil.rmtree(run.folder / "checkpoints" / name.replace(" ", "-"), ignore_errors=True)
    rows = csv.DictReader(file.read_text("utf-8").splitlines()[1:])
    return [{column: int(x) if column in INTEGERS else float(x) for column, x in row.items()} for row in rows]


def _expect_same(file: Path, identity: Mapping[str, Any], colors: Colors) -> None:
    """Raises a `RunError` where a table is of other settings or data."""
    remedy = "remove it, and the same command makes it again"
    try:
        there = json.loads(file.read_text("utf-8").partition("\n")[0].removeprefix("#"))
    except ValueError:
        there = None
    there = there if isinstance(there, dict) else {}
    expect_format(file, there.get("format"), PART_FORMAT, remedy, RunError)
    changed = settings_differences(there["settings"], colors, RESULTS) + differences(
        {"data": there["data"]}, {"data": identity["data"]}
    )
    if changed:
        raise RunError("\n  ".join([f"{file} is of other settings or data; {remedy}", *map(str, changed)]))


def curves(run: Run, stage: str) -> list[dict[str, Any]]:
    """The metric lines of a stage that give the AUC: not all do, since that takes long."""
    lines = read_lines(run.folder / "metrics.jsonl")
    return [line for line in lines if line["stage"] == stage and "attention_auc" in line]
