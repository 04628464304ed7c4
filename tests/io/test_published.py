"""The paper's own trained models give the numbers that their authors published."""

import functools
import json

import jax
import numpy as np
import pytest

from experiments import published
from jattn.datasets import published_colors, published_triangles
from jattn.evaluation import join
from jattn.io import load_published
from jattn.io._published import network_from_config
from jattn.training import predict_seeds

MODELS = ("colors_global", "colors_sup", "triangles_global", "triangles_sup")


@functools.cache
def published_data(dataset, folder):
    """The test subsets, and the number of their first graph in the file."""
    if dataset == "colors-3":
        splits = published_colors(folder)
        return {name: splits[name] for name in ("orig", "large", "largec")}, 3000
    splits = published_triangles(folder, degree_columns=14)
    return {name: splits[name] for name in ("orig", "large")}, 35000


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_published_model_gives_its_published_predictions(name, shared):
    model = load_published(shared / "published")[name]
    subsets, first = published_data(model.config["dataset"], shared / "data")
    graphs = join(subsets)
    predicted = predict_seeds(model.network, jax.tree.map(lambda x: x[None], model.params), graphs)
    with np.load(shared / "published" / f"{name}.expected.npz") as file:
        expected = dict(file)

    ids = expected["graph_index"] - first
    np.testing.assert_allclose(predicted.prediction[0, ids, 0], expected["prediction"], atol=1e-3, rtol=1e-4)
    start = np.cumsum(graphs.n_node) - graphs.n_node
    rows = np.concatenate([start[i] + np.arange(graphs.n_node[i]) for i in ids])
    for layer, (alpha, kept) in enumerate(zip(predicted.attention, predicted.node_masks, strict=True)):
        np.testing.assert_allclose(alpha[0, rows], np.nan_to_num(expected[f"alpha_{layer}"]), atol=1e-4)
        np.testing.assert_array_equal(kept[0, rows], expected[f"kept_{layer}"])


@pytest.mark.slow
def test_the_command_prints_the_published_scores(shared, capsys):
    published.main([str(shared / "published"), "--data-dir", str(shared / "data"), "--json"])
    scores = json.loads(capsys.readouterr().out)
    models = load_published(shared / "published")
    assert scores.keys() == models.keys()
    for name, model in models.items():
        assert scores[name].keys() == model.expected.keys()
        for key, value in model.expected.items():
            assert scores[name][key] == pytest.approx(value, abs=0.05), (name, key)


@pytest.mark.slow
def test_the_published_mnist_model_comes_within_a_per_cent_of_its_log(shared, capsys):
    """Its superpixels were cut by another version of scikit-image."""
    published.main([str(shared / "published_mnist"), "--data-dir", str(shared / "data"), "--json"])
    scores = json.loads(capsys.readouterr().out)["mnist_sup"]
    expected = load_published(shared / "published_mnist")["mnist_sup"].expected
    assert scores.keys() == expected.keys()
    for key, value in expected.items():
        assert scores[key] == pytest.approx(value, abs=1.0), key


def test_a_folder_without_an_index_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        published.main([str(tmp_path), "--data-dir", str(tmp_path)])
    assert stop.value.code == 2
    assert "index.json: not found" in capsys.readouterr().err


def test_missing_weights_are_named(tmp_path):
    (tmp_path / "index.json").write_text(json.dumps({"mine": {"config": {}}}))
    with pytest.raises(FileNotFoundError, match=r"mine\.weights\.npz: not found"):
        load_published(tmp_path)


def test_a_missing_setting_or_array_is_named(tmp_path):
    (tmp_path / "index.json").write_text(json.dumps({"mine": {"config": {"filters": [8]}}}))
    np.savez(tmp_path / "mine.weights.npz", **{"fc.0.bias": np.zeros(1, np.float32)})
    with pytest.raises(ValueError, match=r"model 'mine': 'filter_scale' is missing"):
        load_published(tmp_path)


def test_an_unknown_rule_or_architecture_is_refused():
    config = {"filters": [8], "filter_scale": 1, "aggregation": "mean", "n_hidden": 0, "readout": "sum", "dropout": 0}
    with pytest.raises(ValueError, match="rule 'best' is not known, expected one of"):
        network_from_config(config | {"pool": ["attn", "sup", "best", "0.1"], "pool_arch": ["fc", "curr"]}, outputs=1)
    with pytest.raises(ValueError, match="'tree' is not known, expected one of"):
        network_from_config(config | {"pool": ["attn", "sup", "topk", "0.1"], "pool_arch": ["tree", "curr"]}, outputs=1)


@pytest.mark.parametrize("index", ["{", "[]", "{}"])
def test_an_index_that_is_none_is_named(index, tmp_path):
    (tmp_path / "index.json").write_text(index)
    with pytest.raises(ValueError, match=r"index\.json: "):
        load_published(tmp_path)


def test_weights_that_are_no_npz_are_named(tmp_path):
    (tmp_path / "index.json").write_text(json.dumps({"mine": {"config": {}}}))
    (tmp_path / "mine.weights.npz").write_text("text")
    with pytest.raises(ValueError, match=r"mine\.weights\.npz: not an npz file"):
        load_published(tmp_path)
