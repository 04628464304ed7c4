"""A tiny benchmark: every part has its rows, and tables and picture are made of them alone."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import flops, parts, tables
from benchmarks.measure import measure
from benchmarks.turns import Turns
from benchmarks.workloads import SOURCES, sparse_source
from experiments.run.groups import with_changes
from experiments.run.tables import read_csv, write_csv
from jattn.training import train_seeds

TINY = ["--graphs", "4", "--workloads", "colors", "--nodes", "100", "200", "--repeats", "1"]
TIMES = {"each": 2.0, "floor": 0.5, "first_cold": 3.0, "first_warm": 1.0, "compiling": 2.0, "memory": 400}


@pytest.fixture
def in_this_process(monkeypatch):
    """Measures in this process, each thing once; what was asked for."""
    asked = []

    def process(arguments, cache):
        asked.append(arguments)
        numbers = {"each": 2.0, "floor": 0.5, "first": 3.0, "compiling": 2.0, "memory": 400}
        first = arguments["measurement"] not in [before["measurement"] for before in asked[:-1]]
        return numbers | (measure(**{**arguments, "graphs": 2, "repeats": 1}) if first else {})

    small = with_changes(SOURCES["colors"].settings, filters=(4, 4), order=1)
    monkeypatch.setitem(SOURCES, "colors", replace(SOURCES["colors"], settings=small))
    monkeypatch.setattr(flops, "MATRIX", 64)
    monkeypatch.setattr(parts, "_process", process)
    return asked


def test_every_part_is_measured_once_and_written(in_this_process, tmp_path, capsys):
    command.main(["training", "leave_one_out", "growth", *TINY, "--out", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "COLORS" in shown and "exponent, 100 to 200" in shown
    assert len(in_this_process) == 2 * (2 + 2 + 6)  # cold and warm
    (row, _), growth = (read_csv(tmp_path / f"{part}.csv") for part in ("training", "growth"))
    assert row.keys() == {"workload", "graphs", "seeds", *TIMES}
    assert all(row["each"] > 0 and row["floor"] > 0 for row in growth)

    in_this_process.clear()
    files = {name: (tmp_path / name).read_bytes() for name in ("training.csv", "benchmark.md", "benchmark.png")}
    command.main(["training", *TINY, "--out", str(tmp_path)])
    assert not in_this_process
    assert files == {name: (tmp_path / name).read_bytes() for name in files}  # drawn from the tables alone


def test_a_part_that_fails_is_named_and_others_are_kept(monkeypatch, tmp_path, capsys):
    def process(asked, cache):
        if asked["seeds"] == 10:
            raise parts.MeasurementError("out of memory")
        return {"each": 1.0, "floor": 1.0, "first": 1.0, "compiling": 1.0, "memory": 1}

    monkeypatch.setattr(parts, "_process", process)
    with pytest.raises(SystemExit) as stop:
        command.main(["training", *TINY, "--out", str(tmp_path)])
    assert stop.value.code == 1
    assert "training colors 4 10: out of memory" in capsys.readouterr().err
    assert [row["seeds"] for row in read_csv(tmp_path / "training.csv")] == [1]


def test_tables_show_ratios_to_the_floor_and_to_pyg():
    rows = [{"workload": "sparse", "graphs": 4, "seeds": 1, **TIMES}]
    compared = [{"measurement": "training", "workload": "sparse", "graphs": 4, "ratio": 6.25}]
    (_, cells) = tables.work_table("training", rows, compared)
    assert cells[:6] == ["300 nodes, random", "1", "2.000", "0.500", "4.0", "6.2"]
    (_, cells) = tables.work_table("training", rows, [])
    assert cells[5] == "-"


def test_exponents_are_those_of_power_laws(tmp_path):
    key = {"measurement": "leave_one_out", "kind": "space"}
    rows = [{**key, "nodes": n, "each": 50.0 if n < 100 else 3 * n**1.5} for n in (25, 100, 400, 1600)]
    assert tables.exponents(rows)["leave_one_out", "space"] == pytest.approx((1.5, 3))
    write_csv(tmp_path / "growth.csv", rows)
    assert "1.50" in tables.write_tables(tmp_path).splitlines()[-1]


def test_starts_are_measured_in_seconds_of_cpu(monkeypatch):
    monkeypatch.setattr(parts, "COMMANDS", {})
    ((case),) = parts.cases(["start"], parts.Sizes(repeats=1))
    row = parts.measured(case, parts.Sizes(repeats=1))
    assert row["command"] == "import jattn"
    assert 0 < row["cpu"] < 5 and row["clock"] > 0


def test_a_process_prints_its_numbers_or_says_why_not(tmp_path):
    asked = {"measurement": "training", "workload": "none", "graphs": 4, "seeds": 1, "repeats": 1, "data_dir": None}
    with pytest.raises(parts.MeasurementError, match="KeyError: 'none'"):
        parts._process(asked, str(tmp_path))
    why = "its process ended with status 1"
    with Turns("jattn", "training", "none", 4, 1) as turns, pytest.raises(parts.MeasurementError, match=why):
        turns.round()


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["colors", "triangles", "random-25", "space-25"])
@pytest.mark.parametrize("measurement", ["training", "leave_one_out", "prediction"])
def test_all_workloads_are_measured(measurement, workload, monkeypatch):
    monkeypatch.setattr(flops, "MATRIX", 64)
    numbers = measure(measurement, workload, graphs=4, seeds=1, repeats=1, data_dir=None)
    assert all(np.isfinite(value) and value >= 0 for value in numbers.values()), numbers
    assert numbers["each"] > 0 and numbers["floor"] > 0


@pytest.mark.slow
def test_a_process_measures_as_this_one_does(tmp_path):
    asked = {"measurement": "training", "workload": "colors", "graphs": 4, "seeds": 1, "repeats": 1, "data_dir": None}
    numbers = parts._process(asked, str(tmp_path))
    assert numbers.keys() == {"first", "compiling", "each", "floor", "memory"}
    assert all(np.isfinite(value) and value >= 0 for value in numbers.values()), numbers


@pytest.mark.parametrize("nodes", [25, 800])
def test_sparse_graphs_of_every_size_keep_their_nodes(nodes):
    made = sparse_source(nodes).workload(2)
    epoch = next(train_seeds(made.network, made.config, made.graphs, [0], epochs=1))
    assert np.mean(epoch.predictions.node_masks[0]) > 0.9
