"""The paper's protocol: train a teacher, compute its leave-one-out labels, train the network and test it."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool
from jraph import GraphsTuple

from jattn import plots
from jattn.attribution import leave_one_out_seeds
from jattn.evaluation import evaluate, join
from jattn.io import save_network
from jattn.nn import Network
from jattn.training import Predictions, predict_seeds
from jattn.training._devices import any_process, fail_together, is_main_process
from jattn.types import Params, Task

from . import pictures
from .data import Data
from .folder import (
    REPORT,
    MetricsLog,
    Run,
    RunConfig,
    RunError,
    is_finished,
    open_run,
    read_lines,
)
from .output import count_graphs, note
from .paths import run_folder
from .pictures import try_to_write
from .restarts import best_restart
from .results import Results, SubsetScores, Tuned, subset_scores
from .samples import SAMPLES, write_samples
from .settings import Settings
from .signals import Terminated
from .stages import StageTrainer
from .tables import title

MAX_LETTERS = 60  # of the name of a new folder, which may contain that of a data set


class FinishedRun(NamedTuple):
    """A finished run.

    Attributes:
      folder: its folder.
      results: its results.
      before: whether an earlier command finished it.
    """

    folder: Path
    results: Results
    before: bool


# Runs a study: (settings, stages of the run, outputs) -> (settings to train with, what was chosen if anything).
Choose = Callable[[Any, StageTrainer, int], tuple[Any, Tuned | None]]


def run(
    config: RunConfig,
    name: str,
    read: Callable[[], Data],
    task: Task,
    report: Callable[[Path], Any],
    choose: Choose | None = None,
) -> FinishedRun | None:
    """Trains and tests the networks of one configuration and writes the run's folder.

    If the folder holds an interrupted run, resumes it; if it holds a finished one, reads its results.

    Args:
      config: experiment, preset and settings. A run that is resumed must have the same data, which may have moved.
      name: the name of the folder if `settings.run.out` is None; a date is added.
      read: reads or generates the data; not called if the run is finished and the settings choose the same data.
      task: what is predicted.
      report: writes the report of the run, whose folder is that of the file that it is given.
      choose: chooses settings before training.

    Returns:
      The run's folder and results; None if several processes run as one and this is not the first.

    Raises:
      RunError: the folder is another run's, or can't be written.
    """
    out: Path | None = config.settings.run.out
    with fail_together():  # before anything in the folder changes
        data = None if out is not None and is_finished(out, config) else read()
    with acquire_run(config._replace(data=data.fingerprints() if data else None), name) as run:
        results = None if run.finished else _run(config.settings, run, data or read(), task, report, choose)
        if not is_main_process():
            return None
        return FinishedRun(run.folder, results or Results.read(run.folder), run.finished)


@contextmanager
def acquire_run(config: RunConfig, name: str) -> Iterator[Run]:
    """Yields the run's folder, a new one if the settings name none; only the first process knows its path."""
    with ExitStack() as held:
        run = Run(Path(), MetricsLog(None), finished=False)
        with fail_together():
            if is_main_process():
                run = held.enter_context(open_run(config.settings.run.out or _new_folder(name), config))
        try:
            yield run._replace(finished=any_process(run.finished))
        except (KeyboardInterrupt, Terminated):
            note(f"stopped; to resume, repeat the command with --out {run.folder}")
            raise


def _run(
    settings: Settings, run: Run, data: Data, task: Task, report: Callable[[Path], Any], choose: Choose | None
) -> Results | None:
    splits, evaluation = data.splits, settings.evaluation
    seeds = [*evaluation.all_seeds] * max(len(data.train_ids), 1)
    train_ids = [ids for ids in data.train_ids for _ in evaluation.all_seeds] or None
    batch_size = settings.optimizer.batch_size
    stages = StageTrainer(run, settings.run, batch_size, splits["train"], task, seeds, train_ids)
    settings, tuned = choose(settings, stages, data.outputs) if choose else (settings, None)
    network, params = _train(settings, stages, data, tuned)
    tested = ["validation"] if evaluation.validation else [key for key in splits if key not in ("train", "validation")]
    subsets = {key: splits[key] for key in tested}
    with stages.timed("test"):
        graphs = join(subsets)
        predictions = predict_seeds(network, params, graphs, compact=settings.run.compact)
        _warn_diverged(seeds, predictions)
        if evaluation.leave_one_out_auc:
            with count_graphs("leave-one-out", len(graphs.n_node), settings.run.quiet) as report_count:
                left_out = leave_one_out_seeds(network, params, graphs, task, report_count).attention
            predictions = predictions._replace(attention=(left_out,), node_masks=(np.ones(left_out.shape, bool),))
        test_mask = data.test_mask(len(graphs.n_node), evaluation.seeds)
        scores = subset_scores(evaluate(predictions, subsets, task, test_mask)) if is_main_process() else {}
    results = None
    with fail_together():
        if is_main_process():
            run.replace_shorter()
            save_network(run.folder / "weights.npz", network, params)
            results = Results(scores, stages.seconds, tuned, stages.labels_removed)
            results.write(run.folder)  # before the pictures, so that none can prevent it
            with stages.timed("pictures"):
                _draw(run.folder, data, subsets, predictions, scores)
                _write_samples(run.folder, data, subsets, predictions, task, test_mask)
            results.write(run.folder)  # with the seconds that pictures took
            try_to_write(run.folder / REPORT, report)
    return results


