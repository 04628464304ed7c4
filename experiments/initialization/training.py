"""Training COLORS from many initial projections p at once, and tables of the results, which are made once."""

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

from jattn.datasets._colors import GREEN
from jattn.evaluation import accuracy, attention_auc, cosine_similarity, join, mean_std
from jattn.io._files import expect_format
from jattn.training import Epoch, predict_seeds
from jattn.training._devices import to_host
from jattn.types import Params

from ..colors import Colors
from ..run.folder import MADE_AGAIN, Run, RunError, read_lines
from ..run.identity import RESULTS, differences, fingerprint, settings_differences, settings_of
from ..run.stages import InitialWeights, StageTrainer
from ..run.tables import write_csv
from .projections import with_projections

PART_FORMAT = 1
SUBSETS = ("orig", "large", "largec")
INTEGERS = ("seed", "epoch")  # columns of tables that are integers
POOLING = "pool_1"  # of the networks trained here

Row = Mapping[str, Any]


class StudyTrainer(StageTrainer):
    """A `StageTrainer` whose metric lines with an AUC have the cosine of each network's p with the optimum, too."""

    def _line(self, stage: str, epoch: Epoch, epochs: int) -> dict[str, Any]:
        line = super()._line(stage, epoch, epochs)
        if "attention_auc" in line:
            line["cosine"] = mean_std([cosine(p) for p in _projections(to_host(epoch.state.params))])
        return line


class StudyCell(NamedTuple):
    """Networks that differ in their initial p alone.

    Attributes:
      name: the name of their stages and files.
      training: how to train them, and the seeds per distribution of p.
      splits: COLORS, host-side.
    """

    name: str
    training: Colors
    splits: Mapping[str, GraphsTuple]

    @property
    def model_seeds(self) -> list[int]:
        """The seeds of networks whose p has the same distribution."""
        return list(self.training.evaluation.all_seeds)

    @property
    def dimension(self) -> int:
        """Columns of the features that are not 0 in training: n."""
        return int(self.splits["train"].nodes["features"].shape[1]) - 1


class Trained(NamedTuple):
    """Results from some initial projections, one entry per network.

    Attributes:
      initial_cosine: the cosine of the initial p with the optimum.
      final_cosine: the cosine of the trained p with the optimum.
      auc: the AUC of attention on all test subsets together, in per cent.
      accuracies: the accuracy on each of `SUBSETS`, in per cent.
    """

    initial_cosine: list[float]
    final_cosine: list[float]
    auc: list[float]
    accuracies: list[list[float]]


def optimum(dimension: int) -> Float[np.ndarray, " dimension"]:
    """The direction of p that selects green nodes, without the column that is 0 in training."""
    return np.eye(dimension, dtype=np.float32)[GREEN]


def cosine(p: Float[np.ndarray, " columns"]) -> float:
    """The cosine of p with the optimum, without the last column, which is 0 in training and so has no gradient."""
    return cosine_similarity(p[:-1], optimum(len(p) - 1))


def train(run: Run, cell: StudyCell, stage: str, projections: Float[np.ndarray, "networks columns"]) -> Params:
    """Trains a network from each p, all in one program, from the stage's last checkpoint if there is one.

    Args:
      run: the folder.
      cell: the networks to train.
      stage: its name.
      projections: initial p's, for all seeds again and again.
    """
    colors, repetitions = cell.training, len(projections) // len(cell.model_seeds)
    labels = np.tile(_weak_labels(run, cell), (repetitions, 1)) if colors.attention.attention == "weak" else None
    return _stages(run, cell, repetitions).train(
        stage,
        colors.network(1),
        colors.training("regression"),
        colors.optimizer.epochs,
        labels,
        start=InitialWeights(
            lambda state: with_projections(state, POOLING, projections), {"projections": fingerprint(projections)}
        ),
    )


def _weak_labels(run: Run, cell: StudyCell) -> Float[np.ndarray, "seeds nodes"]:
    """The labels of each seed's teacher, which has no attention: they are made once for all p's."""
    colors, stages = cell.training, _stages(run, cell)
    name, epochs = f"{cell.name} teacher", colors.optimizer.teacher_epochs
    params = stages.train(name, colors.teacher(1), colors.teacher_training("regression"), epochs)
    file = run.folder / "parts" / f"{name.replace(' ', '-')}-labels.npz"
    return stages.leave_one_out_labels(f"{cell.name} labels", file, colors.teacher(1), params, colors.attention)


