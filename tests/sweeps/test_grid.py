"""The jobs of a sweep, and what is refused before any of them starts."""

import pytest

from experiments import sweep
from experiments.sweeps import grid


def jobs(experiment="colors", presets=("weak",), seeds=2, a_job=2, first=0, data_seeds=(), vary=None, arguments=()):
    return grid.jobs_of(grid.Grid(experiment, presets, first, seeds, a_job, data_seeds, vary or {}, arguments))


def test_a_grid_has_a_job_for_every_combination():
    found = jobs(
        presets=("weak", "supervised"), first=5, seeds=3, data_seeds=(0, 7), vary={"threshold": ("0.01", "0.1")}
    )
    assert len({job.name for job in found}) == len(found) == 2 * 2 * 2 * 2
    assert found[0].name == "weak_threshold=0.01_data=0_seeds=5-6"
    assert found[-1].name == "supervised_threshold=0.1_data=7_seed=7"
    for job in found:
        assert job.settings.attention.attention == job.preset
        assert str(job.settings.attention.threshold) == job.values["threshold"]
        assert job.settings.evaluation.seeds == (2 if job.settings.evaluation.seed == 5 else 1)
    assert {job.settings.data.data_seed for job in found} == {0, 7}


def test_one_seed_of_one_preset_is_a_job():
    (job,) = jobs(seeds=1)
    assert list(job.arguments) == ["weak", "--seed", "0", "--seeds", "1"]


def test_values_may_have_several_parts_or_be_switches():
    found = jobs(vary={"filters": ("8 8", "16 8 8"), "compact": ("true", "False")})
    assert [(job.settings.model.filters, job.settings.run.compact) for job in found] == [
        ((8, 8), True), ((8, 8), False), ((16, 8, 8), True), ((16, 8, 8), False),
    ]  # fmt: skip
    assert found[0].name == "weak_filters=8-8_compact=true_seeds=0-1"


def test_a_data_set_brings_its_own_settings_and_figures():
    proteins, other = jobs("tu", vary={"dataset": ("PROTEINS", "DD-200")})
    assert (proteins.settings.attention.threshold, other.settings.attention.threshold) == (0.1, 0.005)
    figures = [str(job.experiment.paper_scores(job.preset, job.settings)["test"]) for job in (proteins, other)]
    assert figures == ["76.2 ± 0.7", "54.3 ± 5.0"]
    (job,) = jobs("tu", arguments=("--dataset", "COLLAB", "--data-seeds", "3"))
    assert (job.settings.data.max_nodes, job.networks) == (35, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "experiment: name one of colors, triangles, mnist75sp, tu"),
        (["colours", "weak"], "experiment 'colours' is not known; did you mean colors?"),
        (["colors"], "presets: name at least one of: weak, weak-d,"),
        (["colors", "weak", "wek"], "preset 'wek' is not known; did you mean weak?"),
        (["colors", "weak", "--partition", "gpu"], "partition: only for jobs on SLURM; add --executor slurm"),
        (["colors", "weak", "weak"], "presets: weak is given more than once"),
        (["colors", "weak", "--seeds", "0"], "seeds: 0 is not allowed, expected at least 1"),
        (["colors", "weak", "--jobs", "0"], "jobs: 0 is not allowed"),
        (
            ["colors", "weak", "--vary", "seed=1", "--vary", "seed=2"],
            "vary: seed is given twice; list all of its values",
        ),
        (["colors", "weak", "--out="], "--out= has an empty value; is a variable of the shell not set?"),
        (["colors", "weak", "--out", ""], "--out has an empty value; is a variable of the shell not set?"),
        (["colors", "weak", "--vary", "threshold"], "vary: 'threshold' is not allowed, expected NAME=VALUE,VALUE,..."),
        (["colors", "weak", "--vary", "threshold=0.1,0.1"], "threshold: 0.1 is given more than once"),
        (["colors", "weak", "--vary", "threshold=0.1,2"], "threshold: 2.0 is not allowed"),
        (["colors", "weak", "--vary", "treshold=0.1"], "treshold"),
        (["colors", "weak", "--vary", "seed=1,2"], "vary: seed can't be varied"),
        (["colors", "weak", "--vary", "compact=yes"], "vary: compact=yes is not allowed, expected true or false"),
        (["colors", "weak", "--vary", "data-dir=a/b,a:b"], "would share the folder weak_data-dir=a-b_seeds=0-9"),
        (["mnist75sp", "weak", "--data-seeds", "1"], "--data-seed"),
        (["colors", "weak", "--hours", "0"], "hours: 0.0 is not allowed"),
        (["colors", "weak", "--", "--epochz", "3"], "epochz"),
        (["colors", "weak", "--", "--seeds", "3"], "--seeds: the sweep gives this to its jobs"),
        (["colors", "weak", "--summary"], "holds no sweep"),
    ],
)
def test_a_typo_is_one_error_before_anything_starts(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        sweep.main(["--out", str(tmp_path / "out"), *arguments])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
