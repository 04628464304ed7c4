"""Small fixed graphs on which every ready-made model has known outputs."""

from collections.abc import Sequence

import jraph
import numpy as np
from jraph import GraphsTuple

from jattn.datasets import generate_colors, generate_triangles
from jattn.evaluation import join
from jattn.graphs import Proximity

TRIANGLES_COLUMNS = 15  # degrees 0 to 14, as in the published data set
SIDE = 8  # superpixels of a drawn image in each direction


def example_graphs(experiment: str, mean: Sequence[float] = (), std: Sequence[float] = ()) -> GraphsTuple:
    """Returns ten graphs of a data set that no file is needed for, in one split.

    Args:
      experiment: "colors", "triangles" or "mnist75sp".
      mean: mean that is subtracted from the features of images.
      std: standard deviation that they are divided by.
    """
    match experiment:
        case "colors":
            return join(generate_colors(train=4, validation=0, test=2, large_nodes=(26, 60)))
        case "triangles":
            splits = generate_triangles(
                train=6, validation=0, test=2, large_nodes=(26, 40), degree_columns=TRIANGLES_COLUMNS
            )
            return join(splits)
        case _:
            return jraph.batch_np([_image_graph(i, mean, std) for i in range(10)])


def _image_graph(number: int, mean: Sequence[float], std: Sequence[float]) -> GraphsTuple:
    """A ring or a bar on a grid of superpixels, whose sizes, places and angles differ."""
    position = (np.indices((SIDE, SIDE)).reshape(2, -1).T + 0.5) / SIDE
    row, column = (position - 0.5).T
    if number % 2:
        angle = 0.4 * number
        far = np.abs(np.cos(angle) * row + np.sin(angle) * column)
    else:
        far = np.abs(np.hypot(row, column) - 0.18 - 0.02 * number)
    intensity = np.clip(1.5 - 10 * far, 0, 1)
    features = np.column_stack([intensity, intensity, intensity, position])
    none = np.zeros(0, np.int32)
    return GraphsTuple(
        nodes={
            "features": ((features - mean) / std).astype(np.float32),
            "attention": np.zeros(len(position), np.float32),
            "position": position.astype(np.float32),
        },
        edges=Proximity((0.1 * np.pi) ** 2),
        senders=none,
        receivers=none,
        globals={"label": np.zeros(1, np.int32)},
        n_node=np.array([len(position)], np.int32),
        n_edge=np.zeros(1, np.int32),
    )
