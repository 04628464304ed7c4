"""The list and cards of ready-made models, and how they are made from runs."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest

from experiments import colors
from experiments.pretrained import __main__ as command
from experiments.pretrained import making
from experiments.run.folder import RunError
from experiments.run.groups import flat, with_changes
from jattn import load_network, predict_seeds
from jattn.io import _pretrained

CARDS = _pretrained.pretrained_cards()


@pytest.mark.parametrize(
    ("seeds", "validation", "chosen"),
    [
        ([7], [], 7),
        ([0, 1, 2], [3.0, 1.0, 2.0], 2),
        ([0, 1, 2, 3], [4.0, 2.0, 3.0, 1.0], 1),
        ([4, 5, 6], [9.0, 9.0, 1.0], 4),
    ],
)
def test_the_seed_is_the_median_of_the_validation_accuracies(seeds, validation, chosen):
    assert making.median_seed(seeds, validation) == chosen


TINY = with_changes(
    colors.SUPERVISED, train_graphs=40, test_graphs=20, filters=(8, 8), epochs=4, decay_epochs=(), quiet=True
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A tiny experiment and its runs: one with validation, and copies that say something else."""
    folder = tmp_path_factory.mktemp("runs")
    tiny = dataclasses.replace(colors.EXPERIMENT, presets={"supervised": TINY})
    tiny.run("supervised", with_changes(TINY, seeds=3, validation=True, out=folder / "validated"))
    for name, file, old, new in (
        ("plain", "results.json", '"validation"', '"orig"'),
        ("other", "config.json", '"order": 2', '"order": 1'),
    ):
        shutil.copytree(folder / "validated", folder / name)
        path = folder / name / file
        path.write_text(path.read_text().replace(old, new))
    return tiny, folder


@pytest.fixture
def tiny_runs(runs, monkeypatch):
    experiment, folder = runs
    monkeypatch.setitem(making.EXPERIMENTS, "colors", experiment)
    return folder


@pytest.mark.slow
def test_a_model_is_the_median_network_of_its_run(tiny_runs, tmp_path, monkeypatch):
    made = making.make(tiny_runs / "validated", tmp_path)
    monkeypatch.setattr(_pretrained, "FOLDER", tmp_path)
    assert _pretrained.pretrained_cards() == {"colors-supervised": made}
    network, params = _pretrained.load_pretrained("colors-supervised")
    _, all_seeds = load_network(tiny_runs / "validated" / "weights.npz")
    for mine, theirs in zip(jax.tree.leaves(params), jax.tree.leaves(all_seeds), strict=True):
        np.testing.assert_allclose(mine, theirs[made.seeds.index(made.seed)], atol=making.DEAD)

    results = json.loads((tiny_runs / "validated" / "results.json").read_text())
    validation = results["subsets"]["validation"]["accuracy"]["values"]
    assert made.seed == making.median_seed(range(3), validation)
    np.testing.assert_allclose(made.validation_accuracy, validation, atol=1e-3)
    assert list(made.scores) == ["orig", "large", "largec", "all"]
    orig = TINY.load().splits["orig"]
    counts = predict_seeds(network, jax.tree.map(lambda x: x[None], params), orig).prediction[0, :, 0]
    assert made.scores["orig"].accuracy == 100 * np.mean(counts.round() == orig.globals["label"])
    assert made.data == {"name": "COLORS-3", "source": "generated", "files": {}}
    assert made.settings["train_graphs"] == 40


def test_the_command_of_a_card_is_that_of_the_settings(tmp_path):
    settings = with_changes(
        colors.WEAK, seeds=9, validation=True, filters=(8, 16), data_dir=tmp_path, out=tmp_path, threshold=0.1
    )
    line = making.command_line(colors.EXPERIMENT, "weak", settings)
    assert line == "jattn colors weak --data-dir DIR --filters 8 16 --threshold 0.1 --seeds 9 --validation"
    _, parsed = colors.EXPERIMENT.parse(line.split()[2:])
    same = with_changes(settings, out=None)
    assert flat(with_changes(parsed, data_dir=tmp_path)) == flat(same)


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ("plain", "a median of 3 seeds needs a run with --validation"),
        ("other", "its settings are not those of supervised"),
        ("none", "there is no finished run"),
    ],
)
@pytest.mark.slow
def test_a_run_that_makes_no_model_is_refused(run, why, tiny_runs, tmp_path):
    with pytest.raises(RunError, match=why):
        making.make(tiny_runs / run, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_data_that_changed_are_refused(tiny_runs, tmp_path, monkeypatch):
    loaded = with_changes(TINY, data_seed=1).load()
    changed = dataclasses.replace(making.EXPERIMENTS["colors"], data=lambda settings: loaded)
    monkeypatch.setitem(making.EXPERIMENTS, "colors", changed)
    with pytest.raises(RunError, match=r"its data are not those that are there now\n  data\.large: the digest differs"):
        making.make(tiny_runs / "validated", tmp_path)


@pytest.mark.slow
def test_the_command_makes_what_it_can_and_says_what_failed(tiny_runs, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["make", str(tiny_runs / "plain"), str(tiny_runs / "validated"), "--out", str(tmp_path)])
    assert stop.value.code == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("colors-supervised: seed ")
    assert shown.err.startswith(f"error: {tiny_runs / 'plain'}: a median of 3 seeds")
    assert {file.name for file in tmp_path.iterdir()} == {"colors-supervised.npz", "colors-supervised.json"}


def test_the_list_has_every_model(capsys):
    command.main([])
    shown = capsys.readouterr().out
    assert all(f"\n{name} " in f"\n{shown}" for name in CARDS)
    assert "Orig" in shown


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_shown_whole(name, capsys):
    command.main([name])
    shown = capsys.readouterr().out
    assert shown.startswith(f"{name}: ")
    assert f"trained by: {CARDS[name].command}\n" in shown
    assert f"  Orig: {CARDS[name].scores['orig'].accuracy:.2f} % of " in shown
    assert all(f"  {setting}: " in shown for setting in CARDS[name].settings)


def test_an_unknown_model_is_an_error_of_a_line(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["colors-week"])
    assert stop.value.code == 2
    assert "there is no ready-made model 'colors-week'; did you mean colors-weak?" in capsys.readouterr().err
