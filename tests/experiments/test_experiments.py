"""The experiments as a person runs them: tiny, from the command line to the folder."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from cases import slow
from short_teacher import teacher_epochs

from experiments import colors
from experiments.run import protocol
from experiments.run.folder import read_lines
from experiments.run.groups import with_changes
from jattn.io import load_network
from jattn.nn import DiffPoolConfig

TINY = ["--seeds", "2", "--epochs", "2", "--train-graphs", "40", "--test-graphs", "12"]


def run(arguments: list[str], out) -> dict:
    colors.EXPERIMENT.main([*arguments, *TINY, *teacher_epochs(arguments, 2), "--out", str(out)])
    return json.loads((out / "results.json").read_text())


@pytest.mark.default_xla
def test_weak_supervision_runs_in_one_command(tmp_path, capsys):
    results = run([], tmp_path / "run")
    assert results["seconds"].keys() == {"teacher", "labels", "attention", "test", "pictures"}
    assert results["subsets"].keys() == {"orig", "large", "largec", "all"}
    for subset in results["subsets"].values():
        assert len(subset["accuracy"]["values"]) == 2
        assert len(subset["attention_auc"]) == 1
    assert results["subsets"]["all"]["graphs"] == 36

    lines = read_lines(tmp_path / "run/metrics.jsonl")
    assert [(line["stage"], line["epoch"]) for line in lines] == [
        ("teacher", 1), ("teacher", 2), ("attention", 1), ("attention", 2),
    ]  # fmt: skip
    assert all(len(line["loss"]["values"]) == 2 for line in lines)
    assert "attention_auc" in lines[-1]
    assert load_network(tmp_path / "run/weights.npz")[1]["pool_1"]["scorer"]["projection"]["kernel"].shape == (2, 4, 1)
    for picture in ("training.png", "accuracy.png", "graphs.png"):
        assert (tmp_path / "run" / picture).read_bytes().startswith(b"\x89PNG")

    shown = capsys.readouterr()
    assert "2 seeds" in shown.out
    assert "paper" not in shown.out  # settings differ from the paper's
    assert "attention: epoch 2 of 2" in shown.err


@pytest.mark.slow
def test_the_same_command_gives_the_same_bits(tmp_path):
    first, second = run(["supervised"], tmp_path / "a"), run(["supervised"], tmp_path / "b")
    assert first["subsets"] == second["subsets"]
    with np.load(tmp_path / "a/weights.npz") as a, np.load(tmp_path / "b/weights.npz") as b:
        assert a.files == b.files
        for name in a.files:
            assert a[name].tobytes() == b[name].tobytes()


@pytest.mark.slow
def test_a_seed_trains_the_same_among_others_and_alone(tmp_path):
    together = run(["supervised"], tmp_path / "together")
    alone = run(["supervised", "--seed", "1"], tmp_path / "alone")
    a, b = (s["subsets"]["all"]["accuracy"]["values"] for s in (together, alone))
    assert a[1] == b[0]


@pytest.mark.parametrize("preset", [name for name in colors.PRESETS if name != "weak"])
def test_every_preset_makes_the_network_that_it_names(preset):
    settings = colors.PRESETS[preset]
    network = settings.network(outputs=1)
    assert bool(network.poolings) == (settings.attention.attention != "none" or preset.startswith("diffpool"))
    assert (network.order == 1) == ("gin" in preset or "gcn" in preset)
    assert (settings.data.dimension == 32) == preset.endswith("-h")
    if preset.startswith("diffpool"):
        assert network.poolings == (None, DiffPoolConfig(4))
    elif network.poolings:
        scorer = next(filter(None, network.poolings)).scorer
        assert (scorer.kind == "mlp") == preset.endswith("-d")
        assert (scorer.init == "default") == preset.endswith("-d")


@pytest.mark.parametrize(
    "preset", ["global", *map(slow, ["unsupervised-gin-topk", "upper-bound", "weak-d", "global-gcn"])]
)
def test_presets_of_every_kind_run(preset, tmp_path):
    results = run([preset], tmp_path / "run")
    aucs = results["subsets"]["all"]["attention_auc"]
    assert len(aucs) == (0 if preset.startswith("global") else 1)
    if preset.startswith("upper-bound"):
        assert aucs[0]["values"] == [100.0, 100.0]


def test_validation_takes_the_place_of_the_test_subsets(tmp_path):
    results = run(["supervised", "--validation"], tmp_path / "run")
    assert results["subsets"].keys() == {"validation", "all"}


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["global", "diffpool"])
def test_leave_one_out_gives_networks_without_attention_an_auc(preset, tmp_path):
    results = run([preset, "--leave-one-out-auc"], tmp_path / "run")
    assert len(results["subsets"]["all"]["attention_auc"][0]["values"]) == 2
    assert (tmp_path / "run/graphs.png").exists()


@pytest.mark.slow
def test_published_files_are_read(shared, tmp_path):
    small = ["--seeds", "1", "--epochs", "1", "--out", str(tmp_path / "run")]
    colors.EXPERIMENT.main(["supervised", "--data-dir", str(shared / "data"), *small])
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert results["subsets"]["all"]["graphs"] == 7500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wek"], "preset 'wek' is not known; did you mean weak?"),
        (["--epochz", "3"], "epochz"),
        (["--epochs", "0"], "--epochs: 0 is not allowed, expected at least 1"),
        (["--epochs", "many"], "many"),
        (["--filters", "64,64"], "64,64: write several values with spaces between them: 64 64"),
        (["--filters=64,64"], "write several values with spaces between them: --filters 64 64"),
        (["--pooling", "best"], "best"),
        (["--dimension", "2"], "dimension"),
        (["--dropout", "1.5"], "--dropout: 1.5 is not allowed"),
        (["--hidden", "0"], "--hidden: 0 is not allowed"),
        (["--decay-epochs", "0"], "--decay-epochs: 0 is not allowed"),
        (["--pool-before", "7"], "--pool-before: 7 is not allowed"),
        (
            ["--score-from", "previous", "--pool-before", "0"],
            "--pool-before: 0 is not allowed with --score-from previous",
        ),
        (["diffpool", "--pool-before", "2"], "--pool-before: 2 is not allowed, expected 0 to 1"),
        (["diffpool", "--clusters", "0"], "--clusters: 0 is not allowed, expected at least 1"),
        (["weak", "--leave-one-out-auc"], "--leave-one-out-auc: --attention weak has an AUC of its own; leave it out"),
        (["weak", "--clusters", "4"], "--clusters: DiffPool has no --attention weak; say --attention none"),
        (["--data-dir", "/nowhere"], "/nowhere"),
        (["--train-graphs", "-4"], "--train-graphs: -4 is not allowed"),
        (["--test-graphs", "0"], "--test-graphs: 0 is not allowed"),
        (["--threshold", "nan"], "--threshold: nan is not allowed"),
        (["--threshold", "2"], "--threshold: 2.0 is not allowed"),
        (["--learning-rate", "nan"], "--learning-rate: nan is not allowed"),
        (["--filters", "8"], "--filters: one convolution has no previous features"),
        (["--pool-before", "1", "1"], "--pool-before: 1 is given twice; a convolution has one pooling before it"),
        (["--pooling", "topk", "--ratio", "2"], "--ratio: 2.0 is not allowed, expected 0 to 1"),
        (["--decay-epochs", "9", "9"], "--decay-epochs: 9 is given twice"),
        (["--epochs", "9", "--decay-epochs", "5", "12"], "--decay-epochs: 12 is after the last epoch, --epochs 9, so"),
        (
            ["--teacher-decay-epochs", "101"],
            "--teacher-decay-epochs: 101 is after the last epoch, --teacher-epochs 100",
        ),
        (["--best", "--validation"], "--best: with --validation the same graphs would choose and score; leave one"),
        (["--restarts", "2", "--attention", "none"], "--restarts: --attention none has no scorer to choose"),
        (["--batch-size", "0"], "--batch-size: 0 is not allowed, expected at least 1"),
        (["--weight-decay", "-1"], "--weight-decay: -1"),
        (
            ["weak-h", "--data-dir", "x"],
            "--data-dir: preset weak-h has --dimension 32, which no published data set has",
        ),
        (["--data-dir", "x", "--dimension", "9"], "--dimension: 9 is for a generated set"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_it(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        colors.EXPERIMENT.main([*arguments, "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())  # however lines are broken


def test_true_attention_may_stand_before_the_first_convolution_for_it_scores_nothing():
    changed = with_changes(colors.PRESETS["upper-bound"], pool_before=(0,))
    assert changed.attention.score_from == "previous"
    first, second = changed.network(1).poolings
    assert first.score_from == "current"
    assert second is None


def test_another_configuration_in_the_folder_is_an_error(tmp_path, capsys):
    run(["supervised"], tmp_path / "run")
    with pytest.raises(SystemExit) as stop:
        run(["supervised", "--threshold", "0.01"], tmp_path / "run")
    assert stop.value.code == 2
    assert "threshold: 0.05 there, 0.01 now" in capsys.readouterr().err


@pytest.mark.slow
def test_precision_is_of_training_alone_and_stays_what_it_was(tmp_path, capsys):
    run(["supervised"], tmp_path / "highest")
    run(["supervised", "--precision", "bfloat16"], tmp_path / "bfloat16")
    (network, highest), (other, lower) = (load_network(tmp_path / of / "weights.npz") for of in ("highest", "bfloat16"))
    assert network == other
    for a, b in zip(jax.tree.leaves(highest), jax.tree.leaves(lower), strict=True):
        assert a.dtype == b.dtype == np.float32
        assert (a != b).any()
    with pytest.raises(SystemExit):
        run(["supervised"], tmp_path / "bfloat16")
    assert "precision: 'bfloat16' there, 'highest' now" in capsys.readouterr().err


def test_the_papers_figures_stand_beside_its_own_settings_alone():
    weak = colors.PRESETS["weak"]
    assert str(colors.EXPERIMENT.paper_scores("weak", with_changes(weak, seeds=100, seed=7))["largec"]) == "73 ± 14"
    assert colors.EXPERIMENT.paper_scores("weak", with_changes(weak, threshold=0.1)) == {}
    assert colors.EXPERIMENT.paper_scores("weak", with_changes(weak, validation=True)) == {}


def test_a_run_that_diverges_ends_without_an_auc_and_shows_its_scores_again_without_data(tmp_path, capsys):
    command = ["supervised", "--learning-rate", "1e10"]
    results = run(command, tmp_path / "run")
    assert results["subsets"]["all"]["attention_auc"][0]["mean"] is None
    shown = capsys.readouterr()
    assert "2 of 2 networks diverged (seed 0, 1): their outputs are not finite; try a smaller" in shown.err
    first = shown.out
    assert first.splitlines()[1].split()[-1] == "-"  # the AUC
    replace(colors.EXPERIMENT, data=None).main([*command, *TINY, "--out", str(tmp_path / "run")])
    *table, last = first.splitlines()
    *table_again, last_again = capsys.readouterr().out.splitlines()
    assert table_again == table
    assert last_again == f"finished before, in {last.split()[0]} s: {tmp_path / 'run'}"


def test_results_stay_where_data_can_not_be_read(tmp_path):
    (tmp_path / "results.json").write_text("{}")  # without a configuration: not those of this run
    with pytest.raises(SystemExit):
        colors.EXPERIMENT.main(["--data-dir", str(tmp_path / "nowhere"), "--out", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_two_runs_that_start_together_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = {protocol._new_folder("colors") for _ in range(3)}
    assert len(folders) == 3


@pytest.mark.slow
def test_one_graph_of_each_subset_is_enough(tmp_path):
    out = tmp_path / "run"
    colors.EXPERIMENT.main(
        ["supervised", "--seeds", "1", "--epochs", "1", "--train-graphs", "3", "--test-graphs", "1", "--out", str(out)]
    )
    assert (out / "graphs.png").exists()


def test_an_interrupted_run_says_so_in_a_line(tmp_path, monkeypatch, capsys):
    def interrupt(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(protocol, "predict_seeds", interrupt)
    with pytest.raises(SystemExit) as stop:
        run(["supervised"], tmp_path / "run")
    assert stop.value.code == 130
    stopped = f"stopped; to resume, repeat the command with --out {tmp_path / 'run'}\n"
    assert capsys.readouterr().err.endswith(stopped)


def test_help_lists_presets_and_settings(capsys):
    with pytest.raises(SystemExit) as stop:
        colors.EXPERIMENT.main(["--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    for word in ("supervised-gin-topk", "--teacher-epochs", "Nodes with attention at or below this are dropped"):
        assert word in shown
