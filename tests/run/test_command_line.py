"""A command line: one flag per setting whichever its group, errors and warnings that name flags as they are typed."""

import re
from dataclasses import fields, is_dataclass

import pytest

from experiments import colors, mnist75sp, sweep, tu
from experiments.initialization import __main__ as initialization
from experiments.paper import __main__ as paper
from experiments.run.command import Experiment
from experiments.run.groups import entries, flag


def shown(main, arguments, capsys):
    """The status and the text on standard error of a command that ends at once."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return stop.value.code, capsys.readouterr()


@pytest.mark.parametrize(
    ("main", "settings"),
    [
        (colors.EXPERIMENT.main, colors.PRESETS["weak"]),
        (tu.main, tu.presets("PROTEINS")["weak"]),
        (initialization.main, initialization.Initialization()),
    ],
)
def test_help_has_a_section_for_each_group_and_a_flag_for_each_setting(main, settings, capsys):
    status, text = shown(main, ["--help"], capsys)
    assert status == 0
    for group, field, _ in entries(settings):
        assert f"{group} options" in text.out
        assert re.search(rf"{flag(field.name)}\b", text.out)


@pytest.mark.parametrize(
    ("main", "settings", "sentence"),
    [
        (colors.main, colors.Colors, "then training starts from the one with the lowest training loss."),
        (tu.main, tu.TU, "COLLAB, DD-200 and DD-300 (D&D with training graphs of up to 200 or 300 nodes;"),
        (tu.main, tu.TU, "On 2 CPU cores with other work on them, `--dataset PROTEINS"),
        (sweep.main, sweep.Sweep, "A value with commas stands in double quotes, with double quotes in it doubled:"),
        (paper.main, paper.Paper, "and for tu 5 for each of 3 draws of training graphs."),
        (initialization.main, initialization.Initialization, "."),
    ],
)
def test_help_in_a_wide_terminal_has_no_break_inside_a_text(main, settings, sentence, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "4000")
    _, text = shown(main, ["--help"], capsys)
    assert sentence in text.out
    for field in fields(settings):
        inner = fields(field.type) if is_dataclass(field.type) else [field]
        for about in (field.metadata["help"] for field in inner if "help" in field.metadata):
            assert about[:150] in text.out  # some 200 characters fit on a line


def test_flags_have_no_prefix_and_reach_their_groups():
    _, settings = colors.EXPERIMENT.parse(["supervised", "--threshold", "0.02", "--filters", "8", "8", "8", "--quiet"])
    assert settings.attention.threshold == 0.02
    assert settings.model.filters == (8, 8, 8)
    assert settings.run.quiet
    assert settings.attention.attention == "supervised"


@pytest.mark.parametrize(
    ("main", "arguments", "message"),
    [
        (sweep.main, ["colors", "weak", "--jobs", "0"], "--jobs: 0 is not allowed, expected at least 1"),
        (sweep.main, ["colors", "weak", "--first-seed", "-1"], "--first-seed: -1 is not allowed"),
        (sweep.main, ["colors", "weak", "--vary", "a"], "--vary: 'a' is not allowed"),
        (sweep.main, ["colors", "weak", "--executor", "slurm", "--hours", "0"], "--hours: 0.0 is not allowed"),
        (sweep.main, [], "experiment: name one of colors,"),
        (sweep.main, ["colors", "weak", "--vary", "threshold=2"], "--threshold: 2.0 is not allowed"),
        (paper.main, ["table1", "--jobs", "0"], "--jobs: 0 is not allowed"),
        (paper.main, ["table1", "--seeds", "colors=0"], "--seeds: 'colors=0' is not allowed"),
        (paper.main, ["table1", "--data-dir", "/nowhere"], "--data-dir: /nowhere does not exist"),
        (tu.main, ["--dataset", "/nowhere"], "--dataset: /nowhere does not exist"),
        (initialization.main, ["--sigmas", "0"], "--sigmas: (0.0,) is not allowed, expected positive numbers"),
        (mnist75sp.main, ["--train-images", "0"], "--train-images: 0 is not allowed, expected at least 1"),
        (mnist75sp.main, ["--noise-seed", "-1"], "--noise-seed: -1 is not allowed, expected at least 0"),
        (tu.main, ["--tune-seeds", "2"], "--tune-seeds: there is no study without --tune"),
    ],
)
def test_an_error_is_a_line_that_names_the_flag(main, arguments, message, tmp_path, capsys):
    status, text = shown(main, [*arguments, "--out", str(tmp_path / "out")], capsys)
    assert status == 2
    assert text.err.startswith(f"error: {message}")
    assert text.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "name", "other", "needed"),
    [
        ("global --threshold 0.02", "threshold", "attention none", "unsupervised, supervised, weak or ground_truth"),
        ("weak --pooling topk --threshold 0.3", "threshold", "pooling topk", "threshold"),
        ("weak --ratio 0.5", "ratio", "pooling threshold", "topk"),
        ("supervised --teacher-epochs 5", "teacher-epochs", "attention supervised", "weak"),
        ("supervised --label-threshold 0.2", "label-threshold", "attention supervised", "weak"),
        ("weak --scorer-layers 7", "scorer-layers", "scorer linear", "gnn"),
        ("weak --scorer-hidden 9", "scorer-hidden", "scorer linear", "mlp or gnn"),
        ("global --entropy-weight 0", "entropy-weight", "clusters None", "K"),
        ("upper-bound --init uniform", "init", "attention ground_truth", "unsupervised, supervised or weak"),
    ],
)
def test_a_changed_setting_without_effect_is_refused(arguments, name, other, needed, capsys):
    status, text = shown(colors.main, arguments.split(), capsys)
    kind = other.split()[0]
    assert (status, text.err) == (2, f"error: --{name}: no effect with --{other}; it needs --{kind} {needed}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        "global --threshold 0.05",  # as in the preset
        "weak --attention none",
        "weak --scorer mlp --scorer-hidden 9 --init uniform --init-scale 2",
        "weak --pooling topk --ratio 0.5",
        "diffpool --entropy-weight 0",
    ],
)
def test_settings_with_an_effect_or_of_the_preset_are_allowed(arguments):
    colors.EXPERIMENT.parse(arguments.split())


def test_what_a_preset_alone_says_may_lose_its_effect():
    mnist75sp.EXPERIMENT.parse(["diffpool-gin", "--clusters", "None"])


def test_a_study_may_choose_what_gives_a_setting_its_effect(capsys):
    experiment = tu.experiment_of([])
    experiment.parse(["weak", "--tune", "2", "--scorer-hidden", "9"])
    status, text = shown(experiment.parse, ["unsupervised", "--attention-weight", "9"], capsys)
    assert (status, text.err) == (
        2,
        "error: --attention-weight: no effect with --attention unsupervised; it needs --attention weak\n",
    )


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (
            ["--epochs", "9"],
            "warning: --decay-epochs: 280 is after the last epoch, --epochs 9, "
            "so the learning rate never drops there\n",
        ),
        (
            ["weak", "--teacher-epochs", "9"],
            "warning: --teacher-decay-epochs: 90 is after the last epoch, --teacher-epochs 9, "
            "so the teacher's learning rate never drops there\n",
        ),
        (["supervised"], ""),
        (["--epochs", "9", "--decay-epochs"], ""),
        (["--epochs", "9", "--quiet"], ""),
        ([], ""),
    ],
)
def test_a_preset_whose_decay_is_never_reached_runs_with_a_warning(arguments, warning, monkeypatch, capsys):
    monkeypatch.setattr(Experiment, "run", lambda *arguments: None)
    colors.EXPERIMENT.main(arguments)
    assert capsys.readouterr().err == warning
