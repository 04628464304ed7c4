"""The superpixels of one image: segments of similar neighbouring pixels, at most a given number of them.

SLIC (Achanta et al. 2012) often gives some more than wanted. To ask it for fewer costs many at once, so the smallest
ones are merged instead, one after another.
"""

import os
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import skimage
from jaxtyping import Float32, Float64, Int

from jattn._options import expect_at_least
from jattn.datasets.image_files import read_image

Image: TypeAlias = np.ndarray | str | os.PathLike[str]
Described: TypeAlias = tuple[np.ndarray, np.ndarray]  # what `described` returns


@dataclass(frozen=True)
class Segmentation:
    """How images are cut.

    Attributes:
      segments: number asked of SLIC, which gives some more or fewer.
      compactness: SLIC's weight of distance in space against that in intensity. Where not given 0.25 for gray images,
        10 for those of three channels, whose colors SLIC compares as CIELAB, which is a hundred times as large.
      max_segments: number of segments that may be left. While there are more, the one with fewest pixels joins the
        neighbour (along a side of a pixel) of closest mean intensity; of equally close ones, that of the longest
        common border.
    """

    segments: int = 95
    compactness: float | None = None
    max_segments: int = 75

    def __post_init__(self) -> None:
        expect_at_least(1, segments=self.segments, max_segments=self.max_segments)
        if self.compactness is not None and not self.compactness > 0:
            raise ValueError(f"compactness: {self.compactness} is not allowed, expected more than 0")


MNIST_75SP = Segmentation()


def label_map(image: Image, segmentation: Segmentation = MNIST_75SP) -> Int[np.ndarray, "height width"]:
    """The superpixel that each pixel belongs to, counted from 0 in the order of `superpixels`; arguments as there."""
    return _cut(_pixels(image), segmentation)


def superpixel_features(
    image: Image, segmentation: Segmentation, index: int
) -> tuple[Float32[np.ndarray, "nodes channels"], Float32[np.ndarray, "nodes 2"]]:
    """Mean intensity and position of each superpixel of an image, as `Superpixels` has them.

    Args:
      image: array or file.
      segmentation: how it is cut.
      index: its number, for errors.
    """
    try:
        pixels = _pixels(image)
    except ValueError as error:
        raise ValueError(f"image {index}: {error}") from error
    labels = _cut(pixels, segmentation)
    rows, columns = np.indices(labels.shape)
    size, total = _totals(np.dstack([pixels, rows, columns]), labels)
    mean = total / size[:, None]
    return mean[:, :-2].astype(np.float32), (mean[:, -2:] / max(labels.shape)).astype(np.float32)


def _pixels(image: Image) -> Float64[np.ndarray, "height width channels"]:
    """An image's channels from 0 to 1, without opacity."""
    array = read_image(image) if isinstance(image, str | os.PathLike) else np.asarray(image)
    if array.ndim not in (2, 3) or not array.size or array.shape[2:] > (4,):
        raise ValueError(f"expected shape [height, width] or [height, width, 1 to 4 channels], got {array.shape}")
    if array.dtype in (np.uint8, np.uint16):
        array = array / np.float64(np.iinfo(array.dtype).max)
    elif array.dtype != bool and not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"expected pixels of type uint8, uint16 or bool, or floats from 0 to 1, got {array.dtype}")
    if not (array.min() >= 0 and array.max() <= 1):  # not so for NaN either
        raise ValueError(f"expected floats from 0 to 1, got {array.min():g} to {array.max():g}")
    pixels = array.astype(np.float64, copy=False).reshape(*array.shape[:2], -1)
    if pixels.shape[2] in (1, 3):
        return pixels
    if pixels[..., -1].min() < 1:
        raise ValueError("it is transparent in places; blend it with a background, as skimage.color.rgba2rgb does")
    return pixels[..., :-1]


def _cut(pixels: np.ndarray, segmentation: Segmentation) -> np.ndarray:
    """The superpixel of each pixel, [height, width]."""
    gray = pixels.shape[2] == 1
    compactness = segmentation.compactness
    if compactness is None:
        compactness = 0.25 if gray else 10
    labels = skimage.segmentation.slic(
        pixels[..., 0] if gray else pixels,
        n_segments=segmentation.segments,
        compactness=compactness,
        channel_axis=None if gray else -1,
        start_label=0,
    )
    return _merged(pixels, labels, segmentation.max_segments)


def _merged(pixels: np.ndarray, labels: np.ndarray, most: int) -> np.ndarray:
    """Labels after the smallest segments joined neighbours until `most` are left."""
    count = int(labels.max()) + 1
    if count <= most:
        return labels
    size, total = _totals(pixels, labels)
    border = _borders(labels, count)
    joined = np.arange(count)
    for _ in range(count - most):
        small = size.argmin()
        near = np.flatnonzero(border[small])
        gap = np.linalg.norm(total[near] / size[near, None] - total[small] / size[small], axis=1)
        # Means that differ by rounding alone are equal. The sort is stable, so the lowest index is first of equals.
        into = near[np.lexsort((-border[small, near], gap.round(9)))[0]]
        joined[joined == small] = into
        size[into] += size[small]
        total[into] += total[small]
        border[into] += border[small]
        border[:, into] += border[:, small]
        border[into, into] = 0
        border[small] = border[:, small] = 0
        size[small] = np.inf
    return np.unique(joined, return_inverse=True)[1][labels]


def _borders(labels: np.ndarray, count: int) -> np.ndarray:
    """Number of sides of pixels between each two segments, [segments, segments]."""
    across, down = labels[:, :-1] * count + labels[:, 1:], labels[:-1] * count + labels[1:]
    pairs = np.concatenate([across.ravel(), down.ravel()])
    sides = np.bincount(pairs, minlength=count**2).reshape(count, count)
    np.fill_diagonal(sides, 0)
    return sides + sides.T


def _totals(values: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of pixels of each segment, as floats, and the sum of values [height, width, channels] over it."""
    flat = labels.ravel()
    channels = values.reshape(len(flat), -1).T
    return np.bincount(flat).astype(float), np.stack([np.bincount(flat, channel) for channel in channels], axis=1)
