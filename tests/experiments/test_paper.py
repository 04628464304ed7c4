"""The paper's tables: what is read from runs' folders, what counts as off, and what is run."""

import csv
import json
import math
from pathlib import Path

import pytest
from cases import slow
from PIL import Image

from experiments import colors
from experiments.paper import __main__ as paper
from experiments.paper import report
from experiments.paper.plan import EXTRA_ARGUMENTS, TABLES
from experiments.run.folder import RunConfig, write_results
from experiments.run.groups import flat
from experiments.run.paper_scores import PaperScore
from experiments.sweeps.pool import JobPool
from experiments.sweeps.summary import Row, Score, standard_error
from jattn.evaluation import mean_std
from jattn.io import write_json


def results(accuracy, auc=(), seconds=30.0, subsets=("orig", "large", "largec", "all")):
    subset = {"accuracy": mean_std(accuracy), "attention_auc": [mean_std(auc)] if auc else [], "graphs": 5}
    return {"subsets": dict.fromkeys(subsets, subset), "seconds": {"train": seconds}}


def configure(folder, settings, data=None):
    settings = settings if isinstance(settings, dict) else flat(settings)
    write_json(folder / "config.json", {"format": 2, **RunConfig("colors", "weak", settings, data)._asdict()})


def finish(folder, accuracy, auc=(), seconds=30.0):
    """Makes the folder of a finished run."""
    folder.mkdir(parents=True)
    preset, _, seeds = folder.name.partition("_seeds=")
    first, last = map(int, seeds.split("-"))
    _, settings = colors.EXPERIMENT.parse(
        [preset, "--seed", str(first), "--seeds", str(last - first + 1), *EXTRA_ARGUMENTS.get(preset, ())]
    )
    write_results(folder, results(accuracy, auc, seconds))
    configure(folder, settings)
    Image.new("RGB", (8, 8), "green").save(folder / "accuracy.png")


@pytest.fixture
def two_of_three(tmp_path):
    """COLORS with 20 seeds: weak is finished, global half done, supervised not begun."""
    finish(tmp_path / "colors/weak_seeds=0-9", [90.0] * 10, [99.0] * 10)
    finish(tmp_path / "colors/weak_seeds=10-19", [100.0] * 10, [99.8] * 10)
    finish(tmp_path / "colors/global_seeds=0-9", [100.0] * 10, seconds=60.0)
    return tmp_path


ASKED = ["--tasks", "colors", "--presets", "global", "weak", "supervised", "--seeds", "colors=20"]


def test_tables_are_written_from_the_folders_of_runs(two_of_three, monkeypatch, capsys):
    started = []
    monkeypatch.setattr(JobPool, "run", lambda pool: started.extend(pool._commands) or ({}, None))
    paper.main(["table1", *ASKED, "--out", str(two_of_three)])
    missing = ["colors/global_seeds=10-19", "colors/supervised_seeds=0-9", "colors/supervised_seeds=10-19"]
    assert sorted(started) == missing

    text = capsys.readouterr().out
    assert "Table 1: COLORS" in text
    line = next(line for line in text.splitlines() if line.startswith("ChebyGIN, weakly supervised"))
    assert "  95.0 ± 5.0 (100) *  " in line
    assert text.startswith((two_of_three / "table1.txt").read_text())
    assert report.LEGEND in text
    assert "| ChebyGIN | 100.0 ± 0.0 (100) |" in (two_of_three / "table1.md").read_text()
    with (two_of_three / "table1.csv").open() as file:
        rows = {(row["preset"], row["figure"]): row for row in csv.DictReader(file)}
    weak = rows["weak", "orig_accuracy"]
    assert (weak["mean"], weak["std"], weak["networks"], weak["paper"]) == ("95.000", "5.000", "20", "100")
    assert weak["off"] == "True"
    assert rows["global", "orig_accuracy"]["networks"] == "10"
    page = (two_of_three / "report.html").read_text()
    assert 'src="data:image/png;base64,' in page
    assert "&quot;threshold&quot;: 0.05" in page
    assert "http" not in page.replace("http-equiv", "")


