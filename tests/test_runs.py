"""A run's folder: nothing half-written, nothing mixed up, one process at a time, NaN as null."""

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from jattn.files import write_atomically, write_json
from jattn.runs import Lines, RunError, open_run, read_json, read_lines


@dataclass(frozen=True)
class Config:
    epochs: int = 3
    out: Path | None = None
    tune: int = 0
    decay: tuple[int, ...] = (1, 2)


def open_and_close(folder, config):
    with open_run(folder, config) as run:
        return run


def test_a_run_starts_with_its_configuration_and_no_lines(tmp_path):
    with open_run(tmp_path / "a" / "run", Config()) as run:
        run.lines.write({"epoch": 1, "loss": float("nan"), "auc": np.float32(0.5), "values": np.arange(2)})
    assert not run.finished
    assert json.loads((tmp_path / "a/run/config.json").read_text()) == {
        "epochs": 3,
        "out": None,
        "tune": 0,
        "decay": [1, 2],
    }
    assert read_lines(tmp_path / "a/run/metrics.jsonl") == [{"epoch": 1, "loss": None, "auc": 0.5, "values": [0, 1]}]


def test_a_run_goes_on_in_its_folder_with_the_lines_that_are_there(tmp_path):
    with open_run(tmp_path, Config()) as run:
        run.lines.write({"stage": "twin", "epoch": 1})
    with open_run(tmp_path, Config(out=tmp_path)) as run:
        assert not run.finished
        assert read_lines(tmp_path / "metrics.jsonl") == [{"stage": "twin", "epoch": 1}]


def test_a_run_with_results_is_finished(tmp_path):
    open_and_close(tmp_path, Config())
    write_json(tmp_path / "results.json", {})
    assert open_and_close(tmp_path, Config()).finished


def test_a_study_may_be_made_longer_in_its_folder_and_is_not_finished_then(tmp_path):
    open_and_close(tmp_path, Config(tune=10))
    write_json(tmp_path / "results.json", {})
    assert not open_and_close(tmp_path, Config(tune=20)).finished


def test_a_run_without_a_study_does_not_replace_one_with_it(tmp_path):
    open_and_close(tmp_path, Config(tune=10))
    with pytest.raises(RunError, match=r"tune: 10 there, 0 now$"):
        open_and_close(tmp_path, Config(tune=0))


def test_another_configuration_in_a_folder_is_refused_with_the_difference(tmp_path):
    open_and_close(tmp_path, Config())
    with pytest.raises(RunError, match=r"another configuration.*\n  epochs: 3 there, 4 now$"):
        open_and_close(tmp_path, Config(epochs=4))


def test_only_one_may_run_in_a_folder_at_a_time(tmp_path):
    with (
        open_run(tmp_path, Config()),
        pytest.raises(RunError, match="another process runs there; wait for it, or choose another folder"),
    ):
        open_and_close(tmp_path, Config())
    open_and_close(tmp_path, Config())


def test_a_configuration_that_is_not_json_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RunError, match=r"config\.json: not JSON"):
        open_and_close(tmp_path, Config())


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="file/run: can't write a run there"):
        open_and_close(tmp_path / "file" / "run", Config())


@pytest.mark.parametrize(
    ("stage", "epoch", "kept"),
    [("twin", 0, 0), ("twin", 1, 1), ("twin", 2, 2), ("attention", 0, 2), ("attention", 1, 3), ("attention", 3, 4)],
)
def test_lines_are_forgotten_after_an_epoch_of_a_stage(stage, epoch, kept, tmp_path):
    path, written = tmp_path / "metrics.jsonl", [("twin", 1), ("twin", 2), ("attention", 1), ("attention", 2)]
    lines = Lines(path)
    for of, number in written:
        lines.write({"stage": of, "epoch": number})
    with path.open("a") as file:
        file.write('{"stage": "attention", "ep')  # cut short as it was written
    lines.cut(stage, epoch)
    lines.write({"stage": "new", "epoch": 1})
    lines.close()
    assert [(line["stage"], line["epoch"]) for line in read_lines(path)] == [*written[:kept], ("new", 1)]


def test_files_that_are_damaged_are_named(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1}\nnonsense\n')
    with pytest.raises(RunError, match=r"metrics\.jsonl: line 2 is not JSON"):
        read_lines(tmp_path / "metrics.jsonl")
    for content in ("garbage", "{}", "[1]"):
        (tmp_path / "results.json").write_text(content)
        with pytest.raises(RunError, match=r"results\.json: .*; remove it, and the same command makes it again"):
            read_json(tmp_path / "results.json")
    for subsets in ("", ', "subsets": null'):
        (tmp_path / "results.json").write_text('{"seconds": {"test": 1}' + subsets + "}")
        assert read_json(tmp_path / "results.json", ["seconds"])["seconds"] == {"test": 1}
        with pytest.raises(RunError, match=r"results\.json: it has no 'subsets'; remove it"):
            read_json(tmp_path / "results.json", ["seconds", "subsets"])


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "results.json"
    write_json(path, {"a": 1})

    def fail(temporary: Path) -> None:
        temporary.write_text("half", "utf-8")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_writers_of_the_same_file_do_not_meet_even_with_equal_process_ids(tmp_path, monkeypatch):
    monkeypatch.setattr("os.getpid", lambda: 7)  # as in two containers
    path, both_write = tmp_path / "results.json", threading.Barrier(2, timeout=30)

    def write(number: int) -> None:
        def slowly(temporary: Path) -> None:
            temporary.write_text(f"{number}" * 1000)
            both_write.wait()
            assert temporary.read_text() == f"{number}" * 1000

        write_atomically(path, slowly)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, (1, 2)))
    assert path.read_text() in ("1" * 1000, "2" * 1000)
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_permissions_of_any_new_file(mask, mode, tmp_path):
    before = os.umask(mask)
    try:
        write_json(tmp_path / "results.json", {"a": 1})
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (tmp_path / "results.json").stat().st_mode & 0o777 == mode


def test_what_is_written_is_on_the_disk_before_it_has_its_name_and_its_name_after(tmp_path, monkeypatch):
    steps, fsync, replace = [], os.fsync, Path.replace

    def note_fsync(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def note_replace(self: Path, target: Path) -> Path:
        steps.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    write_json(tmp_path / "results.json", {"a": 1})
    assert steps == ["file", "name", "folder"]
