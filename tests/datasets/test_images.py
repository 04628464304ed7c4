"""Graphs of a user's own images."""

import numpy as np
import pytest
from PIL import Image
from skimage.io import imsave

from jattn.datasets import Segmentation, image_graphs
from jattn.datasets._superpixels import superpixels
from jattn.graphs import Proximity, check


def image(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def test_no_images_make_no_graphs():
    graphs = image_graphs([])
    check(graphs)
    assert graphs.n_node.shape == (0,)
    assert graphs.nodes["features"].shape == (0, 3)


def test_images_of_any_size_make_graphs():
    images = [image(1, 1), image(2, 3), image(30, 17), np.ones((28, 28)), np.zeros((9, 9), bool)]
    graphs = image_graphs(images, [3, 1, 4, 1, 5])
    check(graphs)
    found = superpixels(images)
    np.testing.assert_array_equal(graphs.n_node, found.n_node)
    np.testing.assert_array_equal(graphs.nodes["features"], np.hstack([found.intensity, found.position]))
    np.testing.assert_array_equal(graphs.nodes["position"], found.position)
    assert graphs.globals["label"].tolist() == [3, 1, 4, 1, 5]
    assert graphs.globals["label"].dtype == np.int32
    assert graphs.edges == Proximity((0.1 * np.pi) ** 2)
    assert graphs.nodes["attention"].max() == 0


def test_an_array_of_images_is_a_list_of_them():
    images = image(3, 12, 12)
    one, other = image_graphs(images), image_graphs(list(images))
    for key in one.nodes:
        np.testing.assert_array_equal(one.nodes[key], other.nodes[key])


def test_files_and_colors(tmp_path):
    colors = [image(12, 9, 3), image(7, 20, 3, seed=1)]
    for i, color in enumerate(colors):
        imsave(tmp_path / f"{i}.png", color, check_contrast=False)
    graphs = image_graphs([str(tmp_path / "0.png"), tmp_path / "1.png"], 0.5)
    check(graphs)
    found = superpixels(colors, Segmentation(compactness=10))
    np.testing.assert_array_equal(graphs.nodes["features"], np.hstack([found.intensity, found.position]))
    assert graphs.globals["label"].tolist() == [0.5, 0.5]
    assert graphs.globals["label"].dtype == np.float32


def test_a_gray_image_fills_columns():
    gray = image(12, 9)
    x = image_graphs([gray], columns=3).nodes["features"]
    np.testing.assert_array_equal(x[:, [0, 0, 0]], x[:, :3])
    assert x.shape[1] == 5
    with pytest.raises(ValueError, match="columns: 1 is not allowed, the images have 3 channels"):
        image_graphs([image(5, 5, 3)], columns=1)


def test_statistics_normalize_features():
    raw = image_graphs([image(12, 9)]).nodes["features"]
    x = image_graphs([image(12, 9)], mean=[0.5, 0.1, 0.2], std=[2.0, 3.0, 4.0]).nodes["features"]
    np.testing.assert_allclose(x, (raw - np.array([0.5, 0.1, 0.2])) / [2, 3, 4], atol=1e-6)
    with pytest.raises(ValueError, match="mean: expected 3 finite numbers"):
        image_graphs([image(12, 9)], mean=[0.5, 0.1], std=[2.0, 3.0])


def test_attention_is_of_the_mean_of_channels():
    pixels = np.array([[[0.9, 0.6, 0.3], [0.0, 0.0, 0.0]], [[0.9, 0.3, 0.0], [0.0, 0.0, 0.1]]])
    bright, nonzero = (image_graphs([pixels], attention=kind).nodes["attention"] for kind in ("bright", "nonzero"))
    np.testing.assert_allclose(bright, [0.6, 0, 0, 0], atol=1e-6)
    assert nonzero.tolist() == [1, 0, 1, 1]
    with pytest.raises(Exception, match="dark"):
        image_graphs([pixels], attention="dark")


def test_a_target_that_is_not_known_is_refused_before_images_are_cut(unchecked_types):
    with pytest.raises(ValueError, match="attention: 'brigth' is not known, expected one of: bright, nonzero"):
        image_graphs(["no-such-file.png"], attention="brigth")


@pytest.mark.slow
def test_settings_are_those_of_superpixels():
    graphs = image_graphs(
        [image(28, 28)] * 60, segmentation=Segmentation(max_segments=5), edges=Proximity(0.5), processes=2
    )
    assert graphs.n_node.max() <= 5
    assert graphs.edges == Proximity(0.5)


@pytest.mark.parametrize("label", [[1, 2], [[1]], [float("nan")]])
def test_labels_that_do_not_fit_are_refused(label):
    with pytest.raises(ValueError, match="label"):
        image_graphs([image(5, 5)], label)


def test_an_array_with_too_many_channels_is_no_list_of_images():
    with pytest.raises(ValueError, match=r"images: shape \(40, 40, 5\) is not that of one image.*give list\(images\)"):
        image_graphs(np.zeros((40, 40, 5)))
    assert len(image_graphs(np.zeros((3, 8, 8))).n_node) == 3  # digits of scikit-learn are 8 x 8
    assert len(image_graphs(list(np.zeros((2, 40, 5)))).n_node) == 2


@pytest.mark.parametrize("mode", ["L", "RGB", "P", "CMYK"])
def test_a_pillow_image_is_one_image(mode, tmp_path):
    picture = Image.fromarray(image(12, 9, 3)).convert(mode)
    expected = image_graphs([np.asarray(picture if mode == "L" else picture.convert("RGB"))])
    for graphs in (image_graphs(picture), image_graphs([picture])):
        np.testing.assert_array_equal(graphs.nodes["features"], expected.nodes["features"])
