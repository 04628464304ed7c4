"""Help says what every preset is; a preset in the wrong place is an error of a line."""

import pytest

from experiments import colors, mnist75sp, triangles, tu
from experiments.run.presets import describe, listing

EXPERIMENTS = [module.EXPERIMENT for module in (colors, triangles, mnist75sp)] + [tu.experiment("PROTEINS")]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_help_has_a_line_for_every_preset(experiment, capsys):
    with pytest.raises(SystemExit):
        experiment.parse(["--help"])
    lines = capsys.readouterr().out.splitlines()
    described = [describe(name, experiment.variants) for name in experiment.presets]
    assert len(set(described)) == len(described)
    for name, words in zip(experiment.presets, described, strict=True):
        assert any(
            line.split(maxsplit=1) == [name, words]
            for line in (line.removesuffix(" (default)").replace(" that keeps all nodes", "") for line in lines)
        )


def test_a_preset_is_its_supervision_and_its_variants():
    variants = {"d": "by an MLP"}
    assert describe("weak-d", variants) == "attention learns from a teacher's leave-one-out labels, by an MLP"
    assert describe("upper-bound", variants) == "nodes are pooled by the true attention, an upper bound"
    assert describe("unsupervised-gin-topk", variants) == "attention learns from the task alone, GIN, top-k pooling"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--dataset", "COLLAB", "unsupervised"],
        ["--dataset=COLLAB", "unsupervised", "--seeds", "1"],
        ["--quiet", "unsupervised"],
        ["weak", "unsupervised"],
        ["--filters", "8", "8", "unsupervised"],
    ],
)
def test_a_preset_after_settings_is_named(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        tu.main(arguments)
    assert stop.value.code == 2
    wanted = "python -m experiments.tu unsupervised ..."
    message = f"error: preset 'unsupervised': one preset is allowed, before all settings: {wanted}\n"
    assert capsys.readouterr().err == message


def test_the_value_of_a_flag_may_be_a_presets_name():
    assert tu.experiment_of(["--dataset", "weak"]).parse(["--dataset", "weak"])[1].data.dataset == "weak"


def test_the_list_of_presets_says_where_top_k_keeps_all_nodes():
    kept = "top-k pooling that keeps all nodes"
    assert kept in listing(colors.PRESETS, "weak", colors.VARIANTS)
    lines = listing(triangles.PRESETS, "supervised", triangles.EXPERIMENT.variants).splitlines()
    assert [line.split()[0] for line in lines if kept in line] == ["unsupervised-topk", "unsupervised-gin-topk"]