def _projections(params: Params) -> Float[np.ndarray, "networks columns"]:
    return np.asarray(params[POOLING]["scorer"]["projection"]["kernel"])[:, :, 0]


def _stages(run: Run, cell: StudyCell, repetitions: int = 1) -> StageTrainer:
    """Trains all seeds of a cell several times."""
    colors, seeds = cell.training, cell.model_seeds * repetitions
    return StudyTrainer(run, colors.run, colors.optimizer.batch_size, cell.splits["train"], "regression", seeds)


def test(cell: StudyCell, params: Params, projections: Float[np.ndarray, "networks columns"]) -> Trained:
    """Tests trained networks, as many at a time as there are seeds.

    Args:
      cell: the networks.
      params: their weights.
      projections: the initial p of each.
    """
    network, graphs = cell.training.network(1), join({name: cell.splits[name] for name in SUBSETS})
    sizes = [len(cell.splits[name].n_node) for name in SUBSETS]
    label, truth = (np.split(graphs.globals["label"], np.cumsum(sizes)[:-1])), graphs.nodes["attention"]
    final = _projections(params)
    auc, accuracies, together = [], [], len(cell.model_seeds)
    for start in range(0, len(final), together):
        chosen = jax.tree.map(lambda x, start=start: x[start : start + together], params)
        predictions = predict_seeds(network, chosen, graphs, compact=cell.training.run.compact)
        auc += [attention_auc(np.asarray(attention), truth) for attention in predictions.attention[0]]
        for output in predictions.prediction:
            parts = np.split(np.asarray(output), np.cumsum(sizes)[:-1])
            accuracies.append([accuracy(*part, "regression") for part in zip(parts, label, strict=True)])
    return Trained([cosine(p) for p in projections], [cosine(p) for p in final], auc, accuracies)


def cached_table(
    run: Run,
    cell: StudyCell,
    name: str,
    projections: Float[np.ndarray, "networks columns"],
    make: Callable[[str], Sequence[Row]],
) -> list[Row]:
    """A table of the run, which is made once, then read from its file.

    Args:
      run: the folder.
      cell: the networks that the table is of.
      name: the name of the table, and of its stage of training.
      projections: the initial p of each network.
      make: makes it: stage -> rows of numbers.

    Returns:
      The rows, the same whether they were made or read.

    Raises:
      RunError: the file is of other settings or data, or of another format.
    """
    file = run.folder / "parts" / f"{name.replace(' ', '-')}.csv"
    identity = {
        "format": PART_FORMAT,
        "settings": settings_of(cell.training, RESULTS),
        "data": {
            "projections": fingerprint(projections),
            **{split: fingerprint(graphs) for split, graphs in cell.splits.items()},
        },
    }
    if file.exists():
        _expect_same(file, identity, cell.training)
    else:
        write_csv(file, make(name), f"# {json.dumps(identity)}\n")
    # Checkpoints take much room, and are of no use once the table is there.
    shutil.rmtree(run.folder / "checkpoints" / name.replace(" ", "-"), ignore_errors=True)
    rows = csv.DictReader(file.read_text("utf-8").splitlines()[1:])
    return [{column: int(x) if column in INTEGERS else float(x) for column, x in row.items()} for row in rows]


def _expect_same(file: Path, identity: Mapping[str, Any], colors: Colors) -> None:
    """Raises a `RunError` if a table is of other settings or data."""
    try:
        there = json.loads(file.read_text("utf-8").partition("\n")[0].removeprefix("#"))
    except ValueError:
        there = None
    there = there if isinstance(there, dict) else {}
    expect_format(file, there.get("format"), PART_FORMAT, MADE_AGAIN, RunError)
    changed = settings_differences(there["settings"], colors, RESULTS) + differences(
        {"data": there["data"]}, {"data": identity["data"]}
    )
    if changed:
        raise RunError("\n  ".join([f"{file} is of other settings or data; {MADE_AGAIN}", *map(str, changed)]))


def curves(run: Run, stage: str) -> list[dict[str, Any]]:
    """The metric lines of a stage that have an AUC and a cosine: not all do, since an AUC takes long."""
    lines = read_lines(run.folder / "metrics.jsonl")
    return [line for line in lines if line["stage"] == stage and "attention_auc" in line]
