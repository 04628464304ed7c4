"""Tuning: settings of attention are chosen by cross-validation on the training graphs, in a study that can be resumed.

A trial trains one network per fold, all in one program. Its score is the mean minus the standard deviation of their
accuracy on the graphs left out. The study is kept in the run's folder, or in a database that several machines share.
"""

import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from jraph import GraphsTuple

from jattn import plots
from jattn.datasets import fold_ids
from jattn.evaluation import accuracy, mean_std
from jattn.graphs import select_graphs
from jattn.io._files import expect_format
from jattn.training import predict_seeds, train_seeds
from jattn.types import Task

from . import pictures
from .errors import fail
from .folder import RunError
from .groups import with_changes
from .identity import differences, fingerprint, growing, key_of, settings_differences, settings_of
from .output import note
from .pictures import try_to_write
from .results import Tuned, as_mean_std
from .settings import Settings
from .stages import StageTrainer
from .tables import write_csv
from .tunable import Tunable, TunableSettings

if TYPE_CHECKING:  # importing optuna takes a second, which runs without a study need not wait for
    from optuna import Study, Trial
    from optuna.storages import RDBStorage

STUDY_FORMAT = 2


class Folds(NamedTuple):
    """The graphs that the networks of a trial are trained and validated on.

    Attributes:
      graphs: all training graphs, host-side.
      seeds: the seed of each network.
      train: the graphs that each network trains on.
      validation: the graphs that each network is validated on.
      labels: with weak supervision, the target attention of each network.
    """

    graphs: GraphsTuple
    seeds: Sequence[int]
    train: Sequence[Int[np.ndarray, " _"]]
    validation: Sequence[Int[np.ndarray, " _"]]
    labels: Float[np.ndarray, "networks nodes"] | None = None


def tune(settings: Tunable, stages: StageTrainer, outputs: int) -> tuple[Tunable, Tuned | None]:
    """The best settings that a study finds; unchanged if there is no study.

    Args:
      settings: says which study, if any.
      stages: the run. The study sees only the training graphs of its first network.
      outputs: outputs per graph.

    Returns:
      The settings to train with, and the choice; None if there is no study.
    """
    trials = settings.tuning.tune
    if not trials:
        return settings, None
    folder = stages.run.folder
    with stages.timed("tuning"):
        graphs = stages.graphs if stages.train_ids is None else select_graphs(stages.graphs, stages.train_ids[0])
        study = _study(settings, graphs, folder)
        before = sum(row["seconds"] for row in _rows(study))
        folds = make_folds(settings, graphs, stages, outputs)
        while len(_rows(study)) < trials:
            number = run_trial(study, settings, folds, stages.task, outputs)
            rows = _rows(study)
            row, best = next(row for row in rows if row["trial"] == number), study.best_trial
            note(
                f"tuning: {len(rows)} of {trials} trials, {row['seconds']} s, {row['mean']:.1f} - "
                f"{row['std']:.1f} % with {format_params(row)}; best {best.value:.1f} %",
                settings.run.quiet,
            )
            _write(rows, folder)
        rows = _rows(study)
        _write(rows, folder)
    stages.seconds["tuning"] += before  # trials before an interruption, or on other machines
    best = study.best_trial
    note(f"tuning: chose {format_params(best.params)}", settings.run.quiet)
    accuracies = as_mean_std(mean_std(best.user_attrs["accuracies"]))
    tuned = Tuned(best.params, study.best_value, accuracies, best.number, len(rows))
    return with_changes(settings, **best.params), tuned


