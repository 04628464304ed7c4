"""A run's folder: nothing half-written, nothing mixed up, one process at a time, NaN as null."""

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

import flax
import jax
import numpy as np
import pytest

import jattn
from experiments.run.folder import (
    MetricsLog,
    RunConfig,
    RunError,
    is_finished,
    open_run,
    read_lines,
    read_results,
    write_results,
)
from jattn._options import setting
from jattn.io import write_atomically, write_json


@dataclass(frozen=True)
class Config:
    epochs: int = setting(3, "training")
    out: Path | None = setting(None, "nothing")
    every: int = setting(10, "nothing", unless="best")
    best: bool = setting(False, "evaluation")
    data_dir: Path | None = setting(None, "location")
    data_seed: int = setting(0, "data")
    tune: int = setting(0, "training", may_grow=True)
    decay: tuple[int, ...] = setting((1, 2), "training")


def about(config, data=None, experiment="colors"):
    return RunConfig(experiment, "weak", config, data)


def open_and_close(folder, config, data=None, experiment="colors"):
    with open_run(folder, about(config, data, experiment)) as run:
        return run


def finish(folder):
    write_results(folder, {"subsets": {}})


def edit(file, **changes):
    """Changes entries of a JSON file, or removes those that are None."""
    found = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({name: value for name, value in found.items() if value is not None}))


def test_a_run_starts_with_its_configuration_and_no_lines(tmp_path):
    with open_run(tmp_path / "a" / "run", about(Config(), {"train": "1f"})) as run:
        run.lines.write({"epoch": 1, "loss": float("nan"), "auc": np.float32(0.5), "values": np.arange(2)})
    assert not run.finished
    config = json.loads((tmp_path / "a/run/config.json").read_text())
    assert (config["format"], config["experiment"], config["preset"]) == (2, "colors", "weak")
    assert config["data"] == {"train": "1f"}
    assert config["settings"]["decay"] == [1, 2]
    assert config["settings"].keys() == {entry.name for entry in fields(Config)}
    assert config["versions"]["jattn"] == jattn.__version__
    assert config["versions"]["jax"] == jax.__version__
    assert config["versions"]["flax"] == flax.__version__
    assert read_lines(tmp_path / "a/run/metrics.jsonl") == [{"epoch": 1, "loss": None, "auc": 0.5, "values": [0, 1]}]


def test_a_run_goes_on_in_its_folder_with_the_lines_that_are_there(tmp_path):
    with open_run(tmp_path, about(Config())) as run:
        run.lines.write({"stage": "teacher", "epoch": 1})
    with open_run(tmp_path, about(Config(out=tmp_path))) as run:
        assert not run.finished
        assert read_lines(tmp_path / "metrics.jsonl") == [{"stage": "teacher", "epoch": 1}]


def test_a_run_with_results_is_finished(tmp_path):
    open_and_close(tmp_path, Config())
    finish(tmp_path)
    before = (tmp_path / "config.json").stat().st_mtime_ns
    assert is_finished(tmp_path, about(Config(out=tmp_path)))
    assert open_and_close(tmp_path, Config(out=tmp_path)).finished
    assert (tmp_path / "config.json").stat().st_mtime_ns == before  # which versions made it stays there


def test_a_study_may_be_made_longer_in_its_folder_and_is_not_finished_then(tmp_path):
    open_and_close(tmp_path, Config(tune=10))
    finish(tmp_path)
    assert not is_finished(tmp_path, about(Config(tune=20)))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    run = open_and_close(tmp_path, Config(tune=20))
    assert not run.finished
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before  # its results stay until others are
    assert open_and_close(tmp_path, Config(tune=10)).finished
    run.replace_shorter()
    assert not (tmp_path / "results.json").exists()
    assert json.loads((tmp_path / "config.json").read_text())["settings"]["tune"] == 20
    finish(tmp_path)
    assert is_finished(tmp_path, about(Config(tune=20)))


def test_a_run_without_a_study_does_not_replace_one_with_it(tmp_path):
    open_and_close(tmp_path, Config(tune=10))
    with pytest.raises(RunError, match=r"tune: 10 there, 0 now$"):
        open_and_close(tmp_path, Config(tune=0))


def test_another_configuration_in_a_folder_is_refused_with_the_difference(tmp_path):
    open_and_close(tmp_path, Config())
    with pytest.raises(RunError, match=r"another configuration.*\n  epochs: 3 there, 4 now$"):
        open_and_close(tmp_path, Config(epochs=4))
    with pytest.raises(RunError, match=r"\n  experiment: 'colors' there, 'tu' now$"):
        open_and_close(tmp_path, Config(), experiment="tu")