def test_without_running_anything_what_is_finished_is_written(two_of_three, monkeypatch, capsys):
    started = []
    monkeypatch.setattr(JobPool, "run", lambda pool: started.extend(pool._commands) or ({}, None))
    paper.main(["all", *ASKED, "--no-run", "--out", str(two_of_three)])
    assert started == []
    assert "ChebyGIN, weakly supervised" in capsys.readouterr().out
    assert len((two_of_three / "networks-colors.csv").read_text().splitlines()) == 1 + 30
    assert (two_of_three / "networks.png").exists()
    assert (two_of_three / "report.html").read_text().count("<h2>Attention</h2>") == 1


@pytest.mark.slow
def test_without_folder_or_with_damaged_results_it_says_so(two_of_three, tmp_path, capsys):
    paper.main(["table1", *ASKED, "--no-run", "--out", str(tmp_path / "new")])
    assert (tmp_path / "new/report.html").exists()
    file = two_of_three / "colors/global_seeds=0-9/results.json"
    for damaged, what in (
        ('{"subsets": {}}', "it has no 'seconds'"),
        ('{"subsets": {}, "seconds": {}}', "not all scores are there"),
        ('{"subsets": {"all": {"accuracy": {}}}, "seconds": {}}', "not all scores are there"),
        ('{"subsets": [], "seconds": {}}', "not all scores are there"),
        (json.dumps(results([100.0] * 10, [99.0] * 9)), "not all scores are there"),
    ):
        file.write_text(damaged.replace("{", '{"format": 1, ', 1))
        (two_of_three / "report.html").unlink(missing_ok=True)
        with pytest.raises(SystemExit) as stop:
            paper.main(["table1", *ASKED, "--no-run", "--out", str(two_of_three)])
        assert stop.value.code == 1
        assert f"{file}: {what}; remove it, and the same command makes it again" in capsys.readouterr().err
        assert (two_of_three / "report.html").exists()
        paper.main(["status", *ASKED, "--out", str(two_of_three)])
        assert f"{file}: {what}; remove it" in capsys.readouterr().out


def test_results_of_another_kind_are_not_part_of_a_row(two_of_three, capsys):
    folder = two_of_three / "colors/weak_seeds=10-19"
    for entry in (
        results([100.0] * 10),
        results([100.0] * 10, [99.8] * 10, subsets=("orig", "all")),
        results([100.0] * 9, [99.8] * 9),
    ):
        write_results(folder, entry)
        with pytest.raises(SystemExit) as stop:
            paper.main(["table1", *ASKED, "--no-run", "--out", str(two_of_three)])
        assert stop.value.code == 1
        printed = capsys.readouterr()
        line = next(line for line in printed.out.splitlines() if line.startswith("ChebyGIN, weakly supervised"))
        assert "90.0 ± 0.0" in line and line.split()[-5:-1] == ["10", "of", "20", "(100)"]
        assert f"{folder}: its results are" in printed.err


def test_what_is_written_has_all_finished_runs_whatever_was_asked_for(two_of_three, capsys):
    paper.main(["figures", "--tasks", "colors", "--presets", "supervised", "--no-run", "--out", str(two_of_three)])
    assert "ChebyGIN" not in capsys.readouterr().out
    paper.main(["table1", *ASKED, "--no-run", "--out", str(two_of_three)])
    whole = {file.name: file.read_bytes() for file in two_of_three.glob("*.*")}
    capsys.readouterr()
    paper.main(["table1", "--tasks", "triangles", "--seeds", "colors=20", "--no-run", "--out", str(two_of_three)])
    assert capsys.readouterr().out == f"{two_of_three / 'report.html'} has tables, pictures and settings\n"
    assert {file.name: file.read_bytes() for file in two_of_three.glob("*.*")} == whole
    assert len(whole["networks-colors.csv"].splitlines()) == 1 + 30


