"""The experiment on the smallest and largest graphs of a data set as a person runs it, on a tiny one."""

import json

import numpy as np
import pytest
from tu_files import random_files, write

from experiments import size_shift, tu

SIZES = np.array([3, 4, 5, 6] * 6 + [7, 8, 9, 10, 12, 15, 20, 30, 31, 32])
TINY = ["--filters", "4", "4", "--pool-before", "1", "--epochs", "2", "--decay-epochs", "2", "--order", "1"]


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The path of a tiny data set."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write(tmp_path / "toy", random_files(SIZES, classes=2))


def test_training_graphs_are_the_smallest_and_test_graphs_the_largest(toy):
    data = size_shift.presets(str(toy))["global"].load()
    assert sorted(data.splits["train"].n_node) == [3] * 6 + [4] * 6 + [5] * 6
    assert sorted(data.splits["test"].n_node) == [20, 30, 31, 32]
    assert data.outputs == 2


def test_presets_have_the_networks_of_the_collection():
    for dataset in ("PROTEINS", "DD", "NCI1"):
        for name, settings in tu.presets(dataset).items():
            assert size_shift.presets(dataset)[name].network(outputs=2) == settings.network(outputs=2)
    assert size_shift.presets("NCI1")["diffpool"].network(outputs=2).poolings[2].clusters == 25


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["unsupervised", "diffpool"])
def test_a_run_shows_the_matthews_correlation(preset, toy, tmp_path, capsys):
    size_shift.main([preset, "--dataset", str(toy), *TINY, "--seeds", "2", "--out", str(tmp_path / "run")])
    results = json.loads((tmp_path / "run/results.json").read_text())
    values = results["subsets"]["test"]["matthews_correlation"]["values"]
    assert len(values) == 2
    assert all(-100 <= value <= 100 for value in values)
    assert capsys.readouterr().out.split()[:4] == ["%", "Test", "100", "MCC"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train-percent", "0"], "--train-percent: 0.0 is not allowed"),
        (["--test-percent", "60"], "--train-percent: 50.0 and --test-percent 60.0 must have a sum below 100"),
        (["--max-nodes", "9"], "max-nodes"),
        (["strong"], "preset 'strong' is not known; expected one of: weak, robust, unsupervised, global, diffpool"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_it(arguments, message, toy, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        size_shift.main([*arguments, "--dataset", str(toy), "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
