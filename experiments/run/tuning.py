"""Choosing an attention's settings by cross-validation on the training graphs alone: a study that can be resumed.

A trial trains a network a fold, all in one program, and is worth the mean less the standard deviation of their accuracy
on the graphs left out. The study is kept in the run's folder, or in a database that several machines share.
"""

import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from jaxtyping import Float, Int
from jraph import GraphsTuple

from jattn import plots
from jattn._options import expect_at_least, expect_seeds, setting
from jattn.datasets import fold_ids
from jattn.evaluation import accuracy, mean_std
from jattn.graphs import select
from jattn.io._files import expect_format
from jattn.training import Task, predict_seeds, train_seeds

from . import figures
from .drawing import try_to_draw
from .errors import fail
from .folder import RunError
from .identity import differences, fingerprint, growing, key_of, settings_differences, settings_of
from .settings import Settings
from .stages import StageTrainer
from .tables import write_csv

if TYPE_CHECKING:  # importing optuna takes a second, which runs without a study need not wait
    from optuna import Study, Trial
    from optuna.storages import RDBStorage

STUDY_FORMAT = 2


@dataclass(frozen=True)
class Tunable(Settings):
    """Settings of experiments whose attention can be tuned."""

    tune: int = setting(0, "training", may_grow=True)
    """Trials of a study that chooses --threshold (or --ratio), --attention-weight and --scorer (linear or mlp) by
    cross-validation on the training graphs, before training on all of them and testing once. The same command again
    goes on with a study that was stopped; with a larger number here it makes it longer."""
    folds: int = setting(5, "training")
    """Folds of the study's cross-validation."""
    tune_seeds: int = setting(1, "training")
    """Networks that the study trains for each fold."""
    tune_init: bool = setting(False, "training")
    """Let the study also choose --init and --init-scale."""
    storage: str | None = setting(None, "nothing")
    """Database of the study, such as postgresql://USER@HOST/NAME or sqlite:////shared/study.db: machines that run the
    same command with it share the study. A file in the run's folder where not given."""

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_at_least(0, tune=self.tune)
        expect_at_least(2, folds=self.folds)
        expect_at_least(1, tune_seeds=self.tune_seeds)
        expect_seeds(self.seed, self.tune_seeds)
        if self.tune and self.attention == "none":
            raise ValueError("tune: there is nothing to choose, since global pooling has no attention")
        if self.tune and self.coordinator is not None:
            raise ValueError("tune: several processes can't run a study as one; let each run it, with the same storage")
        if self.storage is not None and urlsplit(self.storage).password:
            raise ValueError(
                "storage: leave the password out, since the run's folder keeps the address; databases' drivers read it "
                "from a file or the environment, such as ~/.pgpass or PGPASSWORD"
            )
        others = {of.name for of in fields(Settings)}
        for of in fields(Tunable):
            if not self.tune and of.name not in others and getattr(self, of.name) != of.default:
                raise ValueError(f"{of.name}: there is no study without --tune")


class Folds(NamedTuple):
    """What the networks of a trial train on and are validated on.

    Attributes:
      graphs: all training graphs, host-side.
      seeds: of each network.
      train: graphs that each network trains on.
      validation: graphs that each network is validated on.
      labels: target attention of each network, [networks, nodes], under weak supervision.
    """

    graphs: GraphsTuple
    seeds: Sequence[int]
    train: Sequence[Int[np.ndarray, " _"]]
    validation: Sequence[Int[np.ndarray, " _"]]
    labels: Float[np.ndarray, "networks nodes"] | None = None


