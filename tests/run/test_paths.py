"""Paths on the command line: whatever characters they have, they are paths, or refused before anything is trained."""

import json
import os
from pathlib import Path

import pytest
import tu_files

from experiments import colors, sweep, tu
from experiments.__main__ import main as command_line
from experiments.paper import __main__ as paper
from experiments.run import protocol
from experiments.run.folder import RunError
from experiments.run.groups import SettingError
from experiments.run.paths import run_folder
from experiments.sweeps import grid

TINY = ["--seeds", "1", "--epochs", "2", "--train-graphs", "8", "--test-graphs", "4", "--quiet"]
ODD = "q?a %41#{b}*,é"


@pytest.fixture
def toy(tmp_path):
    """A data set of 12 graphs in a folder of an odd name; the zip."""
    file = tmp_path / "My Drive, a?b" / "TOY.zip"
    file.parent.mkdir()
    tu_files.write_zip(file, tu_files.random_files([4, 5, 6] * 4))
    return file


@pytest.mark.slow
def test_a_run_keeps_its_checkpoints_in_a_folder_of_any_name(tmp_path):
    folder = tmp_path / ODD / "run"
    asked = ["supervised", *TINY, "--best", "--checkpoint-every", "1", "--out", str(folder)]
    colors.EXPERIMENT.main(asked)
    assert {path.name for path in (folder / "checkpoints/attention").iterdir()} == {"1", "2"}
    assert [path.name for path in tmp_path.iterdir()] == [ODD]


@pytest.mark.slow
def test_studies_in_folders_of_odd_names_are_files_there(tmp_path, toy):
    small = ["--max-nodes", "5", "--filters", "4", "4", "--order", "1", "--pool-before", "1"]
    short = ["--tune", "1", "--folds", "2", "--epochs", "1", "--seeds", "1", "--quiet"]
    for run in ("run1", "run%41"):
        tu.main(["unsupervised", "--dataset", str(toy), *small, *short, "--out", str(tmp_path / ODD / run)])
        assert (tmp_path / ODD / run / "study.db").stat().st_size > 0
        assert json.loads((tmp_path / ODD / run / "results.json").read_text())["tuned"]["trials"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {ODD, toy.parent.name}
    assert {path.name for path in (tmp_path / ODD).iterdir()} == {"run1", "run%41"}


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("gs://b/run", "out: gs:/b/run is an address, expected a path"),
        ("s3://b/run", "out: s3:/b/run is an address"),
        ("a\udcffb", r"a\udcffb' is not UTF-8; choose another folder"),
        ("a[1]", "out: [ is not allowed in the path of a run"),
        ("a\\b", "out: \\ is not allowed in the path of a run"),
        ("~nobody-of-this-name/x", "out: ~nobody-of-this-name/x: Could not determine home directory"),
    ],
)
@pytest.mark.parametrize("command", [colors.EXPERIMENT.main, tu.main, sweep.main, paper.main])
def test_a_folder_that_can_not_hold_a_run_is_refused_at_once(command, out, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = {sweep.main: ["colors", "weak"], paper.main: ["table1"]}.get(command, ["weak"])
    with pytest.raises(SystemExit) as stop:
        command([*asked, "--out", out])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def test_the_folder_where_runs_are_made_is_looked_at_too(tmp_path, monkeypatch):
    (tmp_path / "a[b").mkdir()
    monkeypatch.chdir(tmp_path / "a[b")
    with pytest.raises(RunError, match=r"out: \[ is not allowed"):
        protocol._new_folder("colors")
    monkeypatch.chdir(tmp_path)
    assert len(protocol._new_folder("x" * 300).name) < 100


def test_the_home_is_meant_by_its_sign(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run_folder("out", Path("~/x")) == tmp_path / "x"
    settings = colors.EXPERIMENT.parse(["--out=~/x", "--data-dir=~/data"])[1]
    assert (settings.run.out, settings.data.data_dir) == (tmp_path / "x", tmp_path / "data")
    settings = tu.experiment("PROTEINS").parse(["--dataset=~/TOY.zip"])[1]
    assert settings.data.dataset == str(tmp_path / "TOY.zip")
    assert sweep.Sweep(out=Path("~/s"), experiment="colors").out == tmp_path / "s"
    (tmp_path / "data").mkdir()
    asked = paper.Paper("table1", out=Path("~/p"), data_dir=Path("~/data"))
    assert (asked.out, asked.data_dir) == (tmp_path / "p", tmp_path / "data")
    with pytest.raises(SettingError, match="--data-dir: gs:/b/data is an address"):
        colors.ColorsData(data_dir=Path("gs://b/data"))


@pytest.mark.parametrize("command", [["sweep", "colors", "weak"], ["paper", "status"], ["initialization"], ["colors"]])
@pytest.mark.parametrize("below", ["", "run"])
def test_a_file_in_the_place_of_a_folder_is_refused_at_once(command, below, tmp_path, capsys):
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as stop:
        command_line([*command, "--out", str(tmp_path / "file" / below)])
    assert stop.value.code == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "out: " in printed
    assert "file is a file, expected a folder; choose another one" in printed


def test_values_of_a_sweep_may_have_commas_spaces_and_quotes(capsys):
    assert sweep._values('dataset="DIR/a,b/TOY.zip", My Drive/B.zip,"say ""x"""') == (
        "dataset", ("DIR/a,b/TOY.zip", "My Drive/B.zip", 'say "x"'),
    )  # fmt: skip
    with pytest.raises(ValueError, match="vary: 'dataset=\"DIR/a' is not allowed"):
        sweep._values('dataset="DIR/a')
    with pytest.raises(SystemExit):
        sweep.main(["--help"])
    assert "A value with commas stands in double quotes" in " ".join(capsys.readouterr().out.split())


def test_a_value_with_spaces_or_of_any_length_is_one_setting(toy):
    long = "/".join(["x" * 50] * 4 + ["é" * 40])
    vary = {"dataset": (str(toy), f"{long}/A.zip", f"{long}/B.zip"), "filters": ("8 8 8",)}
    found = grid.jobs_of(grid.Grid("tu", ("weak",), 0, 1, 1, (), vary, ()))
    assert [job.settings.data.dataset for job in found] == list(vary["dataset"])
    assert {job.settings.model.filters for job in found} == {(8, 8, 8)}
    assert len({job.name for job in found}) == 3
    assert max(len(os.fsencode(job.name)) for job in found) < 255
    assert found[1].name == grid.jobs_of(grid.Grid("tu", ("weak",), 0, 1, 1, (), vary, ()))[1].name