def test_finished_runs_of_other_settings_are_no_part_of_a_row(two_of_three, capsys):
    folder = two_of_three / "colors/weak_seeds=10-19"
    config = json.loads((folder / "config.json").read_text())["settings"]
    for changes, what in (
        ({"threshold": 0.1}, "its threshold is 0.1, not 0.05; remove it, and the command makes it again"),
        ({"data_dir": "published"}, "its results are of other data, subsets or layers than those of weak_seeds=0-9"),
        ({"epochs": 3}, "its epochs is 3, not 300"),
    ):
        configure(folder, config | changes)
        with pytest.raises(SystemExit):
            paper.main(["table1", *ASKED, "--no-run", "--out", str(two_of_three)])
        assert f"{folder}: {what}" in capsys.readouterr().err
    del config["threshold"]  # as an older version wrote it, which had no such setting
    configure(folder, config | {"quiet": True, "out": "elsewhere"})
    paper.main(["table1", *ASKED, "--no-run", "--out", str(two_of_three)])
    assert " 95.0 ± 5.0 (100) *" in capsys.readouterr().out


def test_runs_whose_data_have_other_digests_are_no_part_of_a_row(two_of_three, capsys):
    digests = {"weak_seeds=0-9": "1f", "weak_seeds=10-19": "2e"}
    for name, digest in digests.items():
        folder = two_of_three / "colors" / name
        configure(folder, json.loads((folder / "config.json").read_text())["settings"], {"train": digest})
    with pytest.raises(SystemExit):
        paper.main(["table1", *ASKED, "--no-run", "--out", str(two_of_three)])
    assert f"{folder}: its data are not those of weak_seeds=0-9: the digests differ" in capsys.readouterr().err


def test_runs_that_were_not_asked_for_are_no_reason_to_fail(two_of_three, capsys):
    (two_of_three / "colors/weak_seeds=0-9/results.json").write_text("{}")
    paper.main(["table1", *ASKED[:3], "global", "--seeds", "colors=20", "--no-run", "--out", str(two_of_three)])
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "weakly" not in printed.out


def test_runs_on_other_data_are_not_gone_on_with(two_of_three, monkeypatch, capsys):
    monkeypatch.setattr(JobPool, "run", lambda pool: pytest.fail("something was run"))
    with pytest.raises(SystemExit) as stop:
        paper.main(["table1", *ASKED, "--data-dir", str(two_of_three), "--out", str(two_of_three)])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert "global_seeds=0-9: a run with generated data; ask for the same, or for another --out" in error


