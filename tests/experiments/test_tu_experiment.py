"""The experiment on TU data sets as a person runs it, on a tiny one: draws of training graphs, scores, presets."""

import json

import numpy as np
import pytest
from short_teacher import teacher_epochs
from tu_files import random_files, write

from experiments import tu
from experiments.run.folder import read_lines
from experiments.run.groups import with_changes
from jattn.datasets import size_split_ids
from jattn.io import load_network, read_arrays

SIZES = np.array([3, 4, 5, 6] * 6 + [9, 12, 15, 20] * 2)  # 24 small ones
TINY = ["--filters", "4", "4", "--pool-before", "1", "--epochs", "2", "--decay-epochs", "2"]
SMALL = ["--max-nodes", "6", "--train-graphs", "16", "--order", "1", *TINY]


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The path of a tiny data set."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write(tmp_path / "toy", random_files(SIZES, classes=2))


def run(arguments, data, out):
    tu.main([*arguments, "--dataset", str(data), *SMALL, *teacher_epochs(arguments, 2), "--out", str(out)])
    return json.loads((out / "results.json").read_text())


@pytest.mark.default_xla
@pytest.mark.slow
def test_draws_and_seeds_train_together(toy, tmp_path, capsys):
    results = run(["--data-seeds", "2", "--seeds", "2"], toy, tmp_path / "run")
    test = results["subsets"]["test"]
    assert results["subsets"].keys() == {"test", "all"}
    assert results["seconds"].keys() == {"teacher", "labels", "attention", "test", "pictures"}
    assert len(test["accuracy"]["values"]) == 4
    assert test["graphs"] == len(SIZES) - 16
    assert test["attention_auc"] == []
    for figure in (test["nodes_kept"][0], test["graphs_emptied"][0], test["balanced_accuracy"], *test["predicted"]):
        assert len(figure["values"]) == 4
        assert all(0 <= value <= 100 for value in figure["values"])
    assert sum(of_class["mean"] for of_class in test["predicted"]) == pytest.approx(100)

    lines = read_lines(tmp_path / "run/metrics.jsonl")
    assert [line["stage"] for line in lines] == ["teacher", "teacher", "attention", "attention"]
    assert all(len(line["accuracy"]["values"]) == 4 and "attention_auc" not in line for line in lines)
    counts = 16 / 100 * np.array([line["accuracy"]["values"] for line in lines])  # graphs of each draw that are right
    np.testing.assert_allclose(counts, np.round(counts))
    assert load_network(tmp_path / "run/weights.npz")[1]["output"]["kernel"].shape == (4, 4, 2)
    assert read_arrays(tmp_path / "run/labels.npz")["target"].shape[0] == 4
    for picture in ("training.png", "accuracy.png", "graphs.png"):
        assert (tmp_path / "run" / picture).read_bytes().startswith(b"\x89PNG")

    shown = capsys.readouterr()
    head, seeds = (line.split() for line in shown.out.splitlines()[:2])
    assert head == ["%", "Test", "Balanced", "Majority", "Nodes", "kept", "Emptied"]
    assert seeds[:2] == ["4", "seeds"]
    assert "paper" not in shown.out
    assert "nan" not in (shown.out + shown.err).lower()


@pytest.mark.slow
def test_a_draw_is_the_same_among_others_and_alone(toy, tmp_path):
    together = run(["global", "--data-seeds", "2", "--seeds", "2"], toy, tmp_path / "together")
    alone = run(["global", "--data-seed", "1", "--seeds", "2"], toy, tmp_path / "alone")
    for figure in ("accuracy", "balanced_accuracy", "majority_accuracy"):
        a, b = (results["subsets"]["test"][figure]["values"] for results in (together, alone))
        assert a[2:] == b
    a, b = (load_network(tmp_path / name / "weights.npz")[1] for name in ("together", "alone"))
    np.testing.assert_allclose(a["output"]["kernel"][2:], b["output"]["kernel"], atol=1e-5)


def test_draws_are_those_of_the_splits_by_size(toy):
    settings = with_changes(tu.presets(str(toy))["weak"], max_nodes=6, train_graphs=16, data_seeds=3, data_seed=5)
    data = settings.load()
    everything = with_changes(settings, max_nodes=None, train_graphs=1, data_seeds=1).load()
    assert everything.splits["train"].n_node.max() <= np.median(SIZES)
    for seed, members, tested in zip((5, 6, 7), data.train_ids, data.test_ids, strict=True):
        draw = size_split_ids(SIZES, 6, 16, seed)
        assert data.splits["train"].n_node[members].tolist() == SIZES[draw["train"]].tolist()
        assert data.splits["test"].n_node[tested].tolist() == SIZES[draw["test"]].tolist()
    assert data.outputs == 2


def test_attributes_are_more_columns(toy):
    settings = tu.presets(str(toy))["weak"]
    columns = [
        with_changes(settings, attributes=on).load().splits["train"].nodes["features"].shape[1] for on in (False, True)
    ]
    assert columns == [3, 4]