def tune(settings: Any, stages: StageTrainer, outputs: int) -> tuple[Any, dict[str, Any]]:
    """The settings that a study finds best; as they are where none is asked for.

    Args:
      settings: a `Tunable`.
      stages: of the run whose settings are chosen. The graphs of its first network are all that the study sees.
      outputs: outputs a graph.

    Returns:
      The settings to go on with, and what to add to the results: under "tuned" what was chosen and how good it was.
    """
    if not settings.tune:
        return settings, {}
    folder = stages.run.folder
    with stages.timed("tuning"):
        graphs = stages.graphs if stages.train_ids is None else select(stages.graphs, stages.train_ids[0])
        study = _study(settings, graphs, folder)
        before = sum(row["seconds"] for row in _rows(study))
        folds = make_folds(settings, graphs, stages, outputs)
        while len(_rows(study)) < settings.tune:
            number = run_trial(study, settings, folds, stages.task, outputs)
            rows = _rows(study)
            own, best = next(row for row in rows if row["trial"] == number), study.best_trial
            print(
                f"tuning: {len(rows)} of {settings.tune} trials, {own['seconds']} s, {own['mean']:.1f} - "
                f"{own['std']:.1f} % with {format_params(own)}; best {best.value:.1f} %",
                file=sys.stderr,
            )
            _write(rows, folder)
        rows = _rows(study)
        _write(rows, folder)
    stages.seconds["tuning"] += before  # trials of a run that was stopped, or of other machines
    best = study.best_trial
    print(f"tuning: chose {format_params(best.params)}", file=sys.stderr)
    accuracies = mean_std(best.user_attrs["accuracies"])
    tuned = {"settings": best.params, "score": best.value, "accuracy": accuracies}
    tuned |= {"trial": best.number, "trials": len(rows)}
    return replace(settings, **best.params), {"tuned": tuned}


def _study(settings: Tunable, graphs: GraphsTuple, folder: Path) -> "Study":
    """Starts a study or goes on with it: the one of the same identity, by which it is named.

    Raises:
      RunError: what is there is of other settings or data, or of another format.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    from .sampler import ByTrial

    kept = {name: of for name, of in settings_of(settings, ["training"]).items() if name not in growing(settings)}
    data = {"graphs": fingerprint(graphs)}
    name = f"jattn-{key_of(kept, type(settings), data)}"
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    address: str | Path = settings.storage or folder / "study.db"
    try:
        storage = _database(settings.storage, folder / "study.db")
        names = optuna.get_all_study_names(storage)
        # Others' studies may be in a database that is shared; the run's own file has the run's own alone.
        found = name if settings.storage or name in names or not names else names[0]
        study = optuna.create_study(
            storage=storage, study_name=found, sampler=ByTrial(), load_if_exists=True, direction="maximize"
        )
        if "identity" not in study.user_attrs and not study.get_trials(deepcopy=False):
            study.set_user_attr("identity", {"format": STUDY_FORMAT, "settings": kept, "data": data})
        _expect_same(study, settings, data, address)
    except (SQLAlchemyError, ImportError) as error:
        fail(f"storage: {address} can't be used: {str(error).splitlines()[0]}")
    return study


def _expect_same(study: "Study", settings: Tunable, data: Mapping[str, str], address: str | Path) -> None:
    """Raises a `RunError` where a study is of other settings or data."""
    there, remedy = study.user_attrs.get("identity", {}), "choose another folder or storage"
    expect_format(address, there.get("format"), STUDY_FORMAT, remedy, RunError)
    changed = [
        of for of in settings_differences(there["settings"], settings, ["training"]) if of.name not in growing(settings)
    ]
    changed += differences({"data": there["data"]}, {"data": data})
    if changed:
        raise RunError("\n  ".join([f"{address} has a study of other settings or data; {remedy}", *map(str, changed)]))


def _database(address: str | None, file: Path) -> "RDBStorage":
    """The database at an address, or else in a file; its path is not read as an address: it may have any characters."""
    from optuna.storages import RDBStorage
    from sqlalchemy.pool import NullPool

    # Without a pool a connection is closed after use, whichever error ends the run.
    options: dict[str, Any] = {"poolclass": NullPool}
    if address is None:
        options["creator"] = lambda: sqlite3.connect(file, check_same_thread=False)
    return RDBStorage(address or "sqlite:///study.db", engine_kwargs=options)


def make_folds(settings: Tunable, graphs: GraphsTuple, stages: StageTrainer, outputs: int) -> Folds:
    """The folds of some training graphs and, for weak supervision, their teachers' labels: no trial changes these."""
    try:
        parts = fold_ids(len(graphs.n_node), settings.folds, settings.seed)
    except ValueError as error:
        fail(f"folds: {error}")
    least = min(len(train) for train, _ in parts)  # as many for all, since all have to make as many steps
    seeds, train, validation = [], [], []
    for others, part in parts:
        for seed in range(settings.seed, settings.seed + settings.tune_seeds):
            seeds.append(seed)
            train.append(others[:least])
            validation.append(part)
    folds = Folds(graphs, seeds, train, validation)
    if settings.attention != "weak":
        return folds
    of_folds = StageTrainer(stages.run, settings, graphs, stages.task, seeds, train)
    teacher = settings.teacher(outputs)
    params = of_folds.train(
        "teachers of folds", teacher, settings.teacher_training(stages.task), settings.teacher_epochs
    )
    file = stages.run.folder / "fold_labels.npz"
    labels = of_folds.leave_one_out_labels("labels of folds", file, teacher, params, settings.label_threshold)
    return folds._replace(labels=labels)


