"""What a person, or TensorBoard, sees of a run."""

import json
import struct

import pytest
from tensorboardX.proto.event_pb2 import Event

from experiments import colors
from experiments.run.folder import read_lines
from experiments.run.monitoring import EventFile, resources
from experiments.run.output import Progress, count_graphs

TINY = ["supervised", "--seeds", "2", "--epochs", "3", "--train-graphs", "20", "--test-graphs", "6"]


def read_events(folder):
    """(name, step, value) of every scalar in the event files of a folder."""
    scalars = []
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        while content:  # a record: its length, 4 bytes that check it, itself, 4 bytes that check it
            (length,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + length])
            scalars += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
            content = content[16 + length :]
    return scalars


@pytest.mark.slow
def test_metric_lines_go_to_tensorboard_as_they_are(tmp_path):
    out = tmp_path / "run"
    colors.EXPERIMENT.main([*TINY, "--tensorboard", "--out", str(out)])
    lines, events = read_lines(out / "metrics.jsonl"), read_events(out / "tensorboard/attention")
    for line in lines:
        of_epoch = {name: value for name, step, value in events if step == line["epoch"]}
        assert of_epoch["loss"] == pytest.approx(line["loss"]["mean"])
        assert of_epoch["accuracy"] == pytest.approx(line["accuracy"]["mean"])
        assert of_epoch["attention_auc"] == pytest.approx(line["attention_auc"][0]["mean"])
        assert of_epoch["graphs_per_second"] == pytest.approx(line["graphs_per_second"])
    assert {step for _, step, _ in events} == {1, 2, 3}


def test_values_of_several_layers_have_names_of_their_own_and_nan_is_left_out(tmp_path):
    with EventFile(tmp_path / "events", trained=0) as file:
        file.write(
            {"stage": "teacher", "epoch": 4, "attention_auc": [{"mean": 60.0}, {"mean": None}], "loss": {"mean": 2}}
        )
    assert read_events(tmp_path / "events") == [("attention_auc_1", 4, 60.0), ("loss", 4, 2.0)]


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where tensorboardX writes if it is told no folder
    with EventFile(None, trained=0) as file:
        file.write({"epoch": 1, "loss": {"mean": 2.0}})
    assert not list(tmp_path.iterdir())


def test_lines_tell_speed_compilation_and_memory(tmp_path):
    figures = resources(12.345)
    assert figures["graphs_per_second"] == 12.3
    assert figures["host_memory_mib"] > 50
    before = figures["compile_seconds"]
    colors.EXPERIMENT.main([*TINY, "--dimension", "5", "--out", str(tmp_path / "run")])
    last = read_lines(tmp_path / "run/metrics.jsonl")[-1]
    assert last["compile_seconds"] > before
    assert last["graphs_per_second"] > 0


@pytest.mark.slow
def test_a_quiet_run_prints_its_table_alone(tmp_path, capsys):
    colors.EXPERIMENT.main([*TINY, "--quiet", "--out", str(tmp_path / "run")])
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith("%")
    assert json.loads((tmp_path / "run/config.json").read_text())["settings"]["quiet"]


def test_lines_are_shown_where_there_is_no_terminal(capsys):
    with Progress("teacher", epochs=40, trained=10) as progress:
        for epoch in range(11, 41):
            values = {"loss": {"mean": 0.5}, "accuracy": {"mean": 50.0}}
            progress.show({"epoch": epoch, "seconds": epoch / 2, **values})
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "teacher: resumed after epoch 10 of 40"
    assert lines[1] == "teacher: epoch 12 of 40, 6.0 s in all, loss 0.5, accuracy 50.0 %"
    assert len(lines) == 9
    with count_graphs("labels", 20) as count:
        for _ in range(4):
            count(5)
    assert capsys.readouterr().err.splitlines() == [f"labels: {done} of 20 graphs" for done in (5, 10, 15, 20)]
