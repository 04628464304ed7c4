"""The graphs that an experiment trains and tests on."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int
from jraph import GraphsTuple

from jattn import plots
from jattn.evaluation import join
from jattn.training import Predictions

from .identity import fingerprint
from .samples import View
from .tables import title

DRAWN = 3  # graphs that are drawn of each subset

Draw = Callable[[Mapping[str, GraphsTuple], Predictions, Path], None]


def draw_examples(
    subsets: Mapping[str, GraphsTuple],
    predictions: Predictions,
    path: Path,
    graph_mask: Bool[np.ndarray, " graphs"] | None = None,
    count: int = DRAWN,
) -> None:
    """Draws the first network's attention on graphs of every subset, evenly spaced in order of size.

    Args:
      subsets: host-side splits.
      predictions: predictions for `join(subsets)`, arrays [networks, ...].
      path: the file of the picture.
      graph_mask: the graphs of `join(subsets)` that may be drawn; None for all.
      count: the number of graphs of each subset.
    """
    ids, titles, start = [], [], 0
    for name, subset in subsets.items():
        end = start + len(subset.n_node)
        allowed = np.arange(start, end) if graph_mask is None else start + np.flatnonzero(graph_mask[start:end])
        by_size = allowed[np.argsort(subset.n_node[allowed - start], kind="stable")]
        for i in by_size[np.unique(np.linspace(0, len(by_size) - 1, count + 2).astype(int)[1:-1])]:
            ids.append(int(i))
            titles.append(title(name))
        start = end
    output, attention, node_mask = (
        np.asarray(x[0]) for x in (predictions.prediction, predictions.attention[0], predictions.node_masks[0])
    )
    prediction = output[:, 0] if output.shape[1] == 1 else output.argmax(-1)
    figure = plots.attention_on_graphs(join(subsets), attention, node_mask, prediction, ids=ids, titles=titles)
    plots.save(figure, path)


class Data(NamedTuple):
    """The graphs that an experiment trains and tests on.

    Attributes:
      splits: "train", "validation" if there is one, and the test subsets, host-side.
      outputs: outputs per graph.
      draw: draws graphs of the evaluated subsets with their attention.
      view: positions and colors of the nodes of graphs that are images.
      train_ids: for each draw of training graphs, those graphs of "train"; empty if all networks train on all of them.
        Each draw has networks of all seeds.
      test_ids: for each draw, the graphs of the joined test subsets that its networks are tested on.
      feature_mean: mean that was subtracted from the features; empty if they are not normalized.
      feature_std: standard deviation that they were divided by.
      segments: returns the superpixel of each pixel for an index of a test graph, if graphs are images.
    """

    splits: Mapping[str, GraphsTuple]
    outputs: int = 1
    draw: Draw = draw_examples
    view: View | None = None
    train_ids: Sequence[Int[np.ndarray, " _"]] = ()
    test_ids: Sequence[Int[np.ndarray, " _"]] = ()
    feature_mean: Sequence[float] = ()
    feature_std: Sequence[float] = ()
    segments: Callable[[int], Int[np.ndarray, "height width"]] | None = None

    def fingerprints(self) -> dict[str, str]:
        """Returns the fingerprints of all that results depend on, by name."""
        draws = {"train_ids": self.train_ids, "test_ids": self.test_ids} if self.train_ids else {}
        return {name: fingerprint(arrays) for name, arrays in {**self.splits, **draws}.items()}

    def trained_sizes(self) -> tuple[int, int]:
        """Returns the smallest and largest number of nodes of a training graph."""
        sizes = self.splits["train"].n_node
        return int(sizes.min()), int(sizes.max())

    def test_mask(self, graphs: int, seeds: int) -> Bool[np.ndarray, "networks graphs"] | None:
        """Returns the graphs that each network is tested on; None for all."""
        if not self.test_ids:
            return None
        masks = np.zeros((len(self.test_ids), graphs), bool)
        for mask, ids in zip(masks, self.test_ids, strict=True):
            mask[ids] = True
        return np.repeat(masks, seeds, axis=0)
