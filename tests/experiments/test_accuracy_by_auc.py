"""Networks of the paper's runs: their rows, and the picture of accuracy against attention AUC."""

import math

import pytest

from experiments.paper.accuracy_by_auc import networks_figure, read_networks
from experiments.run.folder import RunConfig, write_results
from experiments.run.groups import flat
from experiments.sweeps.grid import Grid, jobs_of
from jattn.evaluation import mean_std
from jattn.io import write_json


@pytest.fixture
def jobs():
    """Two presets of COLORS, two seeds each."""
    return jobs_of(Grid("colors", ("weak", "global"), 4, 2, 2, (), {}, ()))


def finish(job, out, accuracy, auc=()):
    subset = {"accuracy": mean_std(accuracy), "attention_auc": [mean_std(auc)] if auc else []}
    score, layers = mean_std(accuracy), ("nodes_kept", "graphs_emptied")
    subset |= {name: [score] if name in layers else score for name in job.experiment.details}
    folder, about = out / job.name, RunConfig(job.experiment.name, job.preset, flat(job.settings))
    folder.mkdir()
    write_json(folder / "config.json", {"format": 2, **about._asdict()})
    write_results(folder, {"seconds": {"test": 1}, "subsets": {"orig": subset, "all": subset}})


def test_every_network_of_finished_jobs_has_a_row(jobs, tmp_path):
    weak, without = jobs
    assert read_networks(jobs, tmp_path) == []
    finish(weak, tmp_path, [90.0, 80.0], [99.0, 97.0])
    key = {"task": "colors", "row": "weak", "attention": "weak"}
    of_weak = [
        {**key, "seed": 4, "auc": 99.0, "orig": 90.0, "all": 90.0},
        {**key, "seed": 5, "auc": 97.0, "orig": 80.0, "all": 80.0},
    ]
    assert read_networks(jobs, tmp_path) == of_weak
    finish(without, tmp_path, [100.0, 100.0])
    *before, last = read_networks(jobs, tmp_path)
    assert before[:2] == of_weak
    assert (last["attention"], last["seed"], math.isnan(last["auc"])) == ("none", 5, True)


def test_damaged_results_have_no_row(jobs, tmp_path):
    for job in jobs[:2]:
        finish(job, tmp_path, [90.0, 80.0])
    both = read_networks(jobs, tmp_path)
    for damage in ("{", '{"seconds": {}}'):
        (tmp_path / jobs[0].name / "results.json").write_text(damage)
        assert read_networks(jobs, tmp_path) == both[2:]


def test_the_picture_has_a_row_of_panels_a_task_with_marks_where_there_is_an_auc():
    rows = [
        {"auc": 99.0, "all": 80.0, "attention": "weak"},
        {"auc": 60.0, "all": 20.0, "attention": "unsupervised"},
        {"auc": math.nan, "all": 90.0, "attention": "none"},
        {"auc": 100.0, "all": 100.0, "attention": "ground_truth"},
    ]
    figure = networks_figure({"COLORS": rows, "TU collection": rows[2:3]})
    whole, zoom = figure.axes
    marks = [[tuple(line.get_xydata()[0]) for line in axes.lines] for axes in (whole, zoom)]
    assert marks == [[(99.0, 80.0), (60.0, 20.0)], [(99.0, 80.0)]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["unsupervised", "weakly supervised"]
    assert networks_figure({"COLORS": rows[2:]}) is None


def test_networks_of_several_draws_of_graphs_have_the_seeds_that_they_were_trained_from(tmp_path):
    grid = Grid("tu", ("weak",), 4, 2, 2, (), {"dataset": ("PROTEINS",)}, ("--data-seeds", "3"))
    (job,) = jobs_of(grid)
    finish(job, tmp_path, [70.0, 71.0, 72.0, 73.0, 74.0, 75.0])
    rows = read_networks([job], tmp_path)
    assert [row["seed"] for row in rows] == [4, 5, 4, 5, 4, 5]
    assert [row["data_seed"] for row in rows] == [0, 0, 1, 1, 2, 2]
    assert [row["all"] for row in rows] == [70.0, 71.0, 72.0, 73.0, 74.0, 75.0]
