"""Tuning: folds in one program, studies that are resumed and shared, and a test set that is read at the end."""

import csv
import json

import jax
import numpy as np
import pytest
from compilations import counting
from short_teacher import teacher_epochs
from tu_files import random_files, write

from experiments import tu
from experiments.run import protocol, tuning
from experiments.run.folder import MetricsLog, Run, RunError
from experiments.run.groups import SettingError, with_changes
from experiments.run.stages import StageTrainer
from jattn.datasets import fold_ids
from jattn.evaluation import accuracy
from jattn.graphs import select_graphs
from jattn.io import load_network
from jattn.training import predict_seeds, train_seeds

SIZES = np.array([3, 4, 5, 6] * 6 + [9, 12, 15, 20] * 2)
SMALL = ["--max-nodes", "6", "--train-graphs", "16", "--order", "1", "--filters", "4", "4", "--pool-before", "1"]
SHORT = ["--epochs", "2", "--seeds", "1", "--folds", "2"]
NETWORK = {"filters": (4, 4), "pool_before": (1,), "order": 1}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write(tmp_path / "toy", random_files(SIZES))


def run(arguments, data, out):
    tu.main([*arguments, "--dataset", str(data), *SMALL, *SHORT, *teacher_epochs(arguments, 2), "--out", str(out)])
    return json.loads((out / "results.json").read_text())


def rows(folder):
    return list(csv.DictReader((folder / "study.csv").read_text().splitlines()))


