"""Makes a ready-made model from a run: one of its networks, evaluated on every test subset, and its card."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jattn.datasets._mnist import mnist_files
from jattn.datasets._tu import sources
from jattn.evaluation import evaluate, join
from jattn.io import PretrainedCard, PretrainedScores, load_network, to_jsonable, write_pretrained
from jattn.nn import Network
from jattn.training import predict_seeds
from jattn.types import Params

from .. import colors, mnist75sp, triangles
from ..run.command import Experiment
from ..run.data import Data
from ..run.folder import CONFIG, RESULTS, RunConfig, RunError, differences, read_config
from ..run.groups import entries, flag, flat, with_changes
from ..run.identity import RESULTS as OF_RESULTS
from ..run.identity import affected, is_of_preset, settings_of
from ..run.presets import describe
from ..run.results import Results, SubsetScores, subset_scores
from ..run.settings import GeneratedData, Settings
from .examples import example_graphs

EXPERIMENTS = {module.EXPERIMENT.name: module.EXPERIMENT for module in (colors, triangles, mnist75sp)}
NAMES = {"colors": "COLORS-3", "triangles": "TRIANGLES", "mnist75sp": "MNIST"}  # of the published data sets
FEATURES = {
    "colors": "one-hot color of the node (green is column 1, counted from 0), then a column of 0",
    "triangles": "one-hot degree of the node, with columns for 0 to 14",
    "mnist75sp": "intensity of the superpixel, three times, then row and column of its center, all from 0 to 1; "
    "less feature_mean, divided by feature_std",
}
FILES: Mapping[str, Callable[[Path | None], Iterable[Path]]] = {
    "colors": lambda folder: sources(folder or "", NAMES["colors"])[1],
    "triangles": lambda folder: sources(folder or "", NAMES["triangles"])[1],
    "mnist75sp": mnist_files,
}
DEAD = 1e-20  # weights of dead units decay to 1e-34 and less; as 0 they take no room in a compressed file


def make(run: Path, folder: Path) -> PretrainedCard:
    """Writes the ready-made model of a finished run and returns its card.

    Args:
      run: the run's folder.
      folder: where the model and its card go.

    Raises:
      RunError: the run is not finished, is of another experiment, is not its preset's, has several seeds without
        validation accuracies, or had other data than are there now.
    """
    config = read_config(run)
    if config is None or not (run / RESULTS).exists():
        raise RunError(f"{run}: there is no finished run; repeat its command with --out {run}")
    experiment, settings = _restored(run, config)
    results = Results.read(run)
    seeds, validation = [*settings.evaluation.all_seeds], _validation_accuracy(run, results)
    seed = median_seed(seeds, validation)
    network, params = load_network(run / "weights.npz")
    params = jax.tree.map(lambda array: _without_dead(array[seeds.index(seed)]), params)
    data = experiment.data(settings)
    if changed := differences(config, RunConfig(config.experiment, config.preset, settings, data.fingerprints())):
        raise RunError("\n  ".join([f"{run}: its data are not those that are there now", *map(str, changed)]))
    examples = example_graphs(experiment.name, data.feature_mean, data.feature_std)
    outputs = predict_seeds(network, _one_seed(params), examples).prediction[0].astype(float).round(6)
    card = PretrainedCard(
        name=f"{experiment.name}-{config.preset}",
        about=describe(config.preset, experiment.variants),
        task=experiment.task,
        features=FEATURES[experiment.name],
        feature_mean=tuple(data.feature_mean),
        feature_std=tuple(data.feature_std),
        scores=_scores(network, params, data, settings, experiment),
        seed=seed,
        seeds=tuple(seeds),
        validation_accuracy=tuple(round(accuracy, 3) for accuracy in validation),
        command=command_line(experiment, config.preset, settings),
        settings=settings_of(settings, OF_RESULTS if _is_read(settings) else ["data", *OF_RESULTS]),
        data=_data(experiment.name, settings),
        versions=json.loads((run / CONFIG).read_text("utf-8"))["versions"],
        seconds={stage: round(seconds, 1) for stage, seconds in results.seconds.items()},
        examples=tuple(map(tuple, outputs.tolist())),
    )
    write_pretrained(folder, card, network, params)
    return card


def median_seed(seeds: Sequence[int], validation: Sequence[float]) -> int:
    """Returns the seed whose validation accuracy is the median.

    For an even number of seeds that is the lower of the two in the middle; of equal ones, the lowest seed.

    Args:
      seeds: all seeds.
      validation: their validation accuracies; may be empty if there is one seed.
    """
    if len(seeds) == 1:
        return seeds[0]
    median = sorted(validation)[(len(validation) - 1) // 2]
    return min(seed for seed, accuracy in zip(seeds, validation, strict=True) if accuracy == median)


def command_line(experiment: Experiment, preset: str, settings: Settings) -> str:
    """Returns the command that trains all seeds of some settings again, with DIR for the folder of the data."""
    before, parts = flat(experiment.presets[preset]), ["jattn", experiment.name, preset]
    for _, field, value in entries(settings):
        if affected(field, before) == "nothing" or to_jsonable(value) == before[field.name]:
            continue
        if isinstance(value, bool):
            parts.append(flag(field.name) if value else f"--no-{flag(field.name)[2:]}")
        elif field.name == "data_dir":
            parts += [flag(field.name), "DIR"]
        else:
            values = value if isinstance(value, tuple) else (value,)
            parts += [flag(field.name), *map(str, values)]
    return " ".join(parts)


def _restored(run: Path, config: RunConfig) -> tuple[Experiment, Settings]:
    """The experiment and the settings of a run, where it is one of a preset."""
    experiment = EXPERIMENTS.get(config.experiment)
    if experiment is None or config.preset not in experiment.presets:
        raise RunError(f"{run}: ready-made models are of presets of {', '.join(EXPERIMENTS)}")
    preset, changes = experiment.presets[config.preset], {}
    for _, field, value in entries(preset):
        stored = config.settings.get(field.name, to_jsonable(value))
        if affected(field, config.settings) != "nothing" and stored != to_jsonable(value):
            changes[field.name] = Path(stored) if field.name == "data_dir" else stored
    settings = with_changes(preset, **{k: tuple(v) if isinstance(v, list) else v for k, v in changes.items()})
    if not is_of_preset({**flat(settings), "validation": False}, preset):
        raise RunError(f"{run}: its settings are not those of {config.preset}; train it as {experiment.name} has it")
    return experiment, settings


def _validation_accuracy(run: Path, results: Results) -> tuple[float, ...]:
    if "validation" in results.subsets:
        return results.subsets["validation"].accuracy.values
    if results.networks > 1:
        raise RunError(f"{run}: a median of {results.networks} seeds needs a run with --validation")
    return ()


def _without_dead(weights: np.ndarray) -> np.ndarray:
    return np.where(np.abs(weights) < DEAD, np.zeros_like(weights), weights)


def _one_seed(params: Params) -> Params:
    """Weights with an axis of one seed."""
    return jax.tree.map(lambda array: array[None], params)


def _scores(
    network: Network, params: Params, data: Data, settings: Settings, experiment: Experiment
) -> dict[str, PretrainedScores]:
    """Scores on every test subset, and on all of them together as "all"."""
    subsets = {name: split for name, split in data.splits.items() if name not in ("train", "validation")}
    predictions = predict_seeds(network, _one_seed(params), join(subsets), compact=settings.run.compact)
    scores = subset_scores(evaluate(predictions, subsets, experiment.task))
    return {name: _rounded(subset) for name, subset in scores.items()}


def _rounded(subset: SubsetScores) -> PretrainedScores:
    aucs = tuple(round(auc.mean, 3) for auc in subset.attention_auc)
    return PretrainedScores(round(subset.accuracy.mean, 3), aucs, subset.graphs or 0)


def _is_read(settings: Settings) -> bool:
    """Whether published data were read that could have been generated; then no setting but --data-dir chooses data."""
    return isinstance(settings.data, GeneratedData) and settings.data.data_dir is not None


def _data(experiment: str, settings: Settings) -> dict[str, Any]:
    """The data set of some settings, with the hashes of its files."""
    folder = settings.data.data_dir
    if folder is None and experiment != "mnist75sp":
        return {"name": NAMES[experiment], "source": "generated", "files": {}}
    files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in FILES[experiment](folder)}
    return {"name": NAMES[experiment], "source": "published", "files": files}
