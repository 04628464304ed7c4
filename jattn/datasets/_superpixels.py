"""The superpixels of many images, computed on all cores and cached on disk; `_segments.py` cuts one image."""

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
import PIL.Image
from jaxtyping import Float32, Int32, UInt8
from joblib import Parallel, cpu_count, delayed
from tqdm import tqdm

from jattn.datasets._array_cache import cached_arrays
from jattn.datasets._cache_folder import cache_folder
from jattn.datasets._segments import MNIST_75SP, Image, Segmentation, SuperpixelFeatures, superpixel_features

VERSION = 1  # of cached files: raise it when the same settings give other superpixels

_CHUNK = 25  # images of a task of a process
_WORTH = 500  # images of digits that take about as long as starting a process
_FEW = 16  # an array's last axis may be a number of channels up to here; wider is an image's width


class Superpixels(NamedTuple):
    """The superpixels of images, one image after another.

    Attributes:
      intensity: mean of each channel over a superpixel's pixels, from 0 to 1.
      position: row and column of its center of mass, pixels counted from 0, divided by the image's longer side.
      n_node: number of superpixels of each image.
    """

    intensity: Float32[np.ndarray, "nodes channels"]
    position: Float32[np.ndarray, "nodes 2"]
    n_node: Int32[np.ndarray, " images"]

    def between(self, first: int, last: int) -> "Superpixels":
        """The superpixels of images `first` to `last` - 1, as views."""
        start, stop = self.n_node[:first].sum(), self.n_node[:last].sum()
        return Superpixels(self.intensity[start:stop], self.position[start:stop], self.n_node[first:last])


def superpixels(
    images: Image | Sequence[Image], segmentation: Segmentation = MNIST_75SP, processes: int | None = None
) -> Superpixels:
    """Superpixels of images, with a progress bar if standard error is a terminal.

    Args:
      images: arrays [height, width] or [height, width, channels], files such as PNGs, or Pillow images. Pixels are
        uint8, uint16 or bool, or floats from 0 to 1. There are 1 or 3 channels, and maybe one of opacity, which must be
        full everywhere. Images may differ in size, but not in channels. Give a list, an array [images, height, width,
        ...], or one image: a file, a Pillow image, or an array of two axes or of three with 1 to 4 channels.
      segmentation: settings of the superpixels.
      processes: number of processes. Default: one per core, fewer for few images. The result does not depend on it.

    Returns:
      The superpixels, in the order of the images.

    Raises:
      FileNotFoundError: a file does not exist.
      ValueError: an image is not as described; the message has its index, counted from 0.
    """
    images = _listed(images)
    starts = range(0, len(images), _CHUNK)
    processes = min(cpu_count(), len(images) // _WORTH) if processes is None else min(processes, len(starts))
    calls = (delayed(_features_of)(images[start : start + _CHUNK], segmentation, start) for start in starts)
    parallel = Parallel(max(processes, 1), return_as="generator")
    parts: list[SuperpixelFeatures] = []
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
    """Superpixels of images, read from a cached file or computed and written to one.

    The name of the file is a hash of the images, the settings, the version of scikit-image and `VERSION`. The file is
    written atomically, so that runs may share it. A warning says why it can't be used.

    Args:
      images: as for `superpixels`, in one array.
      segmentation: settings of the superpixels.
      folder: folder of the files. Default: one in the user's cache folder.
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
    """The images as a list or an array; a single image as a list of one."""
    if isinstance(images, str | os.PathLike | PIL.Image.Image):
        return [images]
    if not isinstance(images, np.ndarray):
        return images
    if images.ndim == 2 or (images.ndim == 3 and images.shape[2] <= 4):
        return [images]
    if images.ndim == 3 and images.shape[2] < _FEW and images.shape[1] != images.shape[2]:
        count, height, width = images.shape
        raise ValueError(
            f"images: shape {images.shape} is not that of one image, which has 1 to 4 channels; for {count} images of "
            f"{height} x {width} pixels give list(images)"
        )
    return images


def _features_of(
    images: np.ndarray | Sequence[Image], segmentation: Segmentation, first: int
) -> list[SuperpixelFeatures]:
    """Features of the superpixels of consecutive images, the first of which has the index `first`."""
    return [superpixel_features(image, segmentation, first + i) for i, image in enumerate(images)]


def _joined(parts: Sequence[SuperpixelFeatures]) -> Superpixels:
    if not parts:
        return Superpixels(np.zeros((0, 1), np.float32), np.zeros((0, 2), np.float32), np.zeros(0, np.int32))
    channels = [intensity.shape[1] for intensity, _ in parts]
    for i, count in enumerate(channels):
        if count != channels[0]:
            raise ValueError(f"image {i}: it has {count} channels, image 0 has {channels[0]}")
    intensity, position = zip(*parts, strict=True)
    sizes = np.asarray([len(means) for means in intensity], np.int32)
    return Superpixels(np.concatenate(intensity), np.concatenate(position), sizes)


def _key(images: np.ndarray, segmentation: Segmentation) -> str:
    inputs = {"version": VERSION, "scikit-image": version("scikit-image"), "shape": images.shape}
    key = hashlib.sha256(json.dumps(inputs | asdict(segmentation)).encode())
    key.update(images.tobytes())
    return key.hexdigest()[:32]


def _check(arrays: Mapping[str, np.ndarray], images: int) -> None:
    found = Superpixels(*(arrays[name] for name in Superpixels._fields))
    shapes = [array.shape for array in found]
    nodes = int(found.n_node.sum())
    if [len(shape) for shape in shapes] != [2, 2, 1] or [shape[0] for shape in shapes] != [nodes, nodes, images]:
        raise ValueError(f"its arrays have shapes {shapes}")