@pytest.mark.slow
def test_a_study_comes_before_training_and_never_sees_the_test_set(toy, tmp_path, monkeypatch):
    looked = []

    def predict(network, params, graphs, **options):
        looked.append(len(graphs.n_node))
        return predict_seeds(network, params, graphs, **options)

    monkeypatch.setattr(tuning, "predict_seeds", predict)
    monkeypatch.setattr(protocol, "predict_seeds", predict)
    out = tmp_path / "run"
    results = run(["unsupervised", "--tune", "1"], toy, out)
    assert looked == [16, len(SIZES) - 16]
    assert results["seconds"].keys() == {"tuning", "attention", "test", "pictures"}
    (row,), tuned = rows(out), results["tuned"]
    assert tuned["trials"] == 1
    assert tuned["settings"].keys() == {"threshold", "scorer"}
    assert len(tuned["accuracy"]["values"]) == 2
    assert tuned["score"] == pytest.approx(tuned["accuracy"]["mean"] - tuned["accuracy"]["std"])
    assert float(row["score"]) == pytest.approx(tuned["score"], rel=1e-5, abs=1e-5)
    for picture in ("study.png", "graphs.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    scorer = load_network(out / "weights.npz")[1]["pool_1"]["scorer"]
    assert ("projection" in scorer) == (tuned["settings"]["scorer"] == "linear")


@pytest.fixture
def settings(toy):
    made = with_changes(tu.presets(str(toy))["unsupervised"], max_nodes=6, train_graphs=17, dropout=0.0, **NETWORK)
    return with_changes(made, tune=1, folds=2, epochs=3, batch_size=4, learning_rate=0.02)


def stages_of(folder, settings, graphs):
    return StageTrainer(Run(folder, MetricsLog(None), finished=False), settings.run, 4, graphs, "classification", [0])


@pytest.fixture
def choose(settings, monkeypatch):
    """A function that runs a study whose trials give these accuracies, an exception being raised, and no others."""
    graphs = settings.load().splits["train"]

    def of(given, folder, **changes):
        tried, folder = [], folder.mkdir(exist_ok=True) or folder
        stages = stages_of(folder, settings, graphs)

        def cross_validate(settings, *arguments):
            tried.append(settings)
            outcome = given[len(tried) - 1]
            if isinstance(outcome, BaseException):
                raise outcome
            return list(outcome)

        monkeypatch.setattr(tuning, "cross_validate", cross_validate)
        try:
            return *tuning.tune(with_changes(settings, **changes), stages, 2), tried
        except KeyboardInterrupt:
            return tried

    return of


def test_a_study_goes_on_where_it_was_stopped(choose, tmp_path, capsys):
    out = tmp_path / "run"
    before = choose([(60.0, 70.0), KeyboardInterrupt()], out, tune=3)
    assert len(before) == 2
    assert len(rows(out)) == 1
    chosen, tuned, tried = choose([(61.0, 69.0), (90.0, 10.0)], out, tune=3)
    assert [row["trial"] for row in rows(out)] == ["0", "2", "3"]  # the one that was stopped is not counted
    assert [float(row["score"]) for row in rows(out)] == [60, 61, 10]
    assert tuned.trials == 3
    assert tuned.score == 61
    assert chosen == tried[0]
    assert "3 of 3 trials" in capsys.readouterr().err

    chosen, tuned, tried = choose([], out, tune=3)  # the same again has nothing left to do
    assert tried == []
    assert tuned.score == 61
    chosen, tuned, tried = choose([(80.0, 80.0)], out, tune=4)  # a longer one does
    assert chosen == tried[0]
    assert tuned.trials == 4


@pytest.mark.slow
def test_folders_share_a_study_in_a_storage(choose, tmp_path):
    shared = {"storage": f"sqlite:///{tmp_path / 'shared.db'}", "tune_init": True}
    *_, first = choose([(50.0, 60.0)] * 2, tmp_path / "a", tune=2, **shared)
    chosen, tuned, then = choose([(50.0, 60.0)] * 3, tmp_path / "b", tune=5, **shared)
    drawn = {(x.threshold, x.scorer, x.init, x.init_scale) for x in (tried.attention for tried in first + then)}
    assert len(drawn) == len(rows(tmp_path / "b")) == 5
    assert all(1e-4 <= threshold <= 0.1 and 0.1 <= scale <= 2 for threshold, _, _, scale in drawn)
    assert tuned.settings.keys() == {"threshold", "scorer", "init", "init_scale"}
    assert chosen.evaluation == then[0].evaluation
    *_, other = choose([(50.0, 60.0)], tmp_path / "c", tune=1, seed=3, **shared)
    assert len(other) == 1  # other settings have a study of their own


def test_a_study_of_other_settings_or_data_is_refused_and_stays(choose, settings, tmp_path):
    out = tmp_path / "run"
    choose([(50.0, 60.0)], out, tune=1)
    with pytest.raises(
        RunError, match=r"study\.db has a study of other settings.*choose another folder.*\n  epochs: 3 t"
    ):
        choose([], out, tune=1, epochs=4)
    fewer = select_graphs(settings.load().splits["train"], np.arange(16))
    with pytest.raises(RunError, match=r"\n  data\.graphs: the digest differs$"):
        tuning.tune(settings, stages_of(out, settings, fewer), 2)
    *_, again = choose([], out, tune=1, seeds=7, storage=None, quiet=True)  # which change no study
    assert again == []


def test_a_study_of_another_format_is_refused(choose, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "STUDY_FORMAT", 3)
    choose([(50.0, 60.0)], tmp_path / "run", tune=1)
    monkeypatch.undo()
    with pytest.raises(RunError, match=r"study\.db: its format is 3, of a newer version"):
        choose([], tmp_path / "run", tune=1)


@pytest.mark.slow
def test_machines_that_share_a_study_and_new_starts_propose_nothing_twice(choose, tmp_path):
    """The same numbers as one machine that is not stopped."""
    *_, whole = choose([(50.0, 60.0)] * 6, tmp_path / "whole", tune=6)
    shared = {"storage": f"sqlite:///{tmp_path / 'shared.db'}"}
    drawn = []
    for i in range(1, 7):
        *_, tried = choose([(50.0, 60.0)], tmp_path / f"{i % 2}", tune=i, **shared)
        drawn += [(of.attention.threshold, of.attention.scorer) for of in tried]
    assert drawn == [(of.attention.threshold, of.attention.scorer) for of in whole]
    assert len({threshold for threshold, _ in drawn}) == 6


@pytest.mark.slow
def test_a_longer_study_that_chooses_something_else_trains_that_beside_the_first(toy, tmp_path, monkeypatch):
    out, worth = tmp_path / "run", iter([50.0, 60.0])
    monkeypatch.setattr(tuning, "cross_validate", lambda *arguments: [next(worth)] * 2)
    first = run(["unsupervised", "--tune", "1"], toy, out)["tuned"]
    second = run(["unsupervised", "--tune", "2"], toy, out)["tuned"]
    assert (first["trial"], second["trial"]) == (0, 1)
    assert {path.name for path in (out / "checkpoints").iterdir()} == {"attention-trial-0", "attention-trial-1"}
    assert json.loads((out / "config.json").read_text())["settings"]["tune"] == 2


def test_a_storage_that_cannot_be_used_is_named(toy, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        run(["--tune", "1", "--storage", f"sqlite:///{tmp_path}/nowhere/x.db"], toy, tmp_path / "run")
    assert stop.value.code == 2
    assert "nowhere/x.db can't be used" in capsys.readouterr().err


def test_a_password_in_the_address_of_a_storage_is_refused(toy, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        run(["--tune", "1", "--storage", "postgresql://me:secret@host/studies"], toy, tmp_path / "run")
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert "leave the password out" in message
    assert "secret" not in message
    assert not (tmp_path / "run").exists()


def test_processes_that_run_as_one_do_not_share_a_study():
    with pytest.raises(SettingError, match="--tune: several processes can't run a study as one"):
        with_changes(tuning.TunableSettings(), tune=3, coordinator="auto")


def test_more_folds_than_graphs_are_an_error(toy, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        tu.main(["--dataset", str(toy), *SMALL, "--tune", "1", "--folds", "17", "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert "17 folds of 16 graphs are not possible" in capsys.readouterr().err


def test_weak_supervision_has_labels_of_each_folds_teacher(choose, settings, tmp_path, monkeypatch):
    trained, labels = [], np.ones((2, 1))
    monkeypatch.setattr(
        StageTrainer, "train", lambda stages, name, *arguments: trained.append((name, stages.train_ids))
    )
    monkeypatch.setattr(StageTrainer, "leave_one_out_labels", lambda stages, *arguments: labels)
    graphs = settings.load().splits["train"]
    stages = stages_of(tmp_path, settings, graphs)
    folds = tuning.make_folds(with_changes(settings, attention="weak"), graphs, stages, 2)
    assert folds.labels is labels
    assert trained == [("teachers of folds", folds.train)]
    for train, validation in zip(folds.train, folds.validation, strict=True):
        assert len(train) == 8  # as many for all folds
        assert not np.intersect1d(train, validation).size
    assert sorted(np.concatenate(folds.validation)) == list(range(17))
    *_, tried = choose([(50.0, 60.0)], tmp_path / "run", attention="weak", tune=1)
    assert 0.1 <= tried[0].attention.attention_weight <= 100


@pytest.mark.slow
def test_folds_of_one_program_are_those_trained_alone(settings, tmp_path):
    graphs = settings.load().splits["train"]
    stages = stages_of(tmp_path, settings, graphs)
    folds = tuning.make_folds(settings, graphs, stages, 2)
    together = tuning.cross_validate(settings, folds, "classification", 2)
    alone = []
    for train, validation in fold_ids(17, 2, seed=0):
        train, validation = select_graphs(graphs, train[:8]), select_graphs(graphs, validation)
        network = settings.network(2)
        *_, last = train_seeds(network, settings.training("classification"), train, [0], 3, batch_size=4)
        said = predict_seeds(network, jax.device_get(last.state.params), validation).prediction
        alone += [accuracy(of_seed, validation.globals["label"], "classification") for of_seed in said]
    assert together == alone
    assert len(set(together)) > 1


@pytest.mark.slow
def test_twenty_trials_compile_one_program_for_each_architecture(settings, tmp_path):
    graphs = settings.load().splits["train"]
    folds = tuning.make_folds(settings, graphs, stages_of(tmp_path, settings, graphs), 2)
    for scorer in ("linear", "mlp"):
        tuning.cross_validate(with_changes(settings, scorer=scorer), folds, "classification", 2)
    with counting() as counts:
        for i in range(20):
            trial = with_changes(settings, scorer=("linear", "mlp")[i % 2], threshold=0.01 + 0.04 * i)
            tuning.cross_validate(trial, folds, "classification", 2)
    assert counts["compiled"] == 0
