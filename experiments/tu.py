"""TU collection: classify graphs, training on small ones and testing on the rest, which are larger.

    python -m experiments.tu --dataset PROTEINS                  weakly supervised attention, 10 seeds
    python -m experiments.tu unsupervised --dataset COLLAB       another preset, another data set
    python -m experiments.tu --dataset DD-200 --data-seeds 10    the paper's 10 draws of training graphs x 10 seeds
    python -m experiments.tu --dataset DIR/NAME.zip --max-nodes 30 your own graphs, in the collection's format
    python -m experiments.tu --dataset PROTEINS --tune 20        threshold, beta and scorer chosen beforehand

Without --data-dir data sets are downloaded; once read they are kept as arrays. On 2 CPU cores with other work on them,
`--dataset PROTEINS --data-seeds 3 --seeds 5` took 44 s, compilation included, and reaches 75.9 % (always predicting the
largest class: 74.8 %); `unsupervised --dataset COLLAB` with the same took 4 minutes and reaches 65.8 %.

Knyazev et al. 2019, Table 2.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from jaxtyping import Int

from jattn import datasets, graphs
from jattn._options import expect_at_least, setting

from .run.attention_settings import AttentionSettings
from .run.command import Experiment
from .run.groups import with_changes
from .run.paper_scores import paper_scores
from .run.paths import local_path
from .run.presets import ROBUST
from .run.program import program
from .run.settings import DataSettings, Settings
from .run.tunable import Tunable, TunableSettings

if TYPE_CHECKING:  # a command line is read without what a run needs
    from jraph import GraphsTuple

    from jattn.training import Predictions

    from .run.data import Data
    from .run.results import Tuned
    from .run.stages import StageTrainer

Configured = TypeVar("Configured", bound=Settings)

DRAWN, LARGEST_DRAWN = 5, 300  # test graphs that a run draws, and the most nodes that they have


@dataclass(frozen=True)
class CollectionData(DataSettings):
    """A data set of the collection, or one in its format."""

    data_dir: Path | None = setting(None, "location")
    """Folder that has the data set, zipped or not; by default it is downloaded."""
    dataset: str = setting("PROTEINS", "data")
    """A name in the TU collection, or the path of a zip or folder in its format. PROTEINS, COLLAB, DD-200 and DD-300
    (D&D with training graphs of up to 200 or 300 nodes; DD is the latter) have the paper's settings."""
    attributes: bool = setting(False, "data")
    """Use node attributes beside node labels or degrees, each standardised over all nodes."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        super().validate()
        if self.dataset.startswith("~"):
            object.__setattr__(self, "dataset", str(local_path("dataset", Path(self.dataset))))

    def graphs(self) -> "GraphsTuple":
        """Reads all graphs of the data set."""
        source = datasets.tu_data(SOURCES.get(self.dataset, self.dataset), self.data_dir)
        return datasets.tu_graphs(source, self.attributes)


@dataclass(frozen=True)
class TUData(CollectionData):
    """The data set and its draws of training graphs."""

    max_nodes: int | None = setting(None, "data")
    """Most nodes of a training graph; None for the median of all graphs."""
    train_graphs: int = setting(500, "data")
    """Most graphs to train on, drawn from those that are small enough; all others are test graphs."""
    data_seeds: int = setting(1, "data", of_preset=False)
    """Draws of training graphs, with --seeds networks for each. Scores are over all of them."""
    data_seed: int = setting(0, "data", of_preset=False)
    """Seed of the first draw; the others follow it."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        super().validate()
        expect_at_least(1, max_nodes=self.max_nodes, train_graphs=self.train_graphs, data_seeds=self.data_seeds)
        expect_at_least(0, data_seed=self.data_seed)

    def load(self) -> "Data":
        """Reads the data: training graphs of all draws, and test graphs of all draws."""
        from .run.data import Data

        collection = self.graphs()
        n_node = collection.n_node
        max_nodes = self.max_nodes if self.max_nodes is not None else int(np.median(n_node))
        try:
            draws = [
                datasets.size_split_ids(n_node, max_nodes, self.train_graphs, seed)
                for seed in range(self.data_seed, self.data_seed + self.data_seeds)
            ]
        except ValueError as error:
            raise ValueError(str(error).replace("max_train_graphs", "train_graphs")) from error
        ids = {name: np.unique(np.concatenate([draw[name] for draw in draws])) for name in ("train", "test")}
        train_ids, test_ids = ([np.searchsorted(ids[name], draw[name]) for draw in draws] for name in ids)
        return Data(
            {name: graphs.select_graphs(collection, chosen) for name, chosen in ids.items()},
            outputs=class_count(collection),
            draw=lambda *arguments: draw_small(test_ids[0], *arguments),
            train_ids=train_ids,
            test_ids=test_ids,
        )


def class_count(graphs: "GraphsTuple") -> int:
    """Returns the number of classes of graphs."""
    return int(graphs.globals["label"].max()) + 1


@dataclass(frozen=True)
class TUAttention(AttentionSettings):
    """Pooling and the attention that it goes by; there is no true attention."""

    attention: Literal["none", "unsupervised", "weak"] = setting("weak", "training")
    """Supervision of attention. none: global pooling, or DiffPool with --clusters. weak: by a teacher's leave-one-out
    attribution."""
    init: Literal["normal", "uniform", "default"] = setting("default", "training")
    """Distribution of the scorer's initial weights; default: uniform, within 1 / sqrt(inputs)."""


