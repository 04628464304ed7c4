"""Graphs of images: nodes are superpixels; edges join all nodes, with weights that fall with distance."""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float32
from jraph import GraphsTuple
from numpy.typing import ArrayLike

from jattn._options import expect_one_of
from jattn.datasets._segments import MNIST_75SP, Image, Segmentation
from jattn.datasets._superpixels import Superpixels, superpixels
from jattn.graphs import Proximity, check

Target: TypeAlias = Literal["bright", "nonzero"]

NEARBY = Proximity((0.1 * math.pi) ** 2)


def image_graphs(
    images: Image | Sequence[Image],
    label: ArrayLike = 0,
    *,
    segmentation: Segmentation = MNIST_75SP,
    columns: int | None = None,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    attention: Target | None = None,
    edges: Proximity = NEARBY,
    processes: int | None = None,
) -> GraphsTuple:
    """Graphs of images, made as those of MNIST-75sp.

    Features are the mean of each channel over a superpixel, then the row and the column of its center of mass, divided
    by the longer side of the image. All are from 0 to 1, unless `mean` and `std` normalize them.

    Args:
      images: a list of images of any size, an array [images, height, width, ...], or one image. An image is a numpy
        array [height, width] or [height, width, channels] (uint8, uint16, bool, or floats from 0 to 1), a file, or a
        Pillow image, gray or with three channels, and without transparency.
      label: class or value to regress of each image, or one for all.
      segmentation: settings of the superpixels.
      columns: number of feature columns for the channels. The channel of gray images may fill several, as the 3 of
        MNIST-75sp. Default: the number of channels.
      mean: subtracted from the features, [features]; a trained model needs the mean of its training set.
      std: the features are divided by it afterwards, [features].
      attention: the target: "bright" is the mean of the channels if that is at least 0.5, and 0 otherwise; "nonzero" is
        1 if the mean is over 0. Default: unknown, 0 everywhere.
      edges: weights of the edges.
      processes: number of processes. Default: one per core, fewer for few images.

    Returns:
      A numpy `GraphsTuple` in the order of the images, with the fields that `jattn.graphs` lists.

    Raises:
      FileNotFoundError: a file does not exist.
      ValueError: an image is not as described (the message has its index), or an argument does not fit the images.

    >>> graphs = image_graphs(np.eye(8), label=3, segmentation=Segmentation(segments=4), attention="nonzero")
    >>> graphs.nodes["features"].shape  # intensity, row and column of each superpixel
    (2, 3)
    """
    expect_target(attention)
    found = superpixels(images, segmentation, processes)
    labels = np.asarray(label)
    if labels.ndim > 1 or labels.shape not in ((), (len(found.n_node),)):
        raise ValueError(f"label: expected one for each of {len(found.n_node)} images, got shape {labels.shape}")
    x = raw_features(found, columns)
    if mean is not None or std is not None:
        x = normalized(x, *statistics(mean, std, x.shape[1]))
    graphs = superpixel_graphs(found, x, np.broadcast_to(labels, len(found.n_node)), attention, edges)
    check(graphs)
    return graphs


def expect_target(attention: Target | None) -> None:
    """Raises `ValueError` unless this is a kind of target attention; called before the slow segmentation."""
    if attention is not None:
        expect_one_of("attention", attention, Target)


def raw_features(found: Superpixels, columns: int | None = None) -> Float32[np.ndarray, "nodes features"]:
    """Features before normalization: intensity in `columns` columns (default: one per channel), then position."""
    channels = found.intensity.shape[1]
    columns = columns or channels
    if channels not in (1, columns):
        raise ValueError(f"columns: {columns} is not allowed, the images have {channels} channels")
    intensity = np.broadcast_to(found.intensity, (len(found.intensity), columns))
    return np.concatenate([intensity, found.position], axis=1)


def statistics(mean: ArrayLike | None, std: ArrayLike | None, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature as arrays, checked."""
    checked = []
    for name, value in (("mean", mean), ("std", std)):
        if value is None:
            raise ValueError(f"{name}: mean and std are given both or neither")
        numbers = np.asarray(value, np.float32)
        if numbers.shape != (features,) or not np.isfinite(numbers).all():
            raise ValueError(f"{name}: expected {features} finite numbers, got {value!r}")
        checked.append(numbers)
    if (checked[1] <= 0).any():
        raise ValueError(f"std: expected numbers over 0, got {std!r}")
    return checked[0], checked[1]


def normalized(
    features: Float32[np.ndarray, "nodes features"],
    mean: Float32[np.ndarray, " features"],
    std: Float32[np.ndarray, " features"],
) -> Float32[np.ndarray, "nodes features"]:
    """Subtracts the mean and divides by the standard deviation, in place."""
    features -= mean
    features /= std
    return features


def superpixel_graphs(
    found: Superpixels,
    features: Float32[np.ndarray, "nodes features"],
    label: ArrayLike,
    attention: Target | None,
    edges: Proximity,
) -> GraphsTuple:
    """Graphs of superpixels; all arguments as for `image_graphs`."""
    label = np.asarray(label)
    whole = np.array_equal(label, np.round(label))
    none = np.zeros(0, np.int32)
    return GraphsTuple(
        nodes={"features": features, "attention": _target(found, attention), "position": found.position},
        edges=edges,
        senders=none,
        receivers=none,
        globals={"label": label.astype(np.int32 if whole else np.float32)},
        n_node=found.n_node,
        n_edge=np.zeros_like(found.n_node),
    )


def _target(found: Superpixels, kind: Target | None) -> np.ndarray:
    intensity = found.intensity.mean(axis=1)
    if kind is None:
        return np.zeros_like(intensity)
    if kind == "nonzero":
        return (intensity > 0).astype(np.float32)
    return np.where(intensity >= 0.5, intensity, np.float32(0))