def cross_validate(settings: Settings, folds: Folds, task: Task, outputs: int) -> list[float]:
    """The accuracy of every network on the graphs that it is validated on, in per cent."""
    network, config = settings.network(outputs), settings.training(task)
    for epoch in train_seeds(
        network,
        config,
        folds.graphs,
        folds.seeds,
        settings.epochs,
        settings.batch_size,
        folds.labels,
        folds.train,
    ):
        params = epoch.state.params
    said = predict_seeds(network, params, folds.graphs, compact=settings.compact).prediction
    label = folds.graphs.globals["label"]
    return [accuracy(of_seed[own], label[own], task) for of_seed, own in zip(said, folds.validation, strict=True)]


def run_trial(study: "Study", settings: Tunable, folds: Folds, task: Task, outputs: int) -> int:
    """Runs one trial and gives its number; one that is interrupted counts as failed."""
    from optuna.trial import TrialState

    start, trial = time.perf_counter(), study.ask()
    try:
        accuracies = cross_validate(replace(settings, **suggest_settings(trial, settings)), folds, task, outputs)
    except BaseException:
        study.tell(trial, state=TrialState.FAIL)
        raise
    trial.set_user_attr("accuracies", accuracies)
    trial.set_user_attr("seconds", round(time.perf_counter() - start, 1))
    study.tell(trial, float(np.mean(accuracies) - np.std(accuracies)))
    return trial.number


def suggest_settings(trial: "Trial", settings: Tunable) -> dict[str, Any]:
    """The settings to try."""
    proposed: dict[str, Any] = {"scorer": trial.suggest_categorical("scorer", ["linear", "mlp"])}
    if settings.pooling == "threshold":
        proposed["threshold"] = trial.suggest_float("threshold", 1e-4, 1e-1, log=True)
    else:
        proposed["ratio"] = trial.suggest_float("ratio", 0.1, 1)
    if settings.attention == "weak":
        proposed["attention_weight"] = trial.suggest_float("attention_weight", 0.1, 100, log=True)
    if settings.tune_init:
        proposed["init"] = trial.suggest_categorical("init", ["normal", "uniform"])
        proposed["init_scale"] = trial.suggest_float("init_scale", 0.1, 2)
    return proposed


def _rows(study: "Study") -> list[dict[str, Any]]:
    """The finished trials, whichever machine made them, one after another."""
    from optuna.trial import TrialState

    rows = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        accuracies, seconds = trial.user_attrs["accuracies"], trial.user_attrs["seconds"]
        of_trial = {"trial": trial.number, "score": trial.value, "mean": np.mean(accuracies), "std": np.std(accuracies)}
        rows.append({**of_trial, "seconds": seconds, **trial.params})
    return rows


def _write(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """Writes the study's table and picture."""
    write_csv(folder / "study.csv", rows)
    try_to_draw(folder / "study.png", lambda path: plots.save(figures.study_figure(rows), path))


def format_params(row: dict[str, Any]) -> str:
    """A trial's settings, in words."""
    named = {name: x for name, x in row.items() if name not in figures.MEASURED}
    return ", ".join(f"{name} {x:.3g}" if isinstance(x, float) else f"{name} {x}" for name, x in named.items())
