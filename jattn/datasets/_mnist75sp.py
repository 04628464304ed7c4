"""MNIST-75sp: digits as graphs of up to 75 superpixels. True attention is a node's intensity if that is high."""

import os
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, UInt8
from jraph import GraphsTuple
from numpy.typing import ArrayLike

from jattn.datasets._images import (
    NEARBY,
    Target,
    expect_target,
    normalized,
    raw_features,
    statistics,
    superpixel_graphs,
)
from jattn.datasets._mnist import TRAIN, mnist
from jattn.datasets._superpixels import Superpixels, cached_superpixels
from jattn.graphs import Proximity

VALIDATION = 5_000  # images, the last of the training set
COLUMNS = 3  # of the same intensity, so that a model trained on gray digits can be tested on colored ones
NOISY, NOISYC = 0.4, 0.6  # standard deviations of the noise, for features of standard deviation 1


class MNIST75sp(NamedTuple):
    """MNIST-75sp, its normalization and its images.

    Attributes:
      splits: "train", "validation" if asked for, "orig", "noisy" and "noisyc"; the last three share arrays.
      mean: subtracted from the five features.
      std: the five features were divided by it afterwards.
      test_images: images of "orig", "noisy" and "noisyc".
      validation_images: images of "validation".
    """

    splits: dict[str, GraphsTuple]
    mean: Float32[np.ndarray, "5"]
    std: Float32[np.ndarray, "5"]
    test_images: UInt8[np.ndarray, "test 28 28"]
    validation_images: UInt8[np.ndarray, "validation 28 28"]


def mnist75sp(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    train_images: int | None = None,
    validation: bool = False,
    squared: bool = False,
    attention: Target = "bright",
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    noise_seed: int = 0,
) -> MNIST75sp:
    """Makes MNIST-75sp (Knyazev et al. 2019, section 3.2) from MNIST.

    Superpixels are computed on all cores, which takes a minute on two, and cached in the user's cache folder.

    Features are the intensity, three times, then row and column, all from 0 to 1, normalized by mean and standard
    deviation over the nodes of "train". Edges join all nodes, with weights exp(-d / (0.1 pi)^2) for two nodes at
    distance d, in units of the width of an image. In "noisy", noise of standard deviation 0.4 is added to the
    normalized intensity, the same in the three columns; in "noisyc", of 0.6 to each column.

    Args:
      data_dir: folder of MNIST's files, as for `mnist`. Default: they are downloaded.
      train_images: number of training images, the first of MNIST; only their superpixels are computed. Default: all.
      validation: whether the last 5,000 of the 60,000 images become the split "validation".
      squared: whether weights are exp(-d^2 / (0.1 pi)^2).
      attention: the target, as for `image_graphs`.
      mean: mean of the five features to use in place of that of "train", such as a trained model's.
      std: standard deviation of the five features, given with `mean`.
      noise_seed: seed of the noise.

    Raises:
      FileNotFoundError: files are missing in `data_dir`.
      DownloadError: files can't be downloaded.
      ValueError: a file is damaged or not the expected one, or an argument is out of range.

    >>> mnist75sp("data").splits["train"].nodes["features"].shape[1]  # doctest: +SKIP
    5
    """
    available = TRAIN - VALIDATION if validation else TRAIN
    if train_images is not None and not 1 <= train_images <= available:
        raise ValueError(f"train_images: {train_images} is not allowed, expected 1 to {available}")
    expect_target(attention)
    given = None if mean is None and std is None else statistics(mean, std, COLUMNS + 2)
    data = mnist(data_dir)
    train, held_out = _training_superpixels(data.train_images, train_images, available)
    mean_and_std = given or _mean_and_std(raw_features(train, COLUMNS))

    def graphs(found: Superpixels, label: np.ndarray) -> GraphsTuple:
        x = normalized(raw_features(found, COLUMNS), *mean_and_std)
        return superpixel_graphs(found, x, label, attention, Proximity(NEARBY.width, squared))

    splits = {"train": graphs(train, data.train_labels[: len(train.n_node)])}
    if held_out:
        splits["validation"] = graphs(held_out, data.train_labels[available:])
    splits["orig"] = graphs(cached_superpixels(data.test_images), data.test_labels)
    streams = np.random.SeedSequence(noise_seed).spawn(2)
    splits["noisy"] = _noisy(splits["orig"], NOISY, 1, streams[0])
    splits["noisyc"] = _noisy(splits["orig"], NOISYC, COLUMNS, streams[1])
    validation_images = data.train_images[available:].copy()  # a view would keep all images in memory
    return MNIST75sp(splits, *mean_and_std, data.test_images, validation_images)


def _training_superpixels(
    images: UInt8[np.ndarray, "images 28 28"], count: int | None, available: int
) -> tuple[Superpixels, Superpixels | None]:
    """Superpixels of the first `count` (None: of all available) images, and of those after the available ones."""
    if count is None:
        whole = cached_superpixels(images)
        return whole.between(0, available), whole.between(available, TRAIN) if available < TRAIN else None
    train = cached_superpixels(images[:count])
    return train, cached_superpixels(images[available:]) if available < TRAIN else None


def _mean_and_std(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature; the latter is 1 if all nodes have the same value."""
    # One column at a time: so many nodes need float64, in which all columns would take 350 MB.
    mean = [column.mean(dtype=np.float64) for column in features.T]
    std = [column.std(dtype=np.float64) or 1 for column in features.T]
    return np.asarray(mean, np.float32), np.asarray(std, np.float32)


def _noisy(graphs: GraphsTuple, scale: float, columns: int, stream: np.random.SeedSequence) -> GraphsTuple:
    """Adds noise to the intensity of each node: one number for all columns, or one for each column."""
    x = graphs.nodes["features"].copy()
    x[:, :COLUMNS] += scale * np.random.default_rng(stream).standard_normal((len(x), columns), np.float32)
    return graphs._replace(nodes={**graphs.nodes, "features": x})
