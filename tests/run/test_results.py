"""Results are what was written, whichever version wrote them, or an error that names the file."""

import json
import math

import pytest

from experiments.run.folder import RunError
from experiments.run.results import LabelScores, MeanStd, Results, SizeScores, SubsetScores, pooled

SCORE = MeanStd(60.0, 10.0, (50.0, 70.0))
NO_AUC = MeanStd(math.nan, math.nan, (math.nan, math.nan))
ORIG = SubsetScores(
    SCORE,
    (SCORE, NO_AUC),
    graphs=9,
    nodes_kept=(SCORE,),
    graphs_emptied=(SCORE,),
    balanced_accuracy=SCORE,
    matthews_correlation=SCORE,
    predicted=(SCORE, SCORE),
    by_label=(LabelScores(3, SCORE, 4),),
    by_nodes=(SizeScores((4, 25), SCORE, 5),),
)
RESULTS = Results({"orig": ORIG, "all": SubsetScores(SCORE, (SCORE, NO_AUC), 9)}, {"train": 2.0, "test": 1.5})


def test_results_are_read_as_they_were_written(tmp_path):
    RESULTS.write(tmp_path)
    read = Results.read(tmp_path)
    assert repr(read) == repr(RESULTS)  # NaN is not equal to itself
    assert (read.networks, read.total_seconds) == (2, 3.5)


def test_the_file_has_the_shape_that_is_documented(tmp_path):
    RESULTS.write(tmp_path)
    found = json.loads((tmp_path / "results.json").read_text())
    assert found.keys() == {"format", "subsets", "seconds"}
    score = {"mean": 60.0, "std": 10.0, "values": [50.0, 70.0]}
    none = {"mean": None, "std": None, "values": [None, None]}
    assert found["subsets"]["orig"] == {
        "accuracy": score,
        "attention_auc": [score, none],
        "graphs": 9,
        "nodes_kept": [score],
        "graphs_emptied": [score],
        "balanced_accuracy": score,
        "matthews_correlation": score,
        "predicted": [score, score],
        "by_label": [{"label": 3, "accuracy": score, "graphs": 4}],
        "by_nodes": [{"nodes": [4, 25], "accuracy": score, "graphs": 5}],
    }
    assert "by_nodes" not in found["subsets"]["all"]


def write(folder, subsets, **others):
    results = {"format": 1, "subsets": subsets, "seconds": {"train": 1}, **others}
    (folder / "results.json").write_text(json.dumps(results))


def test_results_without_newer_scores_are_read(tmp_path):
    score = {"mean": 50.0, "std": 0.0, "values": [50.0]}
    write(tmp_path, {"all": {"accuracy": score, "attention_auc": []}})
    results = Results.read(tmp_path)
    assert results.together == SubsetScores(MeanStd(50.0, 0.0, (50.0,)))
    with pytest.raises(RunError, match="not all scores are there"):
        Results.read(tmp_path, ["balanced_accuracy"])


ONE, TWO = ({"mean": 0.0, "std": 0.0, "values": [0.0] * k} for k in (1, 2))


@pytest.mark.parametrize(
    "subsets",
    [
        {},
        [],
        {"orig": {"accuracy": ONE}},
        {"all": {"attention_auc": []}},
        {"all": {"accuracy": {"mean": 0.0, "std": 0.0}}},
        {"all": {"accuracy": {**ONE, "mean": "high"}}},
        {"all": {"accuracy": {**ONE, "values": 3}}},
        {"all": {"accuracy": ONE, "attention_auc": [TWO]}},
        {"all": {"accuracy": ONE}, "orig": {"accuracy": TWO}},
        {"all": {"accuracy": ONE, "by_nodes": [{"accuracy": ONE, "graphs": 1}]}},
    ],
)
def test_damaged_results_are_an_error_that_names_the_file(subsets, tmp_path):
    write(tmp_path, subsets)
    with pytest.raises(RunError, match=r"results\.json: not all scores are there; remove it, and the same command"):
        Results.read(tmp_path)


def test_scores_of_several_runs_are_pooled():
    assert pooled([SCORE, MeanStd(60.0, 0.0, (60.0,))]).values == (50.0, 70.0, 60.0)
    assert pooled([SCORE, MeanStd(60.0, 0.0, (60.0,))]).mean == pytest.approx(60)
    assert math.isnan(pooled([SCORE, NO_AUC]).mean)
    assert [str(score) for score in (SCORE, NO_AUC)] == ["60.0 ± 10.0", "-"]
