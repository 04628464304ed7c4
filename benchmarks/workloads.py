"""What `benchmarks.against_pyg` trains: graphs, and our network for them."""

from collections.abc import Callable
from dataclasses import dataclass

from jraph import GraphsTuple

from benchmarks.sparse_graphs import random_graphs
from jattn import AttentionPoolingConfig, Network, ScorerConfig, Threshold, TrainConfig
from jattn.datasets import generate_triangles

BATCH = 32
NODES = 300  # of a sparse graph


@dataclass(frozen=True)
class Workload:
    """What is trained.

    Attributes:
      name: as it is printed.
      graphs: the host-side training split.
      network: our network; `benchmarks.pyg.Peer` makes PyG's of it.
      config: how ours is trained, and PyG's but for attention.
    """

    name: str
    graphs: GraphsTuple
    network: Network
    config: TrainConfig


def triangles(graphs: int) -> Workload:
    """Small graphs of 4 to 25 nodes: the paper's supervised model of TRIANGLES."""
    pooling = AttentionPoolingConfig(Threshold(0.001), ScorerConfig("gnn", filters=32, layers=3), score_from="current")
    poolings = (None, pooling, pooling)
    network = Network((64, 64, 64), order=7, aggregation="sum", hidden=64, readout="max", poolings=poolings)
    data = generate_triangles(train=graphs, validation=0, test=0)["train"]
    return Workload("TRIANGLES", data, network, TrainConfig("regression", attention_weight=100.0))


def sparse(graphs: int) -> Workload:
    """Random graphs of 300 nodes with 5 neighbors each, of two classes: whether the first color is frequent."""
    pooling = AttentionPoolingConfig(Threshold(0.002), score_from="current")
    network = Network((64, 64, 64), order=3, readout="max", outputs=2, poolings=(None, None, pooling))
    data = random_graphs(graphs, NODES)
    return Workload(f"sparse, {NODES} nodes", data, network, TrainConfig("classification"))


WORKLOADS: dict[str, Callable[[int], Workload]] = {"triangles": triangles, "sparse": sparse}
