"""Generalization to larger graphs: train on the smallest half of a TU data set, test on the largest tenth.

    python -m experiments.size_shift --dataset PROTEINS            weakly supervised attention, 10 seeds
    python -m experiments.size_shift robust --dataset PROTEINS     the same, made to generalize
    python -m experiments.size_shift global --dataset NCI1         another preset, another data set
    python -m experiments.size_shift --dataset DIR/NAME.zip        your own graphs, in the collection's format
    python -m experiments.size_shift --dataset DD --tune 20        threshold, beta and scorer chosen beforehand

The benchmark of the literature on NCI1, NCI109, PROTEINS and D&D: Yehudai et al., "From Local Structures to Size
Generalization in Graph Neural Networks", ICML 2021; Bevilacqua et al., "Size-Invariant Graph Representations for Graph
Classification Extrapolations", ICML 2021. Classes have other shares among large graphs than among small ones, so the
score is the Matthews correlation coefficient, which is 0 for every constant prediction; the table shows 100 times it.

On 2 CPU cores with other work on them, `robust --dataset PROTEINS` took 74 s, compilation included, and reaches 35.5,
global pooling 28.8; `weak` empties all of these large graphs and reaches 0.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jattn import datasets
from jattn import graphs as jattn_graphs
from jattn._options import setting

from .run.command import Experiment
from .run.groups import with_changes
from .run.tunable import TunableSettings
from .tu import CollectionData, TUAttention, choose, class_count, draw_small, named_dataset, presets_of

if TYPE_CHECKING:  # a command line is read without what a run needs
    from .run.data import Data


@dataclass(frozen=True)
class SizeShiftData(CollectionData):
    """The data set, and its smallest and largest graphs."""

    train_percent: float = setting(50.0, "data")
    """Share of the graphs to train on, the smallest."""
    test_percent: float = setting(10.0, "data")
    """Share of the graphs to test on, the largest."""

    def load(self) -> "Data":
        """Reads the data: the smallest graphs and the largest."""
        from .run.data import Data

        graphs = self.graphs()
        ids = datasets.size_shift_ids(graphs.n_node, self.train_percent, self.test_percent)
        return Data(
            {name: jattn_graphs.select_graphs(graphs, chosen) for name, chosen in ids.items()},
            outputs=class_count(graphs),
            draw=lambda *arguments: draw_small(np.arange(len(ids["test"])), *arguments),
        )


@dataclass(frozen=True)
class SizeShift(TunableSettings):
    """Settings of the benchmark on a data set."""

    data: SizeShiftData = SizeShiftData()
    attention: TUAttention = TUAttention()

    def load(self) -> "Data":
        """Reads the data: the smallest graphs and the largest."""
        return self.data.load()


def presets(dataset: str) -> dict[str, SizeShift]:
    """The presets for a data set: those of the experiment on the TU collection, and DiffPool."""
    found = presets_of(SizeShift(), dataset)
    return {**found, "diffpool": with_changes(found["global"], clusters=25)}


def experiment(dataset: str) -> Experiment:
    """The experiment on a data set, by name or path."""
    return Experiment(
        "size_shift",
        __doc__ or "",
        presets(dataset),
        {},
        SizeShift.load,
        task="classification",
        folder_name=Path(dataset).stem.lower(),
        details=("matthews_correlation", "balanced_accuracy", "majority_accuracy", "nodes_kept", "graphs_emptied"),
        choose=choose,
    )


def experiment_of(arguments: Sequence[str]) -> Experiment:
    """The experiment on the data set that a command line names, whose presets are those of that data set."""
    return experiment(named_dataset(arguments, "size_shift"))


def main(arguments: Sequence[str]) -> None:
    """Runs the experiment that a command line asks for."""
    experiment_of(arguments).main(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
