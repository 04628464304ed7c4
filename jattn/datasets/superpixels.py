"""The superpixels of many images: cut on all cores, and kept on disk."""

import functools
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int32, UInt8
from joblib import Parallel, cpu_count, delayed
from tqdm import tqdm

from jattn.datasets.array_cache import cached_arrays
from jattn.datasets.download import cache_folder
from jattn.datasets.segments import MNIST_75SP, Described, Image, Segmentation, superpixel_features

VERSION = 1  # of what is kept on disk: to be raised when the same settings give other superpixels

_CHUNK = 25  # images that a process is given at a time
_WORTH = 500  # digits whose cutting takes about as long as a process takes to start


class Superpixels(NamedTuple):
    """The superpixels of images, one image after another.

    Attributes:
      intensity: mean of each channel over a superpixel's pixels, from 0 to 1.
      position: row and column of its centre of mass, pixels counted from 0, divided by the image's longer side.
      n_node: number of superpixels of each image.
    """

    intensity: Float32[np.ndarray, "nodes channels"]
    position: Float32[np.ndarray, "nodes 2"]
    n_node: Int32[np.ndarray, " images"]

    def between(self, first: int, last: int) -> "Superpixels":
        """Those of the images from `first` up to, without, `last`, as views."""
        start, stop = self.n_node[:first].sum(), self.n_node[:last].sum()
        return Superpixels(self.intensity[start:stop], self.position[start:stop], self.n_node[first:last])


def superpixels(
    images: Image | Sequence[Image], segmentation: Segmentation = MNIST_75SP, processes: int | None = None
) -> Superpixels:
    """Cuts images into superpixels, with a progress bar where standard error is a terminal.

    Args:
      images: arrays [height, width] or [height, width, channels], or files that hold them, such as PNGs. Pixels are
        uint8, uint16 or bool, or floats from 0 to 1. Channels are 1 or 3; one more is opacity, which has to be full.
        Sizes may differ, numbers of channels may not. They are a list, or one array with an axis of images in front.
        One image alone is one: a file, or an array of two axes, or of three of which the last has 1 to 4 channels.
      segmentation: how they are cut.
      processes: how many share the work; as many as there are cores where not given, fewer for few images. The result
        doesn't depend on it.

    Returns:
      The superpixels, in the order of the images.

    Raises:
      FileNotFoundError: a file does not exist.
      ValueError: something is no image as described; the message says which, counted from 0.
    """
    images = _listed(images)
    starts = range(0, len(images), _CHUNK)
    processes = min(cpu_count(), len(images) // _WORTH) if processes is None else min(processes, len(starts))
    calls = (delayed(_described)(images[start : start + _CHUNK], segmentation, start) for start in starts)
    parallel = Parallel(max(processes, 1), return_as="generator")
    parts: list[Described] = []
    with tqdm(total=len(images), desc="superpixels", unit="image", disable=not sys.stderr.isatty()) as bar:
        for chunk in parallel(calls):
            parts += chunk
            bar.update(len(chunk))
    return _joined(parts)


def cached_superpixels(
    images: UInt8[np.ndarray, "images height width *channels"],
    segmentation: Segmentation = MNIST_75SP,
    folder: Path | None = None,
) -> Superpixels:
    """The superpixels of images, read from a file where they have been cut before, and kept in one otherwise.

    The file's name is a hash of all that they follow from: images, settings, scikit-image's version, `VERSION`. It is
    never half-written, so runs that start at once may share it. Where it can't be used a warning says why.

    Args:
      images: as for `superpixels`, in one array.
      segmentation: how they are cut.
      folder: the folder of such files; one in the user's cache folder where not given.
    """
    file = (folder or cache_folder() / "superpixels") / f"{_key(images, segmentation)}.npz"
    arrays = cached_arrays(
        file,
        "superpixels",
        make=lambda: superpixels(images, segmentation)._asdict(),
        check=functools.partial(_check, images=len(images)),
    )
    return Superpixels(**arrays)


def _listed(images: Image | Sequence[Image]) -> np.ndarray | Sequence[Image]:
    """The images as a list or an array; one alone as a list of it."""
    if isinstance(images, str | os.PathLike):
        return [images]
    if isinstance(images, np.ndarray) and (images.ndim == 2 or (images.ndim == 3 and images.shape[2] <= 4)):
        return [images]
    return images


def _described(images: np.ndarray | Sequence[Image], segmentation: Segmentation, first: int) -> list[Described]:
    """Those of consecutive images, of which the first has the number `first`."""
    return [superpixel_features(image, segmentation, first + i) for i, image in enumerate(images)]


def _joined(parts: Sequence[Described]) -> Superpixels:
    if not parts:
        return Superpixels(np.zeros((0, 1), np.float32), np.zeros((0, 2), np.float32), np.zeros(0, np.int32))
    channels = [intensity.shape[1] for intensity, _ in parts]
    for i, count in enumerate(channels):
        if count != channels[0]:
            raise ValueError(f"image {i}: it has {count} channels, image 0 has {channels[0]}")
    intensity, position = zip(*parts, strict=True)
    sizes = np.asarray([len(of_image) for of_image in intensity], np.int32)
    return Superpixels(np.concatenate(intensity), np.concatenate(position), sizes)


def _key(images: np.ndarray, segmentation: Segmentation) -> str:
    follows_from = {"version": VERSION, "scikit-image": version("scikit-image"), "shape": images.shape}
    key = hashlib.sha256(json.dumps(follows_from | asdict(segmentation)).encode())
    key.update(images.tobytes())
    return key.hexdigest()[:32]


def _check(arrays: Mapping[str, np.ndarray], images: int) -> None:
    found = Superpixels(*(arrays[name] for name in Superpixels._fields))
    shapes = [array.shape for array in found]
    nodes = int(found.n_node.sum())
    if [len(shape) for shape in shapes] != [2, 2, 1] or [shape[0] for shape in shapes] != [nodes, nodes, images]:
        raise ValueError(f"its arrays have shapes {shapes}")
