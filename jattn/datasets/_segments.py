"""The superpixels of one image: segments of similar neighboring pixels, up to a given number.

SLIC (Achanta et al. 2012) often returns more segments than asked for. Asking for fewer loses many at once, so the
smallest segments are merged instead, one after another.
"""

import os
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import PIL.Image
import skimage
from jaxtyping import Float32, Float64, Int

from jattn._options import expect_at_least
from jattn.datasets._image_files import read_image

Image: TypeAlias = np.ndarray | str | os.PathLike[str] | PIL.Image.Image
SuperpixelFeatures: TypeAlias = tuple[np.ndarray, np.ndarray]  # mean intensity and position


@dataclass(frozen=True)
class Segmentation:
    """Settings of the segmentation into superpixels.

    Attributes:
      segments: number of segments asked of SLIC, which returns some more or fewer.
      compactness: SLIC's weight of distance in space against distance in intensity. Default: 0.25 for gray images; 10
        for three channels, which SLIC compares as CIELAB, on a scale a hundred times as large.
      max_segments: most segments. While there are more, the segment with fewest pixels is merged into the neighbor
        (along a side of a pixel) with the closest mean intensity and, of equally close ones, the longest common border.

    >>> Segmentation(segments=50, max_segments=40)
    Segmentation(segments=50, compactness=None, max_segments=40)
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
    """The superpixel of each pixel, counted from 0 in the order of the nodes of `image_graphs`.

    Args:
      image: as one of the images of `image_graphs`.
      segmentation: settings of the superpixels.

    >>> label_map(np.eye(2), Segmentation(segments=4)).tolist()
    [[0, 1], [2, 3]]
    """
    return _cut(_pixels(image), segmentation)


def superpixel_features(
    image: Image, segmentation: Segmentation, index: int
) -> tuple[Float32[np.ndarray, "nodes channels"], Float32[np.ndarray, "nodes 2"]]:
    """Mean intensity and position of each superpixel of an image, as in `Superpixels`.

    Args:
      image: an array, a file or a Pillow image.
      segmentation: settings of the superpixels.
      index: index of the image, for errors.
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
    """Channels of an image from 0 to 1, without opacity."""
    array = read_image(image) if isinstance(image, str | os.PathLike | PIL.Image.Image) else np.asarray(image)
    if array.ndim not in (2, 3) or not array.size or array.shape[2:] > (4,):
        raise ValueError(f"expected shape [height, width] or [height, width, 1 to 4 channels], got {array.shape}")
    if array.dtype in (np.uint8, np.uint16):
        array = array / np.float64(np.iinfo(array.dtype).max)
    elif array.dtype != bool and not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"expected pixels of type uint8, uint16 or bool, or floats from 0 to 1, got {array.dtype}")
    if not (array.min() >= 0 and array.max() <= 1):  # also true for NaN
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


def _merged(pixels: np.ndarray, labels: np.ndarray, max_segments: int) -> np.ndarray:
    """Labels after merging the smallest segments into neighbors until `max_segments` are left."""
    count = int(labels.max()) + 1
    if count <= max_segments:
        return labels
    size, total = _totals(pixels, labels)
    border = _borders(labels, count)
    merged = np.arange(count)
    for _ in range(count - max_segments):
        small = size.argmin()
        near = np.flatnonzero(border[small])
        gap = np.linalg.norm(total[near] / size[near, None] - total[small] / size[small], axis=1)
        # Means that differ by rounding only are equal. The sort is stable: of equals, the lowest index comes first.
        into = near[np.lexsort((-border[small, near], gap.round(9)))[0]]
        merged[merged == small] = into
        size[into] += size[small]
        total[into] += total[small]
        border[into] += border[small]
        border[:, into] += border[:, small]
        border[into, into] = 0
        border[small] = border[:, small] = 0
        size[small] = np.inf
    return np.unique(merged, return_inverse=True)[1][labels]


def _borders(labels: np.ndarray, count: int) -> np.ndarray:
    """Length of the border between each two segments, in sides of pixels, [segments, segments]."""
    across, down = labels[:, :-1] * count + labels[:, 1:], labels[:-1] * count + labels[1:]
    pairs = np.concatenate([across.ravel(), down.ravel()])
    sides = np.bincount(pairs, minlength=count**2).reshape(count, count)
    np.fill_diagonal(sides, 0)
    return sides + sides.T


def _totals(values: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of pixels of each segment, as floats, and its sum of values [height, width, channels]."""
    flat = labels.ravel()
    channels = values.reshape(len(flat), -1).T
    return np.bincount(flat).astype(float), np.stack([np.bincount(flat, channel) for channel in channels], axis=1)
