"""The paper's protocol: train (a teacher, its leave-one-out labels, the network), test, and write the run's folder."""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int
from jraph import GraphsTuple

from jattn import plots
from jattn.attribution import leave_one_out_seeds
from jattn.evaluation import evaluate, join
from jattn.io import save_network
from jattn.nn import Network
from jattn.training import Predictions, predict_seeds
from jattn.training._devices import any_process, fail_together, is_main_process
from jattn.types import Params, Task

from . import figures
from .drawing import try_to_draw
from .folder import (
    MetricsLog,
    Run,
    RunConfig,
    RunError,
    is_finished,
    open_run,
    read_lines,
)
from .identity import fingerprint
from .paths import run_folder
from .progress import count_graphs
from .restarts import best_restart
from .results import Results, SubsetScores, subset_scores
from .settings import Settings
from .signals import Terminated
from .stages import StageTrainer
from .tables import title

DRAWN = 3  # graphs of each subset that a run draws
MOST_LETTERS = 60  # of the name that a new folder begins with, which a data set's path may be part of

Draw = Callable[[Mapping[str, GraphsTuple], Predictions, Path], None]


def draw_examples(
    subsets: Mapping[str, GraphsTuple],
    predictions: Predictions,
    path: Path,
    among: Bool[np.ndarray, " graphs"] | None = None,
    count: int = DRAWN,
) -> None:
    """Draws the first seed's attention on graphs of every subset, evenly spaced in order of size.

    Args:
      subsets: host-side splits.
      predictions: of `join(subsets)`, arrays [seeds, ...].
      path: the picture.
      among: those of `join(subsets)` that may be drawn; all where not given.
      count: how many to draw of each subset.
    """
    ids, titles, start = [], [], 0
    for name, subset in subsets.items():
        end = start + len(subset.n_node)
        chosen = np.arange(start, end) if among is None else start + np.flatnonzero(among[start:end])
        by_size = chosen[np.argsort(subset.n_node[chosen - start], kind="stable")]
        for i in by_size[np.unique(np.linspace(0, len(by_size) - 1, count + 2).astype(int)[1:-1])]:
            ids.append(int(i))
            titles.append(title(name))
        start = end
    output, attention, kept = (
        np.asarray(x[0]) for x in (predictions.prediction, predictions.attention[0], predictions.node_masks[0])
    )
    shown = output[:, 0] if output.shape[1] == 1 else output.argmax(-1)
    plots.save(plots.attention_figure(join(subsets), shown, attention, kept, ids, titles), path)


class Data(NamedTuple):
    """What an experiment trains and tests on.

    Attributes:
      splits: "train", "validation" where there is one, and the test subsets, host-side.
      outputs: outputs a graph.
      draw: draws some graphs of the evaluated subsets with their attention.
      train_ids: where there are several draws of training graphs, those of "train" that are in each draw. Networks of
        all seeds are trained on each, draw after draw.
      test_ids: for each draw the graphs of the test subsets, joined, that its networks are tested on.
    """

    splits: Mapping[str, GraphsTuple]
    outputs: int = 1
    draw: Draw = draw_examples
    train_ids: Sequence[Int[np.ndarray, " _"]] = ()
    test_ids: Sequence[Int[np.ndarray, " _"]] = ()

    def digests(self) -> dict[str, str]:
        """Digests of all that results depend on, by name."""
        draws = {"train_ids": self.train_ids, "test_ids": self.test_ids} if self.train_ids else {}
        return {name: fingerprint(of) for name, of in {**self.splits, **draws}.items()}


class FinishedRun(NamedTuple):
    """A finished run: where it is and what it came to."""

    folder: Path
    results: Results


# Chooses the settings that a study finds best: (settings, stages of the run, outputs) -> (settings to go on with, what
# to add to the results).
Choose = Callable[[Any, StageTrainer, int], tuple[Any, dict[str, Any]]]


def run(
    about: RunConfig, name: str, read: Callable[[], Data], task: Task, choose: Choose | None = None
) -> FinishedRun | None:
    """Runs one configuration: trains it for all seeds, tests it and writes its folder.

    Where the folder holds an interrupted run, goes on with it; where it holds a finished one, gives its results.

    Args:
      about: experiment, preset and settings; where a run is, its data have to be the same, wherever they lie.
      name: what the folder is called where `settings.run.out` does not say, a date added.
      read: reads or draws what to train and test on; not called where the run is finished and the settings say the
        same data as before.
      task: what is predicted.
      choose: goes before training, where settings are to be chosen first.

    Returns:
      The run's folder and results; None if several processes run as one and this is not the first.

    Raises:
      RunError: the folder is another run's, or can't be written.
    """
    out: Path | None = about.settings.run.out
    with fail_together():  # before anything in the folder changes
        data = None if out is not None and is_finished(out, about) else read()
    with acquire_run(about._replace(data=data.digests() if data else None), name) as run:
        results = None if run.finished else _run(about.settings, run, data or read(), task, choose)
        if not is_main_process():
            return None
        return FinishedRun(run.folder, results or Results.read(run.folder))


