"""Superpixels against a plain reference, in this process and in others, fresh and from disk."""

import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.io import imsave
from skimage.segmentation import slic

from jattn.datasets import Segmentation, label_map
from jattn.datasets._mnist import mnist
from jattn.datasets._segments import MNIST_75SP
from jattn.datasets._superpixels import Superpixels, cached_superpixels, superpixels

module = sys.modules["jattn.datasets._superpixels"]
segments = sys.modules["jattn.datasets._segments"]


def reference(image, segmentation=MNIST_75SP):
    """The superpixels of an image with values from 0 to 1, as sets of pixels in order."""
    gray = image.ndim == 2
    compactness = segmentation.compactness or (0.25 if gray else 10)
    labels = slic(
        image,
        n_segments=segmentation.segments,
        compactness=compactness,
        channel_axis=None if gray else -1,
        start_label=0,
    )
    found = {label: {tuple(at) for at in np.argwhere(labels == label).tolist()} for label in range(labels.max() + 1)}
    while len(found) > segmentation.max_segments:
        small = min(found, key=lambda label: (len(found[label]), label))
        of_small = np.mean([image[at] for at in found[small]], axis=0)

        def rank(label, small=small, of_small=of_small):
            sides = sum((r + i, c + j) in found[label] for r, c in found[small] for i, j in NEAR)
            gap = np.linalg.norm(np.mean([image[at] for at in found[label]], axis=0) - of_small)
            return sides == 0, round(float(gap), 9), -sides, label

        into = min(found.keys() - {small}, key=rank)
        found[into] |= found.pop(small)
    return list(found.values())


NEAR = ((0, 1), (1, 0), (0, -1), (-1, 0))


