"""The paper's figures: each has a preset, and none is missing."""

import csv
from importlib import resources

import pytest

from experiments import colors, mnist75sp, triangles, tu
from experiments.paper.plan import TABLE_1, TABLE_2, TABLE_3
from experiments.run.paper_scores import FILE, paper_scores

EXPERIMENTS = {"COLORS": colors, "TRIANGLES": triangles, "MNIST-75sp": mnist75sp}


def lines():
    return list(csv.DictReader(resources.files("experiments.run").joinpath(FILE).read_text("utf-8").splitlines()))


def test_every_line_is_a_figure_of_a_preset():
    data_sets = {line["data"] for line in lines()}
    assert data_sets == {*EXPERIMENTS, *tu.IN_PAPER.values()}
    assert sum(len(row) for name in data_sets for row in paper_scores(name).values()) == len(lines())


@pytest.mark.parametrize("data_set", EXPERIMENTS)
def test_tables_1_and_3_have_a_row_for_every_row_of_the_papers(data_set):
    rows = set(paper_scores(data_set))
    assert rows <= set(EXPERIMENTS[data_set].PRESETS)
    assert rows >= set(TABLE_1)
    assert rows <= set(TABLE_3)
    assert len(TABLE_1) == 14


def test_table_2_has_a_row_for_every_row_of_the_papers():
    for data_set in tu.IN_PAPER.values():
        assert set(paper_scores(data_set)) == set(TABLE_2)


def test_figures_are_as_printed():
    diffpool = paper_scores("COLORS")["diffpool-gin"]
    assert {name: str(figure) for name, figure in diffpool.items()} == {
        "orig": "58 ± 4", "large": "16 ± 2", "largec": "28 ± 3", "auc": "97",
    }  # fmt: skip
    assert (diffpool["orig"].networks, diffpool["orig"].draws, diffpool["orig"].rounding) == (100, 100, 0.5)
    small = paper_scores("D&D-200")["weak"]["test"]
    assert (str(small), small.networks, small.draws, small.rounding) == ("54.3 ± 5.0", 100, 10, pytest.approx(0.05))
    assert paper_scores("elsewhere") == {}


def test_figures_are_those_of_the_papers_tables(shared):
    with (shared / "paper" / "tables.csv").open(encoding="utf-8") as file:
        expected = list(csv.DictReader(file))
    first = {tuple(line[name] for name in ("data", "model", "supervision", "pooling", "column")) for line in lines()}
    assert all(line in lines() or line["table"] == "3" for line in expected)
    assert first == {
        tuple(line[name] for name in ("data", "model", "supervision", "pooling", "column")) for line in expected
    }