def test_the_study_is_made_with_colors_where_no_rows_are_named(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(JobPool, "run", lambda pool: started.append(set(pool._commands)) or ({}, None))
    for arguments in (["figures"], ["figures", "--tasks", "triangles"], ["all", "--presets", "weak"]):
        paper.main([*arguments, "--out", str(tmp_path)])
    assert ["initialization" in names for names in started] == [True, False, False]


def test_status_tells_what_is_done_and_how_long_the_rest_takes(two_of_three, capsys):
    paper.main(["status", *ASKED, "--jobs", "1", "--out", str(two_of_three)])
    lines = capsys.readouterr().out.splitlines()
    assert "colors, ChebyGIN, weakly supervised: 20 of 20 networks" in lines
    assert "colors, ChebyGIN: 10 of 20 networks, about 1 minutes of one job" in lines
    # 20 networks at the mean of the task, 120 s for 30, and 10 at 6 s
    assert lines[-1] == f"left: about {(20 * 4 + 10 * 6) / 60:.0f} minutes with 1 jobs at once"
    paper.main(["status", "--tasks", "colors", "--jobs", "1", "--out", str(two_of_three)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "initialization: waiting"
    assert lines[-1].endswith("not known for initialization, without a finished run")


@pytest.mark.parametrize(
    ("mean", "error", "figure", "off"),
    [
        (95.0, math.nan, "100", None),  # neither has a spread
        (99.0, 0.0, "100", True),
        (99.6, 0.0, "100", False),
        (100.0, 0.1, "", None),
        (math.nan, 0.1, "90 ± 6", None),
        (93.1, 0.6, "90 ± 6", True),  # error sqrt(0.36 + 0.36) = 0.85, three of them 2.55
        (93.0, 0.6, "90 ± 6", False),  # 90 may be 90.5
        (93.0, 0.6, "90.0 ± 6", True),
        (108.0, math.nan, "90 ± 6", False),  # one network has the paper's spread: 3 x 6.03
        (109.0, math.nan, "90 ± 6", True),
    ],
)
def test_a_figure_is_off_where_it_differs_by_three_standard_errors(mean, error, figure, off):
    paper_mean, _, std = figure.partition(" ± ")
    found = PaperScore(paper_mean, std, 100, 100) if figure else None
    assert report.is_off(Score("Large", mean, 0.0, error, found)) is off


def test_a_figure_without_spread_has_that_of_our_networks():
    figure = PaperScore("90", "", 10, 10)
    assert (
        report.is_off(Score("Large", 95.1, 4.0, 0.8, figure)) is True
    )  # three errors of sqrt(0.64 + 1.6) = 1.5, and 0.5
    assert report.is_off(Score("Large", 94.9, 4.0, 0.8, figure)) is False


def test_what_has_one_error_is_networks_or_else_draws_of_graphs():
    assert standard_error([1.0, 3.0], [0, 0]) == 1.0
    assert standard_error([1.0, 3.0, 6.0, 8.0], [0, 0, 1, 1]) == 2.5
    assert math.isnan(standard_error([1.0], [0]))


@pytest.mark.parametrize("data_dir", [None, slow(Path.cwd())])
def test_every_row_of_every_table_has_runs(tmp_path, data_dir):
    for table, (tasks, labels) in TABLES.items():
        runs = paper.runs_of(paper.Paper("all", out=tmp_path, data_dir=data_dir), table)
        assert [entry.task for entry in runs] == list(tasks)
        for entry in runs:
            assert {job.preset for job in entry.jobs} == set(labels)
            for job in entry.jobs:
                published = data_dir is not None and not (entry.task == "colors" and job.settings.data.dimension > 3)
                assert job.settings.data.data_dir == (data_dir if published else None)
                without_attention = entry.task != "tu" and job.settings.attention.attention == "none"
                assert job.settings.evaluation.leave_one_out_auc == without_attention


def test_two_tables_share_their_runs(tmp_path):
    asked = paper.Paper("all", out=tmp_path, tasks=("colors",))
    first, third = (paper.runs_of(asked, table)[0] for table in ("table1", "table3"))
    assert {job.name for job in first.jobs} < {job.name for job in third.jobs}
    assert len([job for job in first.jobs if job.preset == "weak"]) == 10  # of 10 seeds each


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel1"], "target 'tabel1' is not known; did you mean table1?"),
        (["table1", "--tasks", "imagenet"], "imagenet"),
        (["table1", "--presets", "weakest"], "presets: 'weakest' is not known; expected some of: global-gcn"),
        (["table1", "--seeds", "colors=0"], "seeds: 'colors=0' is not allowed, expected TASK=N"),
        (["table1", "--seeds", "ten"], "seeds: 'ten' is not allowed, expected TASK=N"),
        (["table1", "--jobs", "0"], "jobs: 0 is not allowed"),
        (["table1", "--data-dir", "nowhere"], "--data-dir: nowhere does not exist"),
        (["table1", "--tasks", "tu"], "table1 has no such rows of tu"),
        (["table2", "--presets", "supervised"], "table2 has no such rows of colors"),
    ],
)
def test_a_wrong_argument_is_an_error_that_names_it(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        paper.main([*arguments, "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_score_that_is_undefined_in_every_row_has_no_column():
    """True attention pools in three places, and its AUC has a meaning in the first alone."""

    def row(preset, **means):
        scores = {name: Score(name, mean, 0.0, math.nan, None) for name, mean in means.items()}
        return Row(preset, {}, {"done": 1}, (1, 1), 1.0, scores, {})

    rows = [row("weak", Orig=90.0, AUC=80.0, AUC2=70.0), row("upper-bound", Orig=99.0, AUC2=math.nan, AUC3=math.nan)]
    section = report.Section("table1", "triangles", TABLES["table1"][1], rows, [])
    heading, weak, true = report.cells(section)
    assert heading == ["%", "Orig", "AUC", "AUC2", "networks", "seconds"]
    assert weak[1:4] == ["90.0", "80.0", "70.0"]
    assert true[1:4] == ["99.0", "", "-"]
