"""The MNIST-75sp experiment as a person runs it, on a few digits."""

import json

import numpy as np
import pytest
from digits import expect, write_strokes
from short_teacher import teacher_epochs

from experiments.mnist75sp import EXPERIMENT, PRESETS, SUPERVISED
from experiments.run import stages
from experiments.run.folder import MetricsLog, Run, RunError, read_lines
from experiments.run.groups import with_changes
from jattn.attribution import leave_one_out_seeds
from jattn.graphs import select_graphs
from jattn.io import load_network, read_arrays, write_arrays
from jattn.nn import DiffPoolConfig

TINY = ["--order", "2", "--filters", "4", "6", "8", "--epochs", "1", "--seeds", "2"]


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    """A folder with twelve images to train on, the last four for validation, and three to test on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    expect(monkeypatch, train=12, test=3, validation=4)
    return write_strokes(tmp_path / "mnist", train=12, test=3)


def run(arguments, data_dir, out):
    EXPERIMENT.main(
        [*arguments, *TINY, *teacher_epochs(arguments, 1, "supervised"), "--data-dir", str(data_dir), "--out", str(out)]
    )
    return json.loads((out / "results.json").read_text())


@pytest.mark.default_xla
@pytest.mark.slow
def test_the_default_is_supervised(data_dir, tmp_path, capsys):
    results = run([], data_dir, tmp_path / "run")
    assert results["subsets"].keys() == {"orig", "noisy", "noisyc", "all"}
    assert [results["subsets"][name]["graphs"] for name in results["subsets"]] == [3, 3, 3, 9]
    assert len(results["subsets"]["all"]["attention_auc"]) == 1
    for picture in ("training.png", "accuracy.png", "graphs.png"):
        assert (tmp_path / "run" / picture).read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.splitlines()[0].split() == ["%", "Orig", "Noisy", "NoisyC", "AUC"]
    weights = load_network(tmp_path / "run/weights.npz")[1]
    assert weights["pool_2"]["scorer"]["projection"]["kernel"].shape == (2, 4, 1)
    assert weights["output"]["kernel"].shape == (2, 8, 10)


@pytest.mark.slow
def test_labels_of_the_same_teacher_are_not_computed_again_and_those_of_another_are_refused(
    data_dir, tmp_path, monkeypatch, capsys
):
    first = run(["weak"], data_dir, tmp_path / "run")
    assert "labels: 12 of 12 graphs" in capsys.readouterr().err
    labels = read_arrays(tmp_path / "run/labels.npz")["target"]
    assert labels.shape[0] == 2
    assert [line["stage"] for line in read_lines(tmp_path / "run/metrics.jsonl")] == ["teacher", "attention"]

    def never(*arguments):
        raise AssertionError("labels were computed again")

    (tmp_path / "run/results.json").unlink()  # as if it had been stopped before its end
    with monkeypatch.context() as patched:
        patched.setattr(stages, "leave_one_out_seeds", never)
        again = run(["weak"], data_dir, tmp_path / "run")
    assert again["subsets"] == first["subsets"]

    # another teacher, or the same for other graphs, needs labels of its own
    settings = with_changes(PRESETS["weak"], filters=(4, 6, 8), order=2)
    graphs = with_changes(settings, data_dir=data_dir).load().splits["train"]
    teacher, params = settings.teacher(10), load_network(tmp_path / "run/weights.npz")[1]
    params = {name: params[name] for name in ("conv_0", "conv_1", "conv_2", "output")}
    run_there = Run(tmp_path, MetricsLog(None), finished=False)
    of_graphs = stages.StageTrainer(run_there, settings.run, 32, graphs, "classification", [0, 1])
    file = tmp_path / "run/labels.npz"
    before = file.read_bytes()
    with pytest.raises(
        RunError, match=r"has labels of another teacher or other graphs; remove it.*\n  data\.weights: the d"
    ):
        of_graphs.leave_one_out_labels("labels", file, teacher, params, settings.attention)
    write_arrays(file, {**read_arrays(file), "format": 4})
    with pytest.raises(RunError, match=r"labels\.npz: its format is 4, of a newer version .*; remove it, and the same"):
        of_graphs.leave_one_out_labels("labels", file, teacher, params, settings.attention)
    file.write_bytes(before)
    fresh = of_graphs.leave_one_out_labels("labels", tmp_path / "labels.npz", teacher, params, settings.attention)
    assert not np.array_equal(fresh, labels)
    falls = with_changes(settings, label_change="decrease").attention
    with pytest.raises(RunError, match=r"\n  change: "):
        of_graphs.leave_one_out_labels("labels", tmp_path / "labels.npz", teacher, params, falls)
    other = of_graphs.leave_one_out_labels("labels", tmp_path / "falls.npz", teacher, params, falls)
    expected = leave_one_out_seeds(teacher, params, graphs, "classification", change="decrease").target
    np.testing.assert_allclose(other, expected, atol=1e-6)
    assert not np.allclose(other, fresh, atol=1e-6)
    fewer = stages.StageTrainer(
        run_there, settings.run, 32, select_graphs(graphs, np.arange(11)), "classification", [0, 1]
    )
    with pytest.raises(RunError, match=r"\n  data\.graphs: the digest differs$"):
        fewer.leave_one_out_labels("labels", tmp_path / "labels.npz", teacher, params, settings.attention)
    assert file.read_bytes() == before


@pytest.mark.slow
def test_fewer_images_and_a_validation_split(data_dir, tmp_path):
    results = run(["--train-images", "5", "--validation"], data_dir, tmp_path / "run")
    assert results["subsets"].keys() == {"validation", "all"}
    assert results["subsets"]["validation"]["graphs"] == 4
    assert (tmp_path / "run/graphs.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["upper-bound", "unsupervised-gin-topk", "global-gcn"])
def test_presets_of_every_kind_run(preset, data_dir, tmp_path):
    overridden = ["--hidden", "5"] if "gin" in preset else []
    EXPERIMENT.main([preset, *TINY[2:], *overridden, "--data-dir", str(data_dir), "--out", str(tmp_path / "run")])
    aucs = json.loads((tmp_path / "run/results.json").read_text())["subsets"]["orig"]["attention_auc"]
    assert len(aucs) == (0 if preset.startswith("global") else 1)
    if preset.startswith("upper-bound"):
        assert aucs[0]["values"] == [100.0, 100.0]


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_makes_the_network_that_it_names(preset):
    settings = PRESETS[preset]
    network, optimizer = settings.network(outputs=10), settings.optimizer
    assert (optimizer.epochs, optimizer.decay_epochs, optimizer.teacher_epochs, optimizer.teacher_decay_epochs) == (
        30,
        (20, 25),
    ) * 2
    assert network.order == (1 if "gin" in preset or "gcn" in preset else 4)
    assert network.aggregation == ("sum" if "gin" in preset else "mean")
    assert network.hidden == (64 if "gin" in preset else None)
    assert network.filters == (32 if preset.endswith("-h") else 4, 64, 512)
    assert (network.readout, network.dropout) == ("max", 0.5)
    assert bool(network.poolings) == (settings.attention.attention != "none" or preset.startswith("diffpool"))
    if preset.startswith("diffpool"):
        gin = preset.endswith("gin")
        assert network.poolings == ((None, None, DiffPoolConfig(25, 0.0)) if gin else (None, DiffPoolConfig(25), None))
    elif network.poolings:
        first, second, pooling = network.poolings
        assert first is second is None
        assert pooling.score_from == ("current" if preset.startswith("upper-bound") else "previous")
        assert pooling.scorer.init == ("default" if preset.endswith("-d") else "normal")
        kind = "ground_truth" if preset.startswith("upper-bound") else "mlp" if preset.endswith("-d") else "linear"
        assert pooling.scorer.kind == kind


def test_without_mnist_one_error_names_what_to_do(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        EXPERIMENT.main(["--data-dir", str(tmp_path), "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert "train-images-idx3-ubyte" in message
    assert str(tmp_path) in message
    assert not (tmp_path / "run").exists()


def test_the_papers_figures_stand_beside_its_own_settings_alone():
    figures = EXPERIMENT.paper_scores
    found = figures("supervised", with_changes(SUPERVISED, seeds=10, noise_seed=3, compact=False))
    assert str(found["noisyc"]) == "86 ± 16"
    assert figures("supervised", with_changes(SUPERVISED, train_images=1000)) == {}
