"""MNIST's files with few images; their numbers are patched where the right ones are expected."""

import gzip
from importlib import import_module

import numpy as np

NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def idx(array):
    """The content of an idx file."""
    header = [0x800 + array.ndim, *array.shape]
    return b"".join(number.to_bytes(4, "big") for number in header) + array.tobytes()


def write_mnist(folder, arrays, packed=True):
    """Writes the four files, in the order of NAMES."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(NAMES, arrays, strict=True):
        content = idx(np.asarray(array, np.uint8))
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content, 1) if packed else content)
    return folder


def write_strokes(folder, train, test):
    """Files of images with a bright square each, labels 0, 1, 2, ..."""
    rng = np.random.default_rng(0)
    images = np.zeros((train + test, 28, 28), np.uint8)
    for image in images:
        row, column = rng.integers(4, 20, 2)
        image[row : row + 4, column : column + 4] = rng.integers(60, 256)
    label = np.arange(train + test) % 10
    return write_mnist(folder, [images[:train], label[:train], images[train:], label[train:]])


def expect(monkeypatch, train, test, validation=0):
    """Makes data sets of so many images those that are expected."""
    files, superpixels = map(import_module, ("jattn.datasets._mnist", "jattn.datasets._mnist75sp"))
    monkeypatch.setattr(files, "TRAIN", train)
    monkeypatch.setattr(superpixels, "TRAIN", train)
    monkeypatch.setattr(files, "TEST", test)
    monkeypatch.setattr(superpixels, "VALIDATION", validation)
