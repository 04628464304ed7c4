"""The TRIANGLES experiment as a person runs it, tiny."""

import json

import numpy as np
import pytest
from short_teacher import teacher_epochs

from experiments.run.folder import read_lines
from experiments.run.groups import with_changes
from experiments.triangles import EXPERIMENT, PRESETS, SUPERVISED
from jattn.io import load_network
from jattn.nn import DiffPoolConfig

# Order 2 in place of 7 compiles in a third of the time.
TINY = ["--order", "2", "--epochs", "1", "--train-graphs", "40", "--test-graphs", "10"]


def run(arguments, out):
    EXPERIMENT.main([*arguments, *TINY, *teacher_epochs(arguments, 1, "supervised"), "--out", str(out)])
    return json.loads((out / "results.json").read_text())


@pytest.mark.default_xla
@pytest.mark.slow
def test_the_default_is_supervised_with_two_poolings_and_one_seed(tmp_path, capsys):
    results = run([], tmp_path / "run")
    assert results["subsets"].keys() == {"orig", "large", "all"}
    assert len(results["subsets"]["all"]["attention_auc"]) == 2
    for subset in ("orig", "large"):
        by_label = results["subsets"][subset]["by_label"]
        assert [entry["label"] for entry in by_label] == list(range(1, 11))
        sizes = results["subsets"][subset]["by_nodes"]
        assert sum(entry["graphs"] for entry in sizes) == 10
        mean = np.mean([entry["accuracy"]["mean"] for entry in by_label])  # as many graphs of each label
        np.testing.assert_allclose(mean, results["subsets"][subset]["accuracy"]["mean"])
    assert (tmp_path / "run/accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.splitlines()[0].split() == ["%", "Orig", "Large", "AUC", "AUC", "2"]
    weights = load_network(tmp_path / "run/weights.npz")[1]
    assert weights["pool_1"]["scorer"].keys() == {f"ChebyGINConv_{i}" for i in range(3)}


@pytest.mark.slow
def test_weak_supervision_runs_in_one_command(tmp_path):
    results = run(["weak"], tmp_path / "run")
    assert results["seconds"].keys() == {"teacher", "labels", "attention", "test", "pictures"}
    assert [line["stage"] for line in read_lines(tmp_path / "run/metrics.jsonl")] == ["teacher", "attention"]


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_makes_the_network_that_it_names(preset):
    settings = PRESETS[preset]
    network = settings.network(outputs=1)
    assert settings.optimizer.epochs == 100
    assert settings.optimizer.decay_epochs == (85, 95)
    assert network.order == (1 if "gin" in preset or "gcn" in preset else 7)
    assert network.filters[0] == (128 if preset.endswith("-h") else 64)
    assert network.readout == "max"
    if preset.startswith("diffpool"):
        assert network.poolings == (None, DiffPoolConfig(4), None)
        return
    if preset.startswith("global"):
        assert not network.poolings
        return
    first, second, third = network.poolings
    assert first == (second if preset.startswith("upper-bound") else None)
    assert second == third
    assert second.score_from == "current"
    assert second.scorer.kind == ("ground_truth" if preset.startswith("upper-bound") else "gnn")
    assert second.scorer.layers == (4 if preset.endswith("-d") else 3)


@pytest.mark.parametrize(
    ("preset", "rule"),
    [
        ("supervised", {"tau": 0.001}),
        ("weak", {"tau": 0.01}),
        ("unsupervised", {"tau": 0.0001}),
        ("upper-bound", {"tau": 0.0}),
        ("supervised-topk", {"ratio": 0.97}),
        ("unsupervised-gin-topk", {"ratio": 1.0}),
    ],
)
def test_presets_keep_nodes_by_the_papers_rules(preset, rule):
    assert vars(PRESETS[preset].network(1).poolings[1].select) == rule


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["unsupervised-topk", "upper-bound", "global"])
def test_presets_of_every_kind_run(preset, tmp_path):
    results = run([preset], tmp_path / "run")
    aucs = results["subsets"]["all"]["attention_auc"]
    assert len(aucs) == {"global": 0, "upper-bound": 3}.get(preset, 2)
    if preset.startswith("upper-bound"):
        assert aucs[0]["values"] == [100.0]


def test_the_published_file_is_read(shared):
    splits = with_changes(SUPERVISED, data_dir=shared / "data").load().splits
    assert [len(split.n_node) for split in splits.values()] == [30_000, 5_000, 5_000, 5_000]


def test_a_generated_sets_settings_beside_published_data_are_an_error(capsys):
    with pytest.raises(SystemExit):
        EXPERIMENT.main(["--data-dir", "x", "--data-seed", "3"])
    assert "--data-seed: 3 is for a generated set" in " ".join(capsys.readouterr().err.split())
