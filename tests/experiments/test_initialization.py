"""Initial projections: directions that are exact, training that starts from them, and a study that can be resumed."""

import csv
import json

import jax
import numpy as np
import pytest

from experiments.colors import PRESETS
from experiments.initialization import __main__ as initialization
from experiments.initialization import study
from experiments.initialization.projections import (
    common_scales,
    prob_good_init,
    prob_good_init_normal,
    projection_at,
    sample_projection,
    with_projections,
)
from experiments.initialization.settings import Initialization
from experiments.run.groups import SettingError, with_changes
from jattn.datasets import generate_colors
from jattn.evaluation import cosine_similarity
from jattn.training import prepare_seeds

TINY = ["--dimensions", "3", "--sigmas", "0.5", "2", "--seeds", "2", "--epochs", "2", "--train-graphs", "40"]
SMALL = [*TINY, "--test-graphs", "12", "--quiet"]
KEY = ["n", "model", "supervision", "distribution", "sigma", "seed"]
COLUMNS = [*KEY, "cosine", "final_cosine", "auc", "orig", "large", "largec"]


@pytest.mark.parametrize("cosine", [-1, -0.75, 0, 0.75, 1])
@pytest.mark.parametrize("features", [2, 3, 16])
def test_a_projection_has_the_cosine_and_norm_that_it_should(cosine, features):
    optimum = np.eye(features)[1]
    p = projection_at(cosine, optimum, 1.7, seed=0)
    assert cosine_similarity(p, optimum) == pytest.approx(cosine, abs=1e-6)
    assert np.linalg.norm(p) == pytest.approx(1.7, rel=1e-6)
    if features > 2 and abs(cosine) < 1:
        assert np.abs(p - projection_at(cosine, optimum, 1.7, seed=1)).max() > 0.01


def test_a_cosine_beyond_1_is_refused():
    with pytest.raises(ValueError, match=r"cosine: 1\.5 is not allowed, expected -1 to 1"):
        projection_at(1.5, np.eye(3)[1], 1.0, seed=0)


@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_draws_have_the_scale_that_they_should_and_are_their_own(distribution):
    p = np.stack([sample_projection(distribution, 2.0, 50, seed) for seed in range(200)])
    assert p.std() == pytest.approx(2 if distribution == "normal" else 2 / np.sqrt(3), rel=0.03)
    assert (np.abs(p).max() <= 2) == (distribution == "uniform")
    np.testing.assert_array_equal(p[3], sample_projection(distribution, 2.0, 50, 3))
    assert abs(cosine_similarity(p[3], sample_projection(distribution, 1.0, 50, 3))) < 0.6


def test_common_scales_give_the_variances_of_their_rules():
    normal, uniform = common_scales("normal", 3), common_scales("uniform", 3)
    assert normal == pytest.approx({"Xavier": np.sqrt(2 / 4), "Kaiming": np.sqrt(2 / 3)})
    for name, bound in uniform.items():
        assert bound / np.sqrt(3) == pytest.approx(normal[name])


@pytest.mark.parametrize(("features", "share"), [(2, 1 / 3), (3, 1 / 4)])  # of a circle, of a sphere (Archimedes)
def test_the_share_of_good_normal_draws_is_that_of_a_cap(features, share):
    assert prob_good_init_normal(features) == pytest.approx(share)
    assert prob_good_init("normal", features) == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 100_000))


def test_the_share_of_good_uniform_draws_is_that_of_a_cube():
    # A square's half-width 1 towards the axis, of which 60 degrees to each side cut off two triangles beside it.
    assert prob_good_init("uniform", 2) == pytest.approx((2 - 1 / np.sqrt(3)) / 4, abs=0.006)


def trained(start_from=None, **changes):
    settings = with_changes(PRESETS["supervised"], order=1, filters=(8, 8), epochs=2, **changes)
    graphs = generate_colors(3, 40, 1, 1)["train"]
    training = prepare_seeds(settings.network(1), settings.training("regression"), graphs, [0, 1], 2)
    *_, last = training.run(start_from(training.state) if start_from else training.state, 0)
    return jax.device_get(last.state)


