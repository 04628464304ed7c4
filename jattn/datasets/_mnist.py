"""MNIST: reads its four files from a folder, or downloads them, and checks them."""

import gzip
import math
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from jattn.datasets._cache_folder import cache_folder
from jattn.datasets._download import fetch

TRAIN, TEST = 60_000, 10_000
SIDE = 28  # pixels

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
HASHES = {
    "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
}


class MNIST(NamedTuple):
    """Images of digits in the order of the files, with pixels from 0 (paper) to 255 (ink), and their labels."""

    train_images: UInt8[np.ndarray, "60000 28 28"]
    train_labels: UInt8[np.ndarray, "60000"]
    test_images: UInt8[np.ndarray, "10000 28 28"]
    test_labels: UInt8[np.ndarray, "10000"]


def mnist(data_dir: str | os.PathLike[str] | None = None) -> MNIST:
    """Reads MNIST.

    Args:
      data_dir: a folder with the four files, unpacked or not, or with `mnist/`, which has them. Default: the user's
        cache folder, into which missing files are downloaded.

    Raises:
      FileNotFoundError: files are missing in `data_dir`.
      DownloadError: files can't be downloaded.
      ValueError: a file is damaged or not the expected one.
    """
    train_images, train_labels, test_images, test_labels = mnist_files(data_dir)
    return MNIST(
        _read(train_images, TRAIN, SIDE, SIDE),
        _read_labels(train_labels, TRAIN),
        _read(test_images, TEST, SIDE, SIDE),
        _read_labels(test_labels, TEST),
    )


def mnist_files(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """The four files that `mnist` reads, in the order of `MNIST`; errors as there."""
    return fetch(HASHES, MIRRORS, cache_folder() / "mnist") if data_dir is None else _found(Path(data_dir))


def _found(folder: Path) -> list[Path]:
    """The four files, in a folder or in its subfolder `mnist`."""
    files: dict[str, Path] = {}
    for name in HASHES:
        for parent in (folder, folder / "mnist"):
            for file in (parent / name.removesuffix(".gz"), parent / name):
                if file.is_file():
                    files[name] = file
    if missing := [name for name in HASHES if name not in files]:
        mirrors = " or ".join(MIRRORS)
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}, also in mnist/; fetch from {mirrors}")
    return list(files.values())


def _read_labels(file: Path, count: int) -> np.ndarray:
    labels = _read(file, count)
    if (wrong := labels > 9).any():
        first = int(wrong.argmax())
        raise ValueError(f"{file}: the label of image {first} is {labels[first]}, expected 0 to 9")
    return labels


def _read(file: Path, *shape: int) -> np.ndarray:
    """The bytes of an idx file of a given shape, which follow a magic number (type, dimensions) and the sizes."""
    try:
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"{file} is not a gzip file, or is incomplete or damaged ({error}); download it again"
        ) from error
    start = 4 + 4 * len(shape)
    magic, *sizes = np.frombuffer(content[:start].ljust(start, b"\0"), ">u4").tolist()
    if magic != 0x800 + len(shape):
        raise ValueError(f"{file}: not an idx file of bytes with {len(shape)} dimensions; download it again")
    if tuple(sizes) != shape:
        raise ValueError(f"{file}: expected {_by(shape)} bytes, got {_by(sizes)}")
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"{file}: expected {_by(shape)} bytes after its header, got {len(content) - start}; download it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))