@dataclass(frozen=True)
class TU(TunableSettings):
    """Settings of a data set of the TU collection."""

    data: TUData = TUData()
    attention: TUAttention = TUAttention()

    def validate(self) -> None:
        """Raises `ValueError` if groups contradict each other."""
        super().validate()
        if self.tuning.tune and self.data.data_seeds > 1:
            raise ValueError(
                f"data_seeds: {self.data.data_seeds} is not allowed with --tune, expected 1: "
                "a study would train on graphs that another draw tests"
            )

    def load(self) -> "Data":
        """Reads the data: training graphs of all draws, and test graphs of all draws."""
        return self.data.load()


def draw_small(
    test_ids: Int[np.ndarray, " chosen"], subsets: "Mapping[str, GraphsTuple]", predictions: "Predictions", path: Path
) -> None:
    """Draws the first network's attention on some of its test graphs: small ones of which nodes are kept."""
    from .run.data import draw_examples

    n_node = subsets["test"].n_node
    node_graph = np.repeat(np.arange(len(n_node)), n_node)
    keeps_nodes = np.bincount(node_graph, np.asarray(predictions.node_masks[0][0]), len(n_node)) > 0
    small = n_node <= max(LARGEST_DRAWN, np.sort(n_node[test_ids])[:DRAWN][-1])
    among = np.isin(np.arange(len(n_node)), test_ids) & small
    draw_examples(subsets, predictions, path, among & keeps_nodes if (among & keeps_nodes).any() else among, DRAWN)


SOURCES = {"DD-200": "DD", "DD-300": "DD"}  # names in the collection
COMMON: dict[str, Any] = {
    "pool_before": (2,),
    "scorer": "mlp",
    "threshold": 0.002,
    "attention_weight": 1.0,
    "label_threshold": 1e-3,
    "filters": (64, 64, 64),
    "order": 3,
    "readout": "max",
    "compact": True,
    "dropout": 0.1,
    "epochs": 50,
    "decay_epochs": (25, 35, 45),
    "teacher_epochs": 50,
    "teacher_decay_epochs": (25, 35, 45),
}
PROTEINS: dict[str, Any] = {"order": 1, "scorer": "linear", "threshold": 0.1, "attention_weight": 10.0}
COLLAB: dict[str, Any] = {"threshold": 0.002, "attention_weight": 0.5}
DD_200: dict[str, Any] = {"threshold": 0.005, "attention_weight": 10.0}
DD_300: dict[str, Any] = {"threshold": 0.01, "attention_weight": 0.1}
DATASETS = {"PROTEINS": PROTEINS, "COLLAB": COLLAB, "DD-200": DD_200, "DD-300": DD_300, "DD": DD_300}
MAX_NODES = {"PROTEINS": 25, "COLLAB": 35, "DD-200": 200, "DD-300": 300, "DD": 300}


def presets(dataset: str) -> dict[str, TU]:
    """The presets for a data set, with the paper's settings if it has some."""
    found = presets_of(with_changes(TU(), max_nodes=MAX_NODES.get(dataset)), dataset)
    if dataset == "DD-200":  # its class follows the size of a graph, which the maximum does not keep
        found["robust"] = with_changes(found["robust"], readout="log_sum")
    return found


def presets_of(default: Configured, dataset: str) -> dict[str, Configured]:
    """The presets for a data set, with the paper's settings of network and attention if it has some."""
    weak = with_changes(default, dataset=dataset, **{**COMMON, **DATASETS.get(dataset, {})})
    unsupervised = with_changes(weak, attention="unsupervised")
    if dataset == "PROTEINS":
        unsupervised = with_changes(unsupervised, threshold=0.0001)
    # A threshold and features that depend on the number of nodes empty most graphs that are larger than in training.
    robust = with_changes(weak, **ROBUST, relative=True, threshold=0.1, label_threshold=0.0)
    without = with_changes(weak, attention="none")
    return {"weak": weak, "robust": robust, "unsupervised": unsupervised, "global": without}


# Names in the paper's Table 2; DD has the split of DD-300.
IN_PAPER = {
    "COLLAB": "COLLAB-35",
    "PROTEINS": "PROTEINS-25",
    "DD-200": "D&D-200",
    "DD-300": "D&D-300",
    "DD": "D&D-300",
}


def experiment(dataset: str) -> Experiment:
    """The experiment on a data set, by name or path."""
    return Experiment(
        "tu",
        __doc__ or "",
        presets(dataset),
        paper_scores(IN_PAPER.get(dataset, "")),
        TU.load,
        task="classification",
        folder_name=Path(dataset).stem.lower(),
        details=("balanced_accuracy", "majority_accuracy", "nodes_kept", "graphs_emptied"),
        choose=choose,
    )


def choose(settings: Tunable, stages: "StageTrainer", outputs: int) -> "tuple[Tunable, Tuned | None]":
    """The best settings that a study finds; unchanged if there is no study."""
    from .run.tuning import tune

    return tune(settings, stages, outputs)


def experiment_of(arguments: Sequence[str]) -> Experiment:
    """The experiment on the data set that a command line names, whose presets are those of that data set."""
    return experiment(named_dataset(arguments, "tu"))


def named_dataset(arguments: Sequence[str], name: str) -> str:
    """The data set that an experiment's command line names, before anything else of it is read."""
    parser = argparse.ArgumentParser(prog=program(name), add_help=False, allow_abbrev=False)
    parser.add_argument("--dataset", default=CollectionData().dataset)
    return parser.parse_known_args(arguments)[0].dataset


def main(arguments: Sequence[str]) -> None:
    """Runs the experiment that a command line asks for."""
    experiment_of(arguments).main(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
