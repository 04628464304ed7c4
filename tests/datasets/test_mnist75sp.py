"""MNIST-75sp: what its splits hold, on few digits."""

import sys

import numpy as np
import pytest
from digits import expect, write_mnist, write_strokes

from jattn.datasets import mnist75sp
from jattn.datasets._mnist import mnist
from jattn.datasets._superpixels import superpixels
from jattn.graphs import Proximity, check, list_edges

module = sys.modules["jattn.datasets._mnist75sp"]
TESTS = ["orig", "noisy", "noisyc"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def strokes(tmp_path, monkeypatch):
    """A folder with ten images to train on, the last three for validation, and four to test on."""
    expect(monkeypatch, train=10, test=4, validation=3)
    return write_strokes(tmp_path / "strokes", train=10, test=4)


@pytest.fixture(scope="session")
def real(shared):
    return mnist(shared / "data")


@pytest.fixture
def digits(real, tmp_path, monkeypatch):
    """A folder with the first of MNIST's own digits."""
    expect(monkeypatch, train=300, test=100, validation=50)
    return write_mnist(tmp_path / "digits", [array[: 300 if i < 2 else 100] for i, array in enumerate(real)])


def features(split):
    return split.nodes["features"]


def test_splits_are_graphs_of_proximity(strokes):
    found = mnist75sp(strokes)
    assert list(found.splits) == ["train", *TESTS]
    for name, split in found.splits.items():
        check(split)
        count = 10 if name == "train" else 4
        assert split.n_node.shape == split.n_edge.shape == split.globals["label"].shape == (count,)
        assert split.n_node.max() <= 75
        assert split.edges == Proximity((0.1 * np.pi) ** 2)
        assert split.senders.shape == split.receivers.shape == (0,)
        nodes = split.n_node.sum()
        shapes = {key: (nodes, 5) if key == "features" else (nodes, 2) for key in ("features", "position")}
        assert {key: array.shape for key, array in split.nodes.items()} == {**shapes, "attention": (nodes,)}
        assert {array.dtype for array in split.nodes.values()} == {np.dtype(np.float32)}
        integers = (split.senders, split.receivers, split.n_node, split.n_edge, split.globals["label"])
        assert {array.dtype for array in integers} == {np.dtype(np.int32)}
    assert found.splits["train"].globals["label"].tolist() == list(range(10))
    assert found.splits["noisy"].globals["label"].tolist() == [0, 1, 2, 3]


def test_edges_join_all_nodes_by_their_distance(strokes):
    for squared in (False, True):
        split = mnist75sp(strokes, squared=squared).splits["orig"]
        n = int(split.n_node[0])
        p = split.nodes["position"][:n].astype(float)
        distance = np.linalg.norm(p[:, None] - p[None], axis=-1)
        expected = np.exp(-(distance**2 if squared else distance) / (0.1 * np.pi) ** 2)
        listed = list_edges(split)
        adjacency = np.zeros((n, n))
        first = slice(listed.n_edge[0])
        adjacency[listed.senders[first], listed.receivers[first]] = listed.edges[first]
        np.testing.assert_allclose(adjacency, expected * (1 - np.eye(n)), atol=1e-6)


def test_features_are_intensity_three_times_and_position_normalized_over_the_training_set(strokes):
    found = mnist75sp(strokes)
    data = mnist(strokes)
    of_train, of_test = superpixels(data.train_images), superpixels(data.test_images)
    raw = [np.hstack([np.repeat(s.intensity, 3, axis=1), s.position]).astype(float) for s in (of_train, of_test)]
    mean, std = raw[0].mean(axis=0), raw[0].std(axis=0)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(found.std, std, rtol=1e-5)
    np.testing.assert_allclose(features(found.splits["train"]), (raw[0] - mean) / std, atol=1e-5)
    np.testing.assert_allclose(features(found.splits["orig"]), (raw[1] - mean) / std, atol=1e-5)
    np.testing.assert_array_equal(found.splits["orig"].nodes["position"], of_test.position)
    np.testing.assert_array_equal(found.test_images, data.test_images)
    assert found.validation_images.shape == (0, 28, 28)


def test_statistics_of_a_trained_model_take_their_place(strokes):
    single = mnist75sp(strokes)
    mean, std = [0.1, 0.2, 0.3, 0.4, 0.5], [1.0, 2.0, 3.0, 4.0, 5.0]
    given = mnist75sp(strokes, mean=mean, std=std)
    np.testing.assert_allclose(given.mean, mean, rtol=1e-6)
    for name in ("train", "orig"):
        raw = features(single.splits[name]) * single.std + single.mean
        np.testing.assert_allclose(features(given.splits[name]), (raw - np.array(mean)) / std, atol=1e-5)


def test_attention_is_bright_intensity_or_where_there_is_any(strokes):
    bright, nonzero = mnist75sp(strokes), mnist75sp(strokes, attention="nonzero")
    for name in ("train", *TESTS):
        raw = features(bright.splits["train" if name == "train" else "orig"])[:, 0] * bright.std[0] + bright.mean[0]
        for intensity, target, any_ in zip(
            raw, bright.splits[name].nodes["attention"], nonzero.splits[name].nodes["attention"], strict=True
        ):
            assert target == pytest.approx(intensity if intensity >= 0.5 else 0, abs=1e-6)
            assert any_ == (intensity > 1e-6)
    of_train = bright.splits["train"].nodes["attention"]
    assert of_train.max() <= 1 and of_train[of_train > 0].min() >= 0.5


def test_noise_is_a_function_of_its_seed(strokes):
    first, again, other = (mnist75sp(strokes, noise_seed=seed).splits for seed in (0, 0, 1))
    for name in ("train", "orig"):
        np.testing.assert_array_equal(features(first[name]), features(other[name]))
    for name in ("noisy", "noisyc"):
        np.testing.assert_array_equal(features(first[name]), features(again[name]))
        assert (features(first[name])[:, :3] != features(other[name])[:, :3]).all()
        np.testing.assert_array_equal(features(first[name])[:, 3:], features(first["orig"])[:, 3:])
        for key in ("position", "attention"):
            np.testing.assert_array_equal(first[name].nodes[key], first["orig"].nodes[key])


def test_noise_has_its_size_and_channels(digits):
    splits = mnist75sp(digits).splits
    noise = {name: (features(splits[name]) - features(splits["orig"]))[:, :3] for name in ("noisy", "noisyc")}
    nodes = len(noise["noisy"])
    assert nodes > 7_000
    np.testing.assert_allclose(noise["noisy"], noise["noisy"][:, :1].repeat(3, axis=1), atol=1e-6)
    for name, std, count in (("noisy", 0.4, nodes), ("noisyc", 0.6, 3 * nodes)):
        assert noise[name].std() == pytest.approx(std, rel=4 / np.sqrt(2 * count))  # four standard errors
        assert abs(noise[name].mean()) < 4 * std / np.sqrt(count)
    together = np.corrcoef(np.column_stack([noise["noisyc"], noise["noisy"][:, 0]]), rowvar=False)
    assert np.abs(together - np.eye(4)).max() < 4 / np.sqrt(nodes)
    in_order = np.corrcoef(noise["noisy"][:, 0], noise["noisyc"].ravel()[:nodes])[0, 1]  # as from the same stream
    assert abs(in_order) < 4 / np.sqrt(nodes)


def test_validation_is_the_last_images_and_training_the_others(strokes):
    whole, parts = mnist75sp(strokes), mnist75sp(strokes, validation=True)
    assert list(parts.splits) == ["train", "validation", *TESTS]
    assert parts.splits["train"].globals["label"].tolist() == list(range(7))
    assert parts.splits["validation"].globals["label"].tolist() == [7, 8, 9]
    np.testing.assert_array_equal(parts.validation_images, mnist(strokes).train_images[7:])
    np.testing.assert_allclose(features(parts.splits["train"]).mean(axis=0), 0, atol=1e-5)
    positions = [parts.splits[name].nodes["position"] for name in ("train", "validation")]
    np.testing.assert_array_equal(np.concatenate(positions), whole.splits["train"].nodes["position"])
    for name in ("train", "validation"):
        check(parts.splits[name])


def test_of_the_other_training_images_no_superpixels_are_cut(strokes, monkeypatch):
    cut, cuts = module.cached_superpixels, []
    monkeypatch.setattr(module, "cached_superpixels", lambda images: cuts.append(len(images)) or cut(images))
    few = mnist75sp(strokes, train_images=5)
    assert cuts == [5, 4]
    all_five = features(few.splits["train"])
    assert few.splits["train"].globals["label"].tolist() == list(range(5))
    np.testing.assert_allclose(all_five.mean(axis=0), 0, atol=1e-5)
    cuts.clear()
    both = mnist75sp(strokes, train_images=5, validation=True)
    assert cuts == [5, 3, 4]
    np.testing.assert_array_equal(features(both.splits["train"]), all_five)
    assert both.splits["validation"].globals["label"].tolist() == [7, 8, 9]
    cuts.clear()
    mnist75sp(strokes, validation=True)
    assert cuts == [10, 4]


def test_images_without_ink_can_be_normalized(tmp_path, monkeypatch):
    expect(monkeypatch, train=1, test=1)
    blank = np.zeros((1, 28, 28))
    splits = mnist75sp(write_mnist(tmp_path, [blank, [0], blank, [0]])).splits
    check(splits["train"])
    assert splits["train"].nodes["attention"].sum() == 0
    assert features(splits["train"])[:, :3].tolist() == [[0, 0, 0]] * 75


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train_images": 0}, "train_images: 0 is not allowed, expected 1 to 10"),
        ({"train_images": 8, "validation": True}, "train_images: 8 is not allowed, expected 1 to 7"),
        ({"mean": [0.0] * 5}, "std: mean and std are given both or neither"),
        ({"std": [1.0] * 5}, "mean: mean and std are given both or neither"),
        ({"mean": [0.0] * 3, "std": [1.0] * 3}, r"mean: expected 5 finite numbers, got \[0.0, 0.0, 0.0\]"),
        ({"mean": [0.0] * 5, "std": [1.0] * 4 + [0.0]}, "std: expected numbers over 0, got"),
    ],
)
def test_arguments_out_of_range_are_refused_before_superpixels_are_cut(strokes, monkeypatch, arguments, message):
    monkeypatch.delattr(module, "cached_superpixels")
    with pytest.raises(ValueError, match=message):
        mnist75sp(strokes, **arguments)


def test_digits_have_the_known_statistics(digits):
    found = mnist75sp(digits)
    np.testing.assert_allclose(found.mean, [0.117, 0.117, 0.117, 0.467, 0.464], atol=0.008)
    np.testing.assert_allclose(found.std, [0.277, 0.277, 0.277, 0.286, 0.289], atol=0.008)
    n_node = found.splits["train"].n_node
    assert (n_node.min() >= 61, n_node.max()) == (True, 75)
    assert 72 < n_node.mean() < 73.5
    assert found.splits["train"].globals["label"][:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]
    assert found.splits["orig"].globals["label"][:8].tolist() == [7, 2, 1, 0, 4, 1, 4, 9]
    share = (found.splits["train"].nodes["attention"] > 0).mean()
    assert 0.05 < share < 0.2
