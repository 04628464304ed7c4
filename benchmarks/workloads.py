"""What is measured: graphs, and the networks that the experiments train on them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jraph import GraphsTuple

from benchmarks.sparse_graphs import graphs_in_space, random_graphs
from experiments import colors, mnist75sp, triangles
from experiments.run.groups import with_changes
from experiments.run.settings import Settings
from jattn import Network, TrainConfig, datasets
from jattn.types import Task

BATCH = 32

# The paper's model of D&D, with attention by a projection.
SPARSE = with_changes(
    Settings(),
    attention="unsupervised",
    threshold=0.002,
    pool_before=(2,),
    score_from="current",
    init="default",
    filters=(64, 64, 64),
    order=3,
    readout="max",
    compact=True,
)


@dataclass(frozen=True)
class Workload:
    """What is trained.

    Attributes:
      graphs: the host-side training split.
      network: our network; `benchmarks.pyg.Peer` makes PyG's of it.
      config: how both are trained.
      teacher: the network whose leave-one-out attribution is computed, without pooling.
      teacher_config: how it is trained.
    """

    graphs: GraphsTuple
    network: Network
    config: TrainConfig
    teacher: Network
    teacher_config: TrainConfig

    @property
    def task(self) -> Task:
        """What is predicted."""
        return self.config.task


@dataclass(frozen=True)
class Source:
    """Makes a workload.

    Attributes:
      name: as it is printed.
      settings: of the experiment whose networks it has.
      read: (number of graphs, folder of published data) -> that many graphs.
      task: what is predicted.
      outputs: outputs per graph.
    """

    name: str
    settings: Settings
    read: Callable[[int, Path | None], GraphsTuple]
    task: Task
    outputs: int

    def workload(self, graphs: int, data_dir: Path | None = None) -> Workload:
        """The workload with so many graphs."""
        settings, task = self.settings, self.task
        networks = settings.network(self.outputs), settings.training(task)
        teachers = settings.teacher(self.outputs), settings.teacher_training(task)
        return Workload(self.read(graphs, data_dir), *networks, *teachers)


def _colors(graphs: int, data_dir: Path | None) -> GraphsTuple:
    return datasets.generate_colors(train=graphs, validation=1, test=1)["train"]


def _triangles(graphs: int, data_dir: Path | None) -> GraphsTuple:
    return datasets.generate_triangles(train=graphs, validation=0, test=0)["train"]


def _mnist75sp(graphs: int, data_dir: Path | None) -> GraphsTuple:
    return datasets.mnist75sp(data_dir, train_images=graphs).splits["train"]


def sparse_source(nodes: int, in_space: bool = False) -> Source:
    """Sparse graphs of so many nodes with 5 neighbors on average: random ones, or points in a cube that are near."""
    kind, make = ("in space", graphs_in_space) if in_space else ("random", random_graphs)
    read = partial(_sparse, make, nodes)
    # Where attention begins, near 1 / nodes, graphs of every size keep all of their nodes, as those of 300 do.
    settings = with_changes(SPARSE, threshold=300 * SPARSE.attention.threshold / nodes)
    return Source(f"{nodes} nodes, {kind}", settings, read, "classification", 2)


def _sparse(make: Callable[[int, int], GraphsTuple], nodes: int, graphs: int, data_dir: Path | None) -> GraphsTuple:
    return make(graphs, nodes)


SOURCES = {
    "colors": Source("COLORS", colors.SUPERVISED, _colors, "regression", 1),
    "triangles": Source("TRIANGLES", triangles.SUPERVISED, _triangles, "regression", 1),
    "mnist75sp": Source("MNIST-75sp", mnist75sp.SUPERVISED, _mnist75sp, "classification", 10),
    "sparse": sparse_source(300),
}
