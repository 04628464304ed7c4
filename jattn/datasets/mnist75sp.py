"""MNIST-75sp: digits as graphs of at most 75 superpixels; a node's true attention is its intensity if that is high."""

import os
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, UInt8
from jraph import GraphsTuple
from numpy.typing import ArrayLike

from jattn.datasets.images import NEARBY, Target, expect_target, normalized, raw_features, statistics, superpixel_graphs
from jattn.datasets.mnist import TRAIN, mnist
from jattn.datasets.superpixels import Superpixels, cached_superpixels
from jattn.graphs import Proximity

VALIDATION = 5_000  # images, the last of those to train on
COLUMNS = 3  # of the same intensity, so that a model trained on gray digits can be tested on coloured ones
NOISY, NOISYC = 0.4, 0.6  # standard deviations, where those of the training set's features are 1


class MNIST75sp(NamedTuple):
    """MNIST-75sp and what it was made from.

    Attributes:
      splits: "train", "validation" where asked for, "orig", "noisy" and "noisyc"; the last three share arrays.
      mean: what was subtracted from the five features.
      std: what they were divided by then.
      test_images: the digits of "orig", "noisy" and "noisyc".
      validation_images: those of "validation".
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

    Superpixels are cut on all cores, which takes a minute on two, and kept in the user's cache folder.

    Features are the intensity three times, then row and column, all from 0 to 1, and then normalised by mean and
    standard deviation over the nodes of "train". Edges join all nodes, with weights exp(-d / (0.1 pi)^2) for two nodes
    at a distance d, where a digit is 1 wide. "noisy" has N(0, 0.4) added to a node's normalised intensity, the same in
    its three columns, "noisyc" N(0, 0.6) in each by itself; both numbers are standard deviations.

    Args:
      data_dir: folder of MNIST's files, as for `mnist`; they are downloaded where not given.
      train_images: number of images to train on, the first ones; superpixels of no others are cut.
      validation: the last 5,000 of the 60,000 images are a split of their own.
      squared: weights are exp(-d^2 / (0.1 pi)^2).
      attention: the target, as for `image_graphs`.
      mean: of the five features, in place of those of "train", such as a trained model's.
      std: the standard deviations that belong to it.
      noise_seed: noise is a function of it.

    Raises:
      FileNotFoundError: files are missing in `data_dir`.
      DownloadError: files can't be downloaded.
      ValueError: a file is damaged, or another than it should be, or an argument is out of range.
    """
    most = TRAIN - VALIDATION if validation else TRAIN
    if train_images is not None and not 1 <= train_images <= most:
        raise ValueError(f"train_images: {train_images} is not allowed, expected 1 to {most}")
    expect_target(attention)
    given = None if mean is None and std is None else statistics(mean, std, COLUMNS + 2)
    data = mnist(data_dir)
    whole = cached_superpixels(data.train_images) if train_images is None else None

    def cut(first: int, last: int) -> Superpixels:
        return whole.between(first, last) if whole else cached_superpixels(data.train_images[first:last])

    train = cut(0, train_images or most)
    of_features = given or _measured(raw_features(train, COLUMNS))

    def graphs(found: Superpixels, label: np.ndarray) -> GraphsTuple:
        x = normalized(raw_features(found, COLUMNS), *of_features)
        return superpixel_graphs(found, x, label, attention, Proximity(NEARBY.width, squared))

    splits = {"train": graphs(train, data.train_labels[: len(train.n_node)])}
    if validation:
        splits["validation"] = graphs(cut(most, TRAIN), data.train_labels[most:])
    splits["orig"] = graphs(cached_superpixels(data.test_images), data.test_labels)
    streams = np.random.SeedSequence(noise_seed).spawn(2)
    splits["noisy"] = _noisy(splits["orig"], NOISY, 1, streams[0])
    splits["noisyc"] = _noisy(splits["orig"], NOISYC, COLUMNS, streams[1])
    return MNIST75sp(
        splits=splits,
        mean=of_features[0],
        std=of_features[1],
        test_images=data.test_images,
        validation_images=data.train_images[most:].copy(),  # the others need not stay in memory
    )


def _measured(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature; the latter 1 where all nodes are alike."""
    # One column at a time: in float64, which so many nodes need, all of them would take 350 MB.
    mean = [column.mean(dtype=np.float64) for column in features.T]
    std = [column.std(dtype=np.float64) or 1 for column in features.T]
    return np.asarray(mean, np.float32), np.asarray(std, np.float32)


def _noisy(graphs: GraphsTuple, scale: float, columns: int, stream: np.random.SeedSequence) -> GraphsTuple:
    """The graphs with noise on their intensity, drawn node after node: one number for all columns, or one for each."""
    x = graphs.nodes["features"].copy()
    x[:, :COLUMNS] += scale * np.random.default_rng(stream).standard_normal((len(x), columns), np.float32)
    return graphs._replace(nodes={**graphs.nodes, "features": x})