def test_a_name_is_looked_for_in_the_data_dir(toy, tmp_path):
    write(tmp_path / "data" / "MINE", random_files(SIZES), "MINE")
    settings = with_changes(tu.presets("MINE")["global"], data_dir=tmp_path / "data", train_graphs=7)
    assert [len(split.n_node) for split in settings.load().splits.values()] == [7, len(SIZES) - 7]


@pytest.mark.parametrize("dataset", ["PROTEINS", "COLLAB", "DD-200", "DD-300", "DD", "MUTAG"])
@pytest.mark.parametrize("preset", ["weak", "unsupervised", "global"])
def test_every_preset_makes_the_network_of_the_paper(dataset, preset):
    settings = tu.presets(dataset)[preset]
    network, optimizer = settings.network(outputs=2), settings.optimizer
    assert network.filters == (64, 64, 64)
    assert network.order == (1 if dataset == "PROTEINS" else 3)
    assert (network.readout, network.dropout, network.aggregation, network.hidden) == ("max", 0.1, "mean", None)
    assert (optimizer.epochs, optimizer.decay_epochs, optimizer.teacher_epochs, optimizer.teacher_decay_epochs) == (
        50,
        (25, 35, 45),
    ) * 2
    largest = {"PROTEINS": 25, "COLLAB": 35, "DD-200": 200, "DD-300": 300, "DD": 300, "MUTAG": None}
    assert settings.data.max_nodes == largest[dataset]
    if preset == "global":
        assert not network.poolings
        return
    first, second, pooling = network.poolings
    assert first is second is None
    assert pooling.score_from == "previous"
    assert pooling.scorer.kind == ("linear" if dataset == "PROTEINS" else "mlp")
    assert pooling.scorer.init == "default"


def test_thresholds_and_weights_are_those_of_the_paper():
    chosen = {name: tu.presets(name) for name in ("COLLAB", "PROTEINS", "DD-200", "DD-300")}
    assert [p["unsupervised"].attention.threshold for p in chosen.values()] == [0.002, 0.0001, 0.005, 0.01]
    assert [p["weak"].attention.threshold for p in chosen.values()] == [0.002, 0.1, 0.005, 0.01]
    assert [p["weak"].attention.attention_weight for p in chosen.values()] == [0.5, 10, 10, 0.1]


def test_the_papers_figures_stand_beside_its_own_settings_alone():
    dd = tu.experiment("DD-200")
    weak = dd.presets["weak"]
    found = dd.paper_scores("weak", with_changes(weak, seeds=3, data_seeds=3))
    assert {name: str(figure) for name, figure in found.items()} == {"test": "54.3 ± 5.0"}
    assert dd.paper_scores("weak", with_changes(weak, max_nodes=300)) == {}
    assert tu.experiment("MUTAG").paper_scores("weak", tu.presets("MUTAG")["weak"]) == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["strong"], "preset 'strong' is not known; expected one of: weak, robust, unsupervised, global"),
        (["--dataset", "/nowhere/X.zip"], "/nowhere/X.zip"),
        (["--data-dir", "/nowhere"], "/nowhere"),
        (["--max-nodes", "0"], "--max-nodes: 0 is not allowed"),
        (["--data-seeds", "0"], "--data-seeds: 0 is not allowed"),
        (["--data-seed", "-1"], "--data-seed: -1 is not allowed"),
        (["--train-graphs", "0"], "--train-graphs: 0 is not allowed"),
        (["--attention", "supervised"], "supervised"),
        (["--validation"], "validation"),
        (["--tune", "-1"], "--tune: -1 is not allowed"),
        (["--folds", "1"], "--folds: 1 is not allowed"),
        (["global", "--tune", "3"], "global pooling has no attention"),
        (["--tune", "3", "--data-seeds", "2"], "--data-seeds: 2 is not allowed with --tune"),
        (["--storage", "sqlite:///x"], "--storage: there is no study without --tune"),
        (["--folds", "7"], "--folds: there is no study without --tune"),
        (["--tune-init"], "--tune-init: there is no study without --tune"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_it(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        tu.main([*arguments, "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_training_on_all_graphs_is_an_error(toy, tmp_path, capsys):
    with pytest.raises(SystemExit):
        tu.main(["--dataset", str(toy), "--max-nodes", "99", "--out", str(tmp_path / "run")])
    assert "none is left to test" in capsys.readouterr().err


def test_help_shows_the_settings_of_the_data_set(capsys):
    for dataset, threshold in (("PROTEINS", "0.1"), ("COLLAB", "0.002")):
        with pytest.raises(SystemExit) as stop:
            tu.main(["--dataset", dataset, "--help"])
        assert stop.value.code == 0
        shown = " ".join(capsys.readouterr().out.replace("│", "").split())
        assert f"(default: {threshold})" in shown
        assert "Draws of training graphs" in shown
        assert "--validation" not in shown
