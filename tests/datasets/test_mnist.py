"""Reading MNIST: what is wrong with a file is said, and which file it is."""

import gzip
import sys

import numpy as np
import pytest
from digits import NAMES, expect, idx, write_mnist

from jattn.datasets import DownloadError
from jattn.datasets import _download as download
from jattn.datasets._mnist import HASHES, MIRRORS, mnist


@pytest.fixture
def arrays(monkeypatch):
    expect(monkeypatch, train=3, test=2)
    rng = np.random.default_rng(0)
    return [
        rng.integers(0, 256, (3, 28, 28), np.uint8),
        np.array([9, 0, 5], np.uint8),
        rng.integers(0, 256, (2, 28, 28), np.uint8),
        np.array([1, 2], np.uint8),
    ]


@pytest.mark.parametrize("inside", ["", "mnist"])
@pytest.mark.parametrize("packed", [True, False])
def test_packed_and_unpacked_files_in_either_folder_read_the_same(tmp_path, arrays, inside, packed):
    write_mnist(tmp_path / inside, arrays, packed)
    for data_dir in (tmp_path, str(tmp_path)):
        for read, written in zip(mnist(data_dir), arrays, strict=True):
            np.testing.assert_array_equal(read, written)
            assert read.dtype == np.uint8


def test_files_may_lie_in_several_places(tmp_path, arrays):
    write_mnist(tmp_path, arrays)
    write_mnist(tmp_path / "mnist", arrays, packed=False)
    (tmp_path / f"{NAMES[0]}.gz").unlink()
    (tmp_path / "mnist" / NAMES[1]).unlink()
    np.testing.assert_array_equal(mnist(tmp_path).train_images, arrays[0])


def test_all_missing_files_are_named_at_once(tmp_path, arrays):
    with pytest.raises(FileNotFoundError) as caught:
        mnist(tmp_path / "nowhere")
    for part in (str(tmp_path / "nowhere"), *HASHES, *MIRRORS):
        assert part in str(caught.value)
    write_mnist(tmp_path, arrays)
    (tmp_path / f"{NAMES[2]}.gz").unlink()
    with pytest.raises(FileNotFoundError, match=f"lacks {NAMES[2]}.gz, also in mnist/; fetch from https"):
        mnist(tmp_path)


def test_offline_all_missing_files_are_named_at_once(tmp_path, arrays, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(download, "_WAITS", (0,))
    monkeypatch.setattr(
        sys.modules["jattn.datasets._mnist"], "MIRRORS", ("http://127.0.0.1:1/a/", "http://127.0.0.1:1/b/")
    )
    with pytest.raises(DownloadError) as caught:
        mnist()
    assert f"put into {tmp_path / 'jattn' / 'mnist'}" in str(caught.value)
    for name in HASHES:
        assert f"http://127.0.0.1:1/a/{name} or http://127.0.0.1:1/b/{name}" in str(caught.value)


def test_files_in_the_cache_folder_are_used_where_their_hashes_are_right(tmp_path, monkeypatch, shared):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(download, "_WAITS", ())
    (tmp_path / "jattn").mkdir()
    (tmp_path / "jattn" / "mnist").symlink_to(shared / "data" / "mnist")
    data = mnist()
    assert np.bincount(data.train_labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert (len(data.train_images), len(data.test_images)) == (60_000, 10_000)
    assert data.train_images[0].max() == 255 and data.train_images[:, 0].max() < 255  # digits are inside


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (0, b"", "not an idx file of bytes with 3 dimensions; download it again"),
        (0, b"\0\0", "not an idx file of bytes with 3 dimensions; download it again"),
        (
            1,
            idx(np.zeros((3, 28, 28), np.uint8)),
            "not an idx file of bytes with 1 dimensions; download it again",
        ),
        (0, idx(np.zeros((3, 28, 28), np.uint8))[:9], "expected 3 x 28 x 28 bytes, got 3 x 0 x 0"),
        (0, idx(np.zeros((2, 28, 28), np.uint8)), "expected 3 x 28 x 28 bytes, got 2 x 28 x 28"),
        (2, idx(np.zeros((2, 32, 32), np.uint8)), "expected 2 x 28 x 28 bytes, got 2 x 32 x 32"),
        (3, idx(np.zeros(3, np.uint8)), "expected 2 bytes, got 3"),
        (
            0,
            idx(np.zeros((3, 28, 28), np.uint8))[:-1],
            "expected 3 x 28 x 28 bytes after its header, got 2351; download it again",
        ),
        (
            0,
            idx(np.zeros((3, 28, 28), np.uint8)) + b"\0",
            "expected 3 x 28 x 28 bytes after its header, got 2353; download it again",
        ),
        (1, idx(np.array([0, 9, 10], np.uint8)), "the label of image 2 is 10, expected 0 to 9"),
    ],
    ids=["empty", "short", "other kind", "cut header", "count", "size", "labels", "cut", "longer", "label over 9"],
)
@pytest.mark.parametrize("packed", [True, False])
def test_what_is_wrong_with_a_file_is_said(tmp_path, arrays, file, content, message, packed):
    write_mnist(tmp_path, arrays, packed)
    path = tmp_path / (NAMES[file] + ".gz" * packed)
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(ValueError) as caught:
        mnist(tmp_path)
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize("damage", ["cut", "flipped", "garbled", "text", "empty"])
def test_a_damaged_gzip_file_is_named(tmp_path, arrays, damage):
    write_mnist(tmp_path, arrays)
    path = tmp_path / f"{NAMES[2]}.gz"
    content = bytearray(path.read_bytes())
    match damage:
        case "cut":
            content = content[: len(content) // 2]
        case "flipped":
            content[len(content) // 2] ^= 1
        case "garbled":
            content[10:20] = b"\xff" * 10  # no such kind of block
        case "text":
            content = b"<html>Please log in</html>"
        case _:
            content = b""
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{path}"):
        mnist(tmp_path)