def test_what_a_refused_folder_holds_stays(tmp_path):
    open_and_close(tmp_path, Config(), {"train": "1f"})
    finish(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for config, data in ((Config(epochs=4), {"train": "1f"}), (Config(), {"train": "2e"})):
        with pytest.raises(RunError):
            open_and_close(tmp_path, config, data)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_data_are_the_same_if_their_digests_are(tmp_path):
    here, there = Config(data_dir=Path("here")), Config(data_dir=Path("there"), data_seed=1)
    open_and_close(tmp_path, here, {"train": "1f", "orig": "2e"})
    open_and_close(tmp_path, there, {"train": "1f", "orig": "2e"})
    with pytest.raises(RunError, match=r"configuration; choose another folder\n  data\.orig: the digest differs$"):
        open_and_close(tmp_path, there, {"train": "1f", "orig": "3d"})
    with pytest.raises(
        RunError, match=r"\n  data_dir: 'there' there, 'here' now\n  data_seed: 1 there, 0 now\n  data\.t"
    ):
        open_and_close(tmp_path, here, {"train": "4c", "orig": "2e"})
    finish(tmp_path)
    assert is_finished(tmp_path, about(there))
    assert not is_finished(tmp_path, about(here))  # data have to be read to tell
    assert open_and_close(tmp_path, here, {"train": "1f", "orig": "2e"}).finished


def test_a_setting_that_an_older_version_did_not_have_has_its_default(tmp_path):
    open_and_close(tmp_path, Config())
    file = tmp_path / "config.json"
    settings = json.loads(file.read_text())["settings"]
    edit(file, settings={name: value for name, value in settings.items() if name != "epochs"})
    with pytest.raises(RunError, match=r"\n  epochs: 3 there, 4 now$"):
        open_and_close(tmp_path, Config(epochs=4))
    open_and_close(tmp_path, Config())
    edit(file, settings=settings | {"later": 3})
    with pytest.raises(RunError, match=r"\n  later: 3 there, not set now$"):
        open_and_close(tmp_path, Config())


def test_how_often_to_save_matters_where_the_best_checkpoint_is_chosen(tmp_path):
    open_and_close(tmp_path / "a", Config())
    open_and_close(tmp_path / "a", Config(every=5))
    open_and_close(tmp_path / "b", Config(best=True))
    with pytest.raises(RunError, match=r"\n  every: 10 there, 5 now$"):
        open_and_close(tmp_path / "b", Config(best=True, every=5))


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (None, "it has no format number, so an older version of jattn wrote it"),
        (3, "its format is 3, of a newer version of jattn; this one knows [12]"),
        ("x", "its format is x, of another version"),
    ],
)
def test_files_of_another_format_are_refused_with_what_to_do(number, why, tmp_path):
    open_and_close(tmp_path, Config())
    edit(tmp_path / "config.json", format=number)
    with pytest.raises(RunError, match=rf"config\.json: {why}.*; go on with that version, or choose another folder"):
        open_and_close(tmp_path, Config())
    finish(tmp_path)
    edit(tmp_path / "results.json", format=number)
    with pytest.raises(RunError, match=rf"results\.json: {why}.*; remove it, and the same command makes it again"):
        read_results(tmp_path)


def test_results_of_which_nothing_says_what_they_are_stay(tmp_path):
    finish(tmp_path)
    with pytest.raises(RunError, match=r"holds results\.json of an unknown run, without config\.json; choose"):
        open_and_close(tmp_path, Config())
    assert (tmp_path / "results.json").exists()


def test_only_one_may_run_in_a_folder_at_a_time(tmp_path):
    with (
        open_run(tmp_path, about(Config())),
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
    [
        ("teacher", 0, 0),
        ("teacher", 1, 1),
        ("teacher", 2, 2),
        ("attention", 0, 2),
        ("attention", 1, 3),
        ("attention", 3, 4),
    ],
)
def test_lines_are_forgotten_after_an_epoch_of_a_stage(stage, epoch, kept, tmp_path):
    path, written = tmp_path / "metrics.jsonl", [("teacher", 1), ("teacher", 2), ("attention", 1), ("attention", 2)]
    lines = MetricsLog(path)
    for entry, number in written:
        lines.write({"stage": entry, "epoch": number})
    with path.open("a") as file:
        file.write('{"stage": "attention", "ep')  # cut short as it was written
    lines.truncate(stage, epoch)
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
            read_results(tmp_path)
    for subsets in ("", ', "subsets": null'):
        (tmp_path / "results.json").write_text('{"format": 1, "seconds": {"test": 1}' + subsets + "}")
        assert read_results(tmp_path, ["seconds"])["seconds"] == {"test": 1}
        with pytest.raises(RunError, match=r"results\.json: it has no 'subsets'; remove it"):
            read_results(tmp_path, ["seconds", "subsets"])


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