@contextmanager
def acquire_run(about: RunConfig, name: str) -> Iterator[Run]:
    """The run's folder, of which processes other than the first know nothing; a new one where settings name none."""
    with ExitStack() as held:
        run = Run(Path(), MetricsLog(None), finished=False)
        with fail_together():
            if is_main_process():
                run = held.enter_context(open_run(about.settings.run.out or _new_folder(name), about))
        try:
            yield run._replace(finished=any_process(run.finished))
        except (KeyboardInterrupt, Terminated):
            if is_main_process():
                print(f"stopped; with --out {run.folder} the same command goes on", file=sys.stderr)
            raise


def _run(settings: Settings, run: Run, data: Data, task: Task, choose: Choose | None) -> Results | None:
    splits, evaluation = data.splits, settings.evaluation
    seeds = [*evaluation.all_seeds] * max(len(data.train_ids), 1)
    train_ids = [ids for ids in data.train_ids for _ in evaluation.all_seeds] or None
    batch_size = settings.optimiser.batch_size
    stages = StageTrainer(run, settings.run, batch_size, splits["train"], task, seeds, train_ids)
    settings, report = choose(settings, stages, data.outputs) if choose else (settings, {})
    network, params = _train(settings, stages, data, report.get("tuned", {}))
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
        counted = _test_mask(data.test_ids, len(graphs.n_node), evaluation.seeds)
        scores = subset_scores(evaluate(predictions, subsets, task, counted)) if is_main_process() else {}
    results = None
    with fail_together():
        if is_main_process():
            run.replace_shorter()
            save_network(run.folder / "weights.npz", network, params)
            results = Results(scores, stages.seconds, report.get("tuned"))
            results.write(run.folder)  # before the pictures: they are no reason to lose results
            with stages.timed("pictures"):
                _draw(run.folder, data, subsets, predictions, scores)
            results.write(run.folder)  # with the seconds that pictures took
    return results


def _draw(
    folder: Path,
    data: Data,
    subsets: Mapping[str, GraphsTuple],
    predictions: Predictions,
    scores: Mapping[str, SubsetScores],
) -> None:
    """Draws a run's pictures: curves of training, accuracy by size and label, and attention where there is some."""
    lines, sizes = read_lines(folder / "metrics.jsonl"), data.splits["train"].n_node
    named, trained = {title(key): of_subset for key, of_subset in scores.items()}, (int(sizes.min()), int(sizes.max()))
    try_to_draw(folder / "training.png", lambda path: plots.save(figures.training_figure(lines), path))
    try_to_draw(folder / "accuracy.png", lambda path: plots.save(figures.accuracy_figure(named, trained), path))
    if predictions.attention:
        try_to_draw(folder / "graphs.png", lambda path: data.draw(subsets, predictions, path))


def _train(settings: Settings, stages: StageTrainer, data: Data, tuned: Mapping[str, Any]) -> tuple[Network, Params]:
    """All training stages of a run, up to the network that is tested; `tuned` is what a study reports, if any."""
    attention, epochs = settings.attention, settings.optimiser.epochs
    network, labels = settings.network(data.outputs), None
    if attention.attention == "weak":
        teacher = settings.teacher(data.outputs)
        teacher_params = stages.train(
            "teacher", teacher, settings.teacher_training(stages.task), settings.optimiser.teacher_epochs
        )
        labels = stages.leave_one_out_labels(
            "labels", stages.run.folder / "labels.npz", teacher, teacher_params, attention.label_threshold
        )
    if tuned:  # a longer study may choose another trial, whose network is trained beside the first
        stages.chosen = f"trial-{tuned['trial']}"
    without = "global" if attention.clusters is None else "diffpool"
    stage, config = without if attention.attention == "none" else "attention", settings.training(stages.task)
    validation = data.splits["validation"] if settings.evaluation.best else None
    start = None
    if attention.restarts > 1:
        start = best_restart(stages, network, config, epochs, attention.restarts, labels)
    return network, stages.train(stage, network, config, epochs, labels, validation, start)


def _warn_diverged(seeds: Sequence[int], predictions: Predictions) -> None:
    """Says which networks' outputs are not finite; their scores are what such outputs come to."""
    finite = [np.isfinite(of_network).all() for of_network in np.asarray(predictions.prediction)]
    diverged = sorted({seed for seed, fine in zip(seeds, finite, strict=True) if not fine})
    if diverged and is_main_process():
        which = f"{finite.count(False)} of {len(seeds)} networks diverged (seed {', '.join(map(str, diverged))})"
        print(f"{which}: their outputs are not finite; try a smaller --learning-rate", file=sys.stderr)


def _test_mask(
    tested: Sequence[Int[np.ndarray, " _"]], graphs: int, seeds: int
) -> Bool[np.ndarray, "networks graphs"] | None:
    """The graphs that each network is tested on; all where there are no draws."""
    counted = np.zeros((len(tested), graphs), bool)
    for of_draw, own in zip(counted, tested, strict=True):
        of_draw[own] = True
    return np.repeat(counted, seeds, axis=0) if len(tested) else None


def _new_folder(name: str) -> Path:
    """Makes a folder of its own for a run: two that start in the same second get two."""
    try:
        runs = run_folder("out", Path("runs"))
    except ValueError as error:
        raise RunError(str(error)) from error
    stem = runs / f"{name[:MOST_LETTERS]}-{datetime.now():%Y%m%d-%H%M%S}"
    for folder in itertools.chain([stem], (stem.with_name(f"{stem.name}-{i}") for i in itertools.count(2))):
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(f"{folder}: can't be made ({error.strerror}); name another folder with --out") from error
        return folder
    raise AssertionError("the numbers ran out")
