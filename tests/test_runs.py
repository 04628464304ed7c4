"""A run's folder: nothing half-written, nothing mixed up, NaN as null."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from jattn.runs import (
    RunError,
    open_run,
    read_lines,
    read_weights,
    write_atomically,
    write_json,
    write_line,
    write_weights,
)


@dataclass(frozen=True)
class Config:
    epochs: int = 3
    out: Path | None = None
    tune: int = 0
    decay: tuple[int, ...] = (1, 2)


def test_a_run_starts_with_its_configuration_and_no_lines(tmp_path):
    with open_run(tmp_path / "a" / "run", Config()) as lines:
        write_line(lines, {"epoch": 1, "loss": float("nan"), "auc": np.float32(0.5), "values": np.arange(2)})
    assert json.loads((tmp_path / "a/run/config.json").read_text()) == {
        "epochs": 3,
        "out": None,
        "tune": 0,
        "decay": [1, 2],
    }
    assert read_lines(tmp_path / "a/run/metrics.jsonl") == [{"epoch": 1, "loss": None, "auc": 0.5, "values": [0, 1]}]


def test_the_same_configuration_may_run_again_in_its_folder(tmp_path):
    open_run(tmp_path, Config()).close()
    with open_run(tmp_path, Config()):
        assert read_lines(tmp_path / "metrics.jsonl") == []


def test_a_study_may_be_made_longer_in_its_folder(tmp_path):
    open_run(tmp_path, Config(tune=10)).close()
    open_run(tmp_path, Config(tune=20)).close()


def test_a_run_without_a_study_does_not_replace_one_with_it(tmp_path):
    open_run(tmp_path, Config(tune=10)).close()
    with pytest.raises(RunError, match=r"tune: 10 there, 0 now$"):
        open_run(tmp_path, Config(tune=0))


def test_another_configuration_in_a_folder_is_refused_with_the_difference(tmp_path):
    open_run(tmp_path, Config()).close()
    with pytest.raises(RunError, match=r"another configuration.*\n  epochs: 3 there, 4 now$"):
        open_run(tmp_path, Config(epochs=4))


def test_a_configuration_that_is_not_json_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RunError, match=r"config\.json: not JSON"):
        open_run(tmp_path, Config())


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="file/run: can't write a run there"):
        open_run(tmp_path / "file" / "run", Config())


def test_weights_come_back_as_they_were(tmp_path):
    params = {"conv_0": {"linear": {"kernel": np.ones((2, 3), np.float32), "bias": np.zeros(3, np.float32)}}}
    write_weights(tmp_path / "weights.npz", params)
    again = read_weights(tmp_path / "weights.npz")
    np.testing.assert_array_equal(again["conv_0"]["linear"]["kernel"], params["conv_0"]["linear"]["kernel"])
    assert again.keys() == params.keys()


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "results.json"
    write_json(path, {"a": 1})

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_a_run_removes_the_results_of_the_run_that_it_replaces(tmp_path):
    open_run(tmp_path, Config()).close()
    write_json(tmp_path / "results.json", {"a": 1})
    open_run(tmp_path, Config(out=tmp_path)).close()
    assert not (tmp_path / "results.json").exists()


def test_processes_that_write_the_same_file_do_not_meet(tmp_path, monkeypatch):
    used = []
    for process in (1, 2):
        monkeypatch.setattr("os.getpid", lambda process=process: process)
        write_atomically(tmp_path / "weights.npz", lambda temporary: (used.append(temporary), temporary.touch()))
    assert used[0] != used[1]
    assert [p.name for p in tmp_path.iterdir()] == ["weights.npz"]