def same(a, b):
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@st.composite
def pictures(draw):
    """Patches of few intensities, gray or in color: SLIC finds many segments in them, and ties abound."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    height, width, patch = draw(st.integers(1, 30)), draw(st.integers(1, 30)), draw(st.integers(1, 9))
    channels = draw(st.sampled_from([(), (3,)]))
    levels = draw(st.sampled_from([1, 2, 3, 256]))
    coarse = rng.integers(0, levels, (height // patch + 1, width // patch + 1, *channels))
    image = coarse.repeat(patch, 0).repeat(patch, 1)[:height, :width]
    return image / max(levels - 1, 1)


segmentations = st.builds(
    Segmentation,
    segments=st.sampled_from([1, 30, 95]),
    max_segments=st.integers(1, 80),
    compactness=st.sampled_from([None, 1.0]),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(pictures(), segmentations)
def test_superpixels_are_those_of_the_reference(image, segmentation):
    expected = reference(image, segmentation)
    labels = label_map(image, segmentation)
    assert labels.shape == image.shape[:2]
    assert len(expected) == labels.max() + 1 <= segmentation.max_segments
    for label, pixels in enumerate(expected):
        assert {tuple(at) for at in np.argwhere(labels == label).tolist()} == pixels
    found = superpixels([image], segmentation)
    assert [array.dtype for array in found] == [np.float32, np.float32, np.int32]
    assert found.n_node.tolist() == [len(expected)]
    for intensity, position, pixels in zip(found.intensity, found.position, expected, strict=True):
        means = np.mean([image[at] for at in pixels], axis=0)
        np.testing.assert_allclose(intensity, np.atleast_1d(means), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(position, np.mean(list(pixels), axis=0) / max(labels.shape), rtol=1e-6, atol=1e-7)
    assert found.intensity.min() >= 0 and found.intensity.max() <= 1
    assert found.position.min() >= 0 and found.position.max() < 1


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (28, 1), (1, 200), (28, 28), (1, 1, 3), (28, 28, 3)])
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_constant_images_of_any_size(shape, value):
    found = superpixels([np.full(shape, value)])
    assert 1 <= found.n_node[0] <= 75
    np.testing.assert_allclose(found.intensity, value, rtol=1e-6)
    assert found.intensity.shape[1] == (shape[2] if len(shape) == 3 else 1)
    assert found.position.max() < 1


def test_white_is_merged_from_81_to_75():
    white = np.ones((28, 28))
    assert superpixels([white], Segmentation(max_segments=100)).n_node.tolist() == [81]
    assert superpixels([white]).n_node.tolist() == [75]


def test_every_pixel_of_a_tiny_image_is_a_superpixel():
    image = np.array([[0, 51, 102], [153, 204, 255]], np.uint8)
    found = superpixels([image])
    np.testing.assert_allclose(found.intensity[:, 0], image.ravel() / 255, rtol=1e-6)
    rows, columns = np.indices((2, 3))
    np.testing.assert_allclose(found.position, np.stack([rows.ravel(), columns.ravel()], 1) / 3, rtol=1e-6)


def test_no_images_have_no_superpixels():
    for images in ([], np.zeros((0, 28, 28), np.uint8)):
        found = superpixels(images)
        assert [array.shape for array in found] == [(0, 1), (0, 2), (0,)]


def test_the_kind_of_pixels_does_not_matter():
    coarse = np.random.default_rng(0).integers(0, 2, (7, 7)).repeat(4, 0).repeat(4, 1)
    kinds = [
        (255 * coarse).astype(np.uint8),
        (65535 * coarse).astype(np.uint16),
        coarse.astype(bool),
        coarse.astype(np.float16),
        coarse.astype(np.float32),
        coarse.astype(float)[..., None],
        np.asfortranarray(coarse.astype(float)),
    ]
    expected = superpixels([coarse.astype(float)])
    for image in kinds:
        assert same(superpixels([image]), expected)
    color = np.stack([coarse] * 3, axis=2).astype(float)
    opaque = np.dstack([color, np.ones(coarse.shape)])
    assert same(superpixels([opaque]), superpixels([color]))
    opaque = np.dstack([coarse, np.ones(coarse.shape)])
    assert same(superpixels([opaque]), expected)


def test_files_are_read_as_arrays_are(tmp_path):
    gray = np.random.default_rng(0).integers(0, 256, (12, 9), np.uint8)
    imsave(tmp_path / "gray.png", gray, check_contrast=False)
    assert same(superpixels([tmp_path / "gray.png", str(tmp_path / "gray.png")]), superpixels([gray, gray]))
    color = np.random.default_rng(1).integers(0, 256, (12, 9, 3), np.uint8)
    imsave(tmp_path / "color.png", color, check_contrast=False)
    np.testing.assert_array_equal(label_map(tmp_path / "color.png"), label_map(color))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((0, 5)), r"expected shape \[height, width\] or .*, got \(0, 5\)"),
        (np.zeros(5), r"expected shape .*, got \(5,\)"),
        (np.zeros((5, 5, 5)), r"expected shape .*, got \(5, 5, 5\)"),
        (np.zeros((5, 5, 2)), "it is transparent in places; blend it"),
        (np.zeros((5, 5, 5, 1)), r"expected shape .*, got \(5, 5, 5, 1\)"),
        (np.zeros((5, 5), int), "expected pixels of type uint8, uint16 or bool, or floats from 0 to 1, got int64"),
        (np.full((5, 5), 255.0), "expected floats from 0 to 1, got 255 to 255"),
        (np.full((5, 5), -0.1), "expected floats from 0 to 1, got -0.1 to -0.1"),
        (np.full((5, 5), np.nan), "expected floats from 0 to 1, got nan to nan"),
        (np.zeros((5, 5, 4)), "it is transparent in places; blend it"),
        (np.zeros((5, 5, 3)), "it has 3 channels, image 0 has 1"),
    ],
)
def test_what_is_no_image_is_named(image, message):
    with pytest.raises(ValueError, match=f"^image 1: {message}"):
        superpixels([np.zeros((5, 5)), image])


def test_a_file_that_is_no_image_is_named(tmp_path):
    path = tmp_path / "text.png"
    path.write_text("text")
    with pytest.raises(ValueError, match=rf"^image 1: {path} can't be read as an image"):
        superpixels([np.zeros((5, 5)), path])
    with pytest.raises(FileNotFoundError, match=r"nowhere\.png"):
        superpixels([tmp_path / "nowhere.png"])
    with pytest.raises(ValueError, match=rf"^image 0: {path} can't be read as an image"):
        superpixels(str(path))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"segments": 0}, "segments: 0 is not allowed, expected at least 1"),
        ({"max_segments": 0}, "max_segments: 0 is not allowed, expected at least 1"),
        ({"compactness": 0.0}, "compactness: 0.0 is not allowed, expected more than 0"),
    ],
)
def test_settings_out_of_range_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Segmentation(**values)


def blobs(count, seed=0):
    coarse = np.random.default_rng(seed).integers(0, 256, (count, 7, 7), np.uint8)
    return coarse.repeat(4, 1).repeat(4, 2)


@pytest.mark.slow
def test_processes_give_what_one_gives_in_order():
    images, custom = blobs(120), Segmentation(segments=60, max_segments=20, compactness=0.5)
    assert same(superpixels(images, custom, processes=2), superpixels(images, custom, processes=1))
    mixed = [*images[:30], *[image[: 1 + i] for i, image in enumerate(images[:28])]]
    assert same(superpixels(mixed, processes=3), superpixels(mixed, processes=1))


@pytest.mark.slow
def test_an_error_in_a_process_names_the_image(tmp_path):
    images = [*blobs(60), np.zeros((5, 5), int), *blobs(60)]
    with pytest.raises(ValueError, match=r"^image 60: expected pixels of type"):
        superpixels(images, processes=2)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.png"):
        superpixels([*blobs(60), tmp_path / "nowhere.png"], processes=2)


def test_ctrl_c_in_a_plain_script_ends_it_and_its_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import signal\n"
        "import numpy as np\n"
        "from jattn.datasets._superpixels import superpixels\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # tests in the background ignore it
        "print('starts', flush=True)\n"
        "superpixels(np.zeros((100, 1_000, 1_000), np.uint8), processes=2)\n"
    )
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, script], stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    assert process.stdout.readline() == "starts\n"
    time.sleep(0.25)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)  # it lasts until nobody holds the other ends of the pipes
    assert process.returncode == -signal.SIGINT
    assert "\nKeyboardInterrupt\n" in errors  # a process that had not started yet may complain after it


def count_cuts(monkeypatch):
    cuts, cut = [], module.superpixels

    def counted(images, *arguments):
        cuts.append(len(images))
        return cut(images, *arguments)

    monkeypatch.setattr(module, "superpixels", counted)
    return cuts


def test_what_is_on_disk_is_not_cut_again(tmp_path, monkeypatch):
    cuts, images = count_cuts(monkeypatch), blobs(3)
    first = cached_superpixels(images, folder=tmp_path / "new" / "folder")
    second = cached_superpixels(images.copy(), folder=tmp_path / "new" / "folder")
    assert cuts == [3]
    assert isinstance(second, Superpixels)
    assert same(first, second)
    assert same(first, superpixels(images))


def test_other_images_settings_or_versions_are_cut_again(tmp_path, monkeypatch):
    cuts, images = count_cuts(monkeypatch), blobs(3)
    other = images.copy()
    other[2, 27, 27] ^= 1
    changes = [
        (images, Segmentation()),
        (other, Segmentation()),
        (images[:2], Segmentation()),
        (images.reshape(3, 14, 56), Segmentation()),
        *((images, Segmentation(**asdict(Segmentation()) | {name: 50})) for name in asdict(Segmentation())),
    ]
    for changed in changes:
        assert same(cached_superpixels(*changed, folder=tmp_path), superpixels(*changed))
    monkeypatch.setattr(module, "VERSION", 0)
    cached_superpixels(images, folder=tmp_path)
    monkeypatch.setattr(module, "version", lambda package: f"{package} 1.0")
    cached_superpixels(images, folder=tmp_path)
    assert len(cuts) == len(changes) + 2 == len(list(tmp_path.iterdir()))
    cached_superpixels(images, folder=tmp_path)
    assert len(cuts) == len(changes) + 2


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "pickled", "lacking", "other images"])
def test_a_damaged_file_is_made_again(tmp_path, damage):
    images = blobs(3)
    expected = cached_superpixels(images, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    match damage:
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "flipped":
            content[len(content) // 3] ^= 1
            path.write_bytes(content)
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("text")
        case "pickled":
            path.write_bytes(pickle.dumps(expected))
        case "lacking":
            np.savez(path, intensity=expected.intensity)
        case _:
            np.savez(path, **superpixels(blobs(2))._asdict())
    with pytest.warns(UserWarning, match=f"{path} is damaged .*; it is made again"):
        assert same(cached_superpixels(images, folder=tmp_path), expected)
    assert same(cached_superpixels(images, folder=tmp_path), expected)
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match=r"can't be written \(.*\); superpixels are not kept"):
        found = cached_superpixels(blobs(2), folder=tmp_path / "file")
    assert same(found, superpixels(blobs(2)))


@pytest.mark.slow
def test_runs_that_start_at_once_share_a_file(tmp_path):
    code = (
        "import numpy as np, pathlib, sys\n"
        "from jattn.datasets._superpixels import cached_superpixels\n"
        "images = np.random.default_rng(0).integers(0, 256, (50, 28, 28), np.uint8)\n"
        "print(cached_superpixels(images, folder=pathlib.Path(sys.argv[1])).n_node.sum())\n"
    )
    run = [sys.executable, "-W", "error", "-c", code, tmp_path]
    both = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=30)[0] for process in both]
    assert outputs[0] == outputs[1] != ""
    (path,) = tmp_path.iterdir()
    assert path.suffix == ".npz"


def test_the_user_s_cache_folder_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached_superpixels(blobs(1))
    assert len(list((tmp_path / "jattn" / "superpixels").iterdir())) == 1


def test_digits_have_61_to_75_superpixels(shared):
    images = mnist(shared / "data").test_images[:400]
    n_node = superpixels(images).n_node
    assert (n_node.min() >= 61, n_node.max()) == (True, 75)
    assert 72 < n_node.mean() < 73.5
    before = np.array(
        [slic(i / 255, n_segments=95, compactness=0.25, channel_axis=None, start_label=0).max() + 1 for i in images]
    )
    assert 0.1 < (before > 75).mean() < 0.3
    np.testing.assert_array_equal(n_node, np.minimum(before, 75))


def test_digits_are_those_of_the_reference(shared):
    for image in mnist(shared / "data").test_images[:30]:
        labels = label_map(image)
        assert [{tuple(at) for at in np.argwhere(labels == i).tolist()} for i in range(labels.max() + 1)] == reference(
            image / 255
        )
