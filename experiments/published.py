"""Models that the paper's authors trained, evaluated on the data sets that their configurations name.

    python -m experiments.published FOLDER --data-dir DIR

FOLDER holds `index.json` and `NAME.weights.npz` of every model, DIR the published COLORS-3 and TRIANGLES data sets and
MNIST's files, in DIR or DIR/mnist.
"""

import functools
import json
import sys
import time
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro

from jattn import datasets, evaluation, io, training
from jattn._choices import Task

from .run.command_line import call
from .run.devices import configure_jax
from .run.errors import fail
from .run.paths import local_path
from .run.program import as_typed, program
from .run.results import TOGETHER, subset_scores
from .run.tables import as_text

if TYPE_CHECKING:  # a command line is read without jax
    from jraph import GraphsTuple


def print_scores(
    folder: Annotated[Path, tyro.conf.Positional],
    data_dir: Path,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Prints accuracy on each test subset and attention AUC of every model of a folder, in per cent.

    Args:
      folder: Folder with index.json and NAME.weights.npz of every model.
      data_dir: Folder of the published data sets, zipped or not, and of MNIST's files.
      as_json: Print {"NAME": {"orig": ..., "auc_0": ...}} on standard output, and nothing else there.
    """
    configure_jax()
    results = {}
    try:
        folder, data_dir = local_path("folder", folder), local_path("--data-dir", data_dir)
        for name, model in io.load_published(folder).items():
            start = time.perf_counter()
            statistics = model.feature_mean, model.feature_std
            subsets = _subsets(model.config["dataset"], _input_columns(model), data_dir, *statistics)
            results[name] = _scores(model, subsets)
            if not as_json:
                print(f"{name} ({time.perf_counter() - start:.1f} s)")
                print(_table(results[name], model.expected), flush=True)
    except (OSError, ValueError) as error:
        fail(str(error))
    if as_json:
        print(json.dumps(results))


@functools.cache
def _subsets(
    data_set: str, columns: int, data_dir: Path, mean: tuple[float, ...] | None, std: tuple[float, ...] | None
) -> "dict[str, GraphsTuple]":
    """The test subsets that models of so many input columns read, normalized by what belongs to them."""
    match data_set:
        case "colors-3":
            splits = datasets.published_colors(data_dir)
        case "triangles":
            splits = datasets.published_triangles(data_dir, degree_columns=columns)
        case "mnist-75sp":
            mean_array, std_array = (None if values is None else np.array(values) for values in (mean, std))
            splits = datasets.mnist75sp(data_dir, train_images=1, mean=mean_array, std=std_array).splits
        case _:
            raise ValueError(f"data set {data_set!r} is not known, expected 'colors-3', 'triangles' or 'mnist-75sp'")
    return {name: split for name, split in splits.items() if name not in ("train", "validation")}


def _input_columns(model: "io.PublishedModel") -> int:
    first = model.params["conv_0"]["hidden_layer" if model.network.hidden else "linear"]
    return first["kernel"].shape[0]


def _scores(model: "io.PublishedModel", subsets: "dict[str, GraphsTuple]") -> dict[str, float]:
    import jax

    one_seed = jax.tree.map(lambda array: array[None], model.params)
    task: Task = "regression" if model.network.outputs == 1 else "classification"
    predictions = training.predict_seeds(model.network, one_seed, evaluation.join(subsets))
    scores = subset_scores(evaluation.evaluate(predictions, subsets, task))
    accuracies = {name: scores[name].accuracy.mean for name in subsets}
    aucs = {f"auc_{i}": auc.mean for i, auc in enumerate(scores[TOGETHER].attention_auc)}
    return {name: round(value, 4) for name, value in (accuracies | aucs).items()}


def _table(scores: dict[str, float], expected: dict[str, float]) -> str:
    rows = [[name, f"{value:.2f}", f"{expected.get(name, np.nan):.2f}"] for name, value in scores.items()]
    return indent(as_text([["%", "here", "expected"], *rows]), "  ")


def main(arguments: list[str]) -> None:
    """Runs the evaluation that a command line asks for."""
    call(print_scores, arguments, program("published"), as_typed(__doc__ or ""))


if __name__ == "__main__":
    main(sys.argv[1:])