def _draw(
    folder: Path,
    data: Data,
    subsets: Mapping[str, GraphsTuple],
    predictions: Predictions,
    scores: Mapping[str, SubsetScores],
) -> None:
    """Draws a run's pictures: curves of training, accuracy by size and label, and attention if there is any."""
    lines = read_lines(folder / "metrics.jsonl")
    named, trained = {title(name): subset for name, subset in scores.items()}, data.trained_sizes()
    try_to_write(folder / "training.png", lambda path: plots.save(pictures.training_figure(lines), path))
    try_to_write(folder / "accuracy.png", lambda path: plots.save(pictures.accuracy_figure(named, trained), path))
    if predictions.attention:
        try_to_write(folder / "graphs.png", lambda path: data.draw(subsets, predictions, path))


def _write_samples(
    folder: Path,
    data: Data,
    subsets: Mapping[str, GraphsTuple],
    predictions: Predictions,
    task: Task,
    test_mask: Bool[np.ndarray, "networks graphs"] | None,
) -> None:
    """Writes test graphs with the predictions of the first network, for the run's report."""
    first = None if test_mask is None else test_mask[0]
    arguments = subsets, predictions, task, data.trained_sizes(), first, data.view
    try_to_write(folder / SAMPLES, lambda file: write_samples(file.parent, *arguments))


def _train(settings: Settings, stages: StageTrainer, data: Data, tuned: Tuned | None) -> tuple[Network, Params]:
    """Runs the training stages and returns the network to test, with its weights."""
    attention, epochs = settings.attention, settings.optimizer.epochs
    network, labels = settings.network(data.outputs), None
    if attention.attention == "weak":
        teacher = settings.teacher(data.outputs)
        teacher_params = stages.train(
            "teacher", teacher, settings.teacher_training(stages.task), settings.optimizer.teacher_epochs
        )
        labels = stages.leave_one_out_labels(
            "labels", stages.run.folder / "labels.npz", teacher, teacher_params, attention
        )
    if tuned:  # a longer study may choose another trial, whose checkpoints are kept beside the first's
        stages.chosen = f"trial-{tuned.trial}"
    without = "global" if attention.clusters is None else "diffpool"
    stage, config = without if attention.attention == "none" else "attention", settings.training(stages.task)
    validation = data.splits["validation"] if settings.evaluation.best else None
    start = None
    if attention.restarts > 1:
        start = best_restart(stages, network, config, epochs, attention.restarts, labels)
    return network, stages.train(stage, network, config, epochs, labels, validation, start)


def _warn_diverged(seeds: Sequence[int], predictions: Predictions) -> None:
    """Prints a warning with the seeds of networks whose outputs are not finite."""
    finite = [np.isfinite(output).all() for output in np.asarray(predictions.prediction)]
    diverged = sorted({seed for seed, is_finite in zip(seeds, finite, strict=True) if not is_finite})
    if diverged:
        which = f"{finite.count(False)} of {len(seeds)} networks diverged (seed {', '.join(map(str, diverged))})"
        note(f"{which}: their outputs are not finite; try a smaller --learning-rate")


def _new_folder(name: str) -> Path:
    """Makes a new folder for a run; two runs that start in the same second get two folders."""
    try:
        runs = run_folder("--out", Path("runs"))
    except ValueError as error:
        raise RunError(str(error)) from error
    stem = runs / f"{name[:MAX_LETTERS]}-{datetime.now():%Y%m%d-%H%M%S}"
    for folder in itertools.chain([stem], (stem.with_name(f"{stem.name}-{i}") for i in itertools.count(2))):
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(f"{folder}: can't be made ({error.strerror}); name another folder with --out") from error
        return folder
    raise AssertionError("the numbers ran out")