def _study(settings: TunableSettings, graphs: GraphsTuple, folder: Path) -> "Study":
    """The study with the identity of these settings and graphs, which its name comes from; a new one if there is none.

    Raises:
      RunError: the run's own file has a study of other settings or data, or of another format.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    from .sampler import ByTrial

    affecting = settings_of(settings, ["training"])
    identity = {name: value for name, value in affecting.items() if name not in growing(settings)}
    data = {"graphs": fingerprint(graphs)}
    name = f"jattn-{key_of(identity, settings, data)}"
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    database = settings.tuning.storage
    address: str | Path = database or folder / "study.db"
    try:
        storage = _database(database, folder / "study.db")
        names = optuna.get_all_study_names(storage)
        # A shared database may have other studies; the run's own file has one.
        found = name if database or name in names or not names else names[0]
        study = optuna.create_study(
            storage=storage, study_name=found, sampler=ByTrial(), load_if_exists=True, direction="maximize"
        )
        if "identity" not in study.user_attrs and not study.get_trials(deepcopy=False):
            study.set_user_attr("identity", {"format": STUDY_FORMAT, "settings": identity, "data": data})
        _expect_same(study, settings, data, address)
    except (SQLAlchemyError, ImportError) as error:
        fail(f"--storage: {address} can't be used: {str(error).splitlines()[0]}")
    return study


def _expect_same(study: "Study", settings: TunableSettings, data: Mapping[str, str], address: str | Path) -> None:
    """Raises a `RunError` if a study is of other settings or data."""
    there, remedy = study.user_attrs.get("identity", {}), "choose another folder or storage"
    expect_format(address, there.get("format"), STUDY_FORMAT, remedy, RunError)
    changed = [
        difference
        for difference in settings_differences(there["settings"], settings, ["training"])
        if difference.name not in growing(settings)
    ]
    changed += differences({"data": there["data"]}, {"data": data})
    if changed:
        raise RunError("\n  ".join([f"{address} has a study of other settings or data; {remedy}", *map(str, changed)]))


def _database(address: str | None, file: Path) -> "RDBStorage":
    """The database at an address, or else in a file, whose path may have any characters."""
    from optuna.storages import RDBStorage
    from sqlalchemy.pool import NullPool

    # Without a pool, a connection is closed after use, whatever error ends the run.
    options: dict[str, Any] = {"poolclass": NullPool}
    if address is None:
        options["creator"] = lambda: sqlite3.connect(file, check_same_thread=False)
    return RDBStorage(address or "sqlite:///study.db", engine_kwargs=options)


def make_folds(settings: TunableSettings, graphs: GraphsTuple, stages: StageTrainer, outputs: int) -> Folds:
    """The folds of some training graphs and, for weak supervision, their teachers' labels; all trials share them."""
    first_seed = settings.evaluation.seed
    try:
        parts = fold_ids(len(graphs.n_node), settings.tuning.folds, first_seed)
    except ValueError as error:
        fail(f"--folds: {error}")
    size = min(len(train) for train, _ in parts)  # the same for all, which make the same number of steps
    seeds, train, validation = [], [], []
    for others, part in parts:
        for seed in range(first_seed, first_seed + settings.tuning.tune_seeds):
            seeds.append(seed)
            train.append(others[:size])
            validation.append(part)
    folds = Folds(graphs, seeds, train, validation)
    if settings.attention.attention != "weak":
        return folds
    fold_stages = stages.with_networks(graphs, seeds, train)
    teacher = settings.teacher(outputs)
    params = fold_stages.train(
        "teachers of folds", teacher, settings.teacher_training(stages.task), settings.optimizer.teacher_epochs
    )
    file = stages.run.folder / "fold_labels.npz"
    labels = fold_stages.leave_one_out_labels("labels of folds", file, teacher, params, settings.attention)
    return folds._replace(labels=labels)


def cross_validate(settings: Settings, folds: Folds, task: Task, outputs: int) -> list[float]:
    """The accuracy of each network on the graphs that it is validated on, in per cent."""
    network, config = settings.network(outputs), settings.training(task)
    for epoch in train_seeds(
        network,
        config,
        folds.graphs,
        folds.seeds,
        settings.optimizer.epochs,
        settings.optimizer.batch_size,
        folds.labels,
        folds.train,
    ):
        params = epoch.state.params
    predictions = predict_seeds(network, params, folds.graphs, compact=config.compact).prediction
    label = folds.graphs.globals["label"]
    pairs = zip(predictions, folds.validation, strict=True)
    return [accuracy(prediction[ids], label[ids], task) for prediction, ids in pairs]


def run_trial(study: "Study", settings: TunableSettings, folds: Folds, task: Task, outputs: int) -> int:
    """Runs one trial and returns its number; an interrupted trial counts as failed."""
    from optuna.trial import TrialState

    start, trial = time.perf_counter(), study.ask()
    try:
        changed = with_changes(settings, **suggest_settings(trial, settings))
        accuracies = cross_validate(changed, folds, task, outputs)
    except BaseException:
        study.tell(trial, state=TrialState.FAIL)
        raise
    trial.set_user_attr("accuracies", accuracies)
    trial.set_user_attr("seconds", round(time.perf_counter() - start, 1))
    study.tell(trial, float(np.mean(accuracies) - np.std(accuracies)))
    return trial.number


def suggest_settings(trial: "Trial", settings: TunableSettings) -> dict[str, Any]:
    """The settings that a trial tries, by name."""
    proposed: dict[str, Any] = {"scorer": trial.suggest_categorical("scorer", ["linear", "mlp"])}
    if settings.attention.pooling == "threshold":
        proposed["threshold"] = trial.suggest_float("threshold", 1e-4, 1e-1, log=True)
    else:
        proposed["ratio"] = trial.suggest_float("ratio", 0.1, 1)
    if settings.attention.attention == "weak":
        proposed["attention_weight"] = trial.suggest_float("attention_weight", 0.1, 100, log=True)
    if settings.tuning.tune_init:
        proposed["init"] = trial.suggest_categorical("init", ["normal", "uniform"])
        proposed["init_scale"] = trial.suggest_float("init_scale", 0.1, 2)
    return proposed


def _rows(study: "Study") -> list[dict[str, Any]]:
    """The finished trials of all machines, in order."""
    from optuna.trial import TrialState

    rows = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        accuracies, seconds = trial.user_attrs["accuracies"], trial.user_attrs["seconds"]
        row = {"trial": trial.number, "score": trial.value, "mean": np.mean(accuracies), "std": np.std(accuracies)}
        rows.append({**row, "seconds": seconds, **trial.params})
    return rows


def _write(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """Writes the table and the picture of the study."""
    write_csv(folder / "study.csv", rows)
    try_to_write(folder / "study.png", lambda path: plots.save(pictures.study_figure(rows), path))


def format_params(row: dict[str, Any]) -> str:
    """The settings of a trial as text."""
    named = {name: x for name, x in row.items() if name not in pictures.MEASURED}
    return ", ".join(f"{name} {x:.3g}" if isinstance(x, float) else f"{name} {x}" for name, x in named.items())