@pytest.mark.slow
def test_replacing_p_is_training_from_it():
    def doubled(state):
        p = jax.device_get(state.params["pool_1"]["scorer"]["projection"]["kernel"])
        return with_projections(state, "pool_1", 2 * p[:, :, 0])

    replaced, drawn = trained(doubled, init_scale=1.0), trained(init_scale=2.0)
    for a, b in zip(jax.tree.leaves(replaced[:2]), jax.tree.leaves(drawn[:2]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_projections_that_fit_no_pooling_are_refused():
    def starts(pooling, p):
        return lambda state: with_projections(state, pooling, p)

    for pooling, p, message in (
        ("pool_2", np.zeros((2, 4)), "pooling: 'pool_2' is no pooling with a linear scorer, among: conv_0,"),
        ("pool_1", np.zeros((2, 3)), r"projections: expected shape \(2, 4\), got \(2, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            trained(starts(pooling, p))
    with pytest.raises(ValueError, match="no pooling with a linear scorer"):
        trained(starts("pool_1", np.zeros((2, 4))), scorer="mlp")


def rows(file):
    return list(csv.DictReader(file.read_text().splitlines()))


@pytest.mark.slow
def test_a_study_that_is_stopped_goes_on_to_the_same_numbers(tmp_path, monkeypatch, capsys):
    stages, train = [], study.train

    def counted(run, setting, stage, projections):
        if len(stages) == 1:
            stages.append("stopped")
            raise KeyboardInterrupt
        stages.append(stage)
        return train(run, setting, stage, projections)

    arguments = [*SMALL, "--models", "gcn", "--supervision", "weak", "--dynamics-epochs", "0", "--out"]
    monkeypatch.setattr(study, "train", counted)
    stopped = tmp_path / "stopped"
    with pytest.raises(SystemExit) as stop:
        initialization.main([*arguments, str(stopped)])
    assert stop.value.code == 130
    assert "to resume, repeat the command" in capsys.readouterr().err
    assert not (stopped / "points.csv").exists()
    initialization.main([*arguments, str(stopped)])
    assert stages == ["n3 gcn weak normal", "stopped", "n3 gcn weak uniform"]
    initialization.main([*arguments, str(stopped)])
    assert len(stages) == 3  # what is finished is not trained again
    initialization.main([*arguments, str(tmp_path / "whole")])
    for file in ("points.csv", "summary.csv", "good_share.csv", "results.json"):
        assert (stopped / file).read_text() == (tmp_path / "whole" / file).read_text()
    table = rows(stopped / "points.csv")
    assert list(table[0]) == COLUMNS
    assert [(row["distribution"], row["sigma"], row["seed"]) for row in table[:5]] == [
        ("normal", "0.5", "0"), ("normal", "0.5", "1"), ("normal", "2", "0"), ("normal", "2", "1"),
        ("uniform", "0.5", "0"),
    ]  # fmt: skip
    p = sample_projection("normal", 2.0, 4, 1)
    assert float(table[3]["cosine"]) == pytest.approx(cosine_similarity(p[:3], np.eye(3)[1]), abs=1e-5)
    assert all(0 <= float(row["auc"]) <= 100 for row in table)
    summary = json.loads((stopped / "results.json").read_text())["summary"]
    assert sum(row["networks"] for row in summary) == 8
    with pytest.raises(SystemExit):
        initialization.main([*arguments, str(stopped), "--epochs", "3"])
    assert "another configuration" in capsys.readouterr().err
    file = stopped / "parts" / "n3-gcn-weak-normal.csv"
    line, rest = file.read_text().split("\n", 1)
    (stopped / "results.json").unlink()
    for changed, what in (
        (line.replace('"epochs": 2', '"epochs": 3'), "epochs: 3 there, 2 now"),
        (line.replace('"projections": "', '"projections": "0'), "data.projections: the digest differs"),
        (line.replace('"format": 1', '"format": 2'), "its format is 2, of a newer version"),
        ("# 0a1b", "it has no format number"),
    ):
        file.write_text(f"{changed}\n{rest}")
        with pytest.raises(SystemExit):
            initialization.main([*arguments, str(stopped)])
        assert what in capsys.readouterr().err
        assert file.read_text() == f"{changed}\n{rest}"


@pytest.mark.slow
def test_a_study_shows_training_dynamics_and_pictures(tmp_path, capsys):
    out = tmp_path / "study"
    chosen = ["--models", "gin", "--supervision", "unsupervised", "--distributions", "uniform"]
    initialization.main([*SMALL, *chosen, "--cosines", "-0.75", "1", "--dynamics-epochs", "2", "--out", str(out)])
    table = rows(out / "dynamics.csv")
    assert {(row["supervision"], row["cosine"], row["epoch"]) for row in table} == {
        ("unsupervised", cosine, epoch) for cosine in ("-0.75", "1") for epoch in "12"
    }
    first = {row["cosine"]: float(row["auc"]) for row in table if row["epoch"] == "1"}
    assert first["1"] > 90 > 50 > first["-0.75"]
    assert all(abs(float(row["current_cosine"]) - float(row["cosine"])) < 0.1 for row in table if row["epoch"] == "1")
    for picture in ("sigma-n3", "cosine-n3", "auc-n3", "good_share", "dynamics"):
        assert (out / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr()
    assert "unsupervised" in shown.out
    assert shown.err == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sigmas": (0.0,)}, "sigmas"),
        ({"sigmas": (1.0, 1.0)}, "none twice"),
        ({"dimensions": (2,)}, "expected at least 3"),
        ({"cosines": (2.0,)}, "expected 5 at most, from -1 to 1"),
        ({"cosines": (-1.0, -0.5, 0.0, 0.5, 0.9, 1.0)}, "expected 5 at most, from -1 to 1"),
        ({"models": ()}, "models: .* expected at least one"),
        ({"seeds": 0}, "seeds: 0 is not allowed"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(SettingError, match=message):
        with_changes(Initialization(), **changes)


def test_the_published_set_has_three_colors(tmp_path):
    with pytest.raises(SettingError, match=r"--data-dir: .* say --dimensions 3"):
        with_changes(Initialization(), data_dir=tmp_path)
    with pytest.raises(SettingError, match="--test-graphs: 7 is for a generated set"):
        with_changes(Initialization(), data_dir=tmp_path, dimensions=(3,), test_graphs=7)


def test_data_that_are_not_there_are_named(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        initialization.main(["--data-dir", str(tmp_path), "--dimensions", "3", "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert str(tmp_path) in capsys.readouterr().err
