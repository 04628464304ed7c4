"""Our networks in PyTorch Geometric, their training and their leave-one-out attribution.

They are the same functions: with the same weights, both libraries give the same predictions, losses and gradients. Like
ours, a layer has one product with its weights, and Adam is fused. A sum over neighbors is a product with a CSR matrix,
which on graphs of 300 nodes takes a quarter of the time of PyG's message passing. PyG takes dropped nodes out of a
batch, where we mask them. It trains one network at a time.

MNIST-75sp is left out: its graphs are complete, and PyG has sparse sums only.
"""

import itertools
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jraph import GraphsTuple
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool
from torch_geometric.utils import degree, scatter, spmm, subgraph, to_torch_csr_tensor

from benchmarks.workloads import BATCH, Workload
from jattn import AttentionPoolingConfig, Network, Threshold, TrainConfig

warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
READOUTS = {"sum": global_add_pool, "mean": global_mean_pool, "max": global_max_pool}


class Edges(NamedTuple):
    """Which nodes are joined.

    Attributes:
      ends: senders and receivers, [2, edges].
      degrees: [nodes, 1].
      laplacian: -D^{-1/2} A D^{-1/2}, [nodes, nodes].
    """

    ends: Any
    degrees: Any
    laplacian: Any


def join(ends: Any, nodes: int) -> Edges:
    """The edges with these ends between so many nodes."""
    degrees = degree(ends[1], nodes)
    scale = (degrees + 1e-5).rsqrt()
    # Both directions of an edge are listed, so that it does not matter which end is the row.
    laplacian = to_torch_csr_tensor(ends, -scale[ends[0]] * scale[ends[1]], size=(nodes, nodes))
    return Edges(ends, degrees[:, None], laplacian)


class Nodes(NamedTuple):
    """What enters a layer.

    Attributes:
      x: features, [nodes, features].
      previous: those that entered the layer before, [nodes, previous_features].
      target: target attention, [nodes]; None without an attention loss.
      graph_of: the graph of each node, [nodes].
      edges: the edges between them.
    """

    x: Any
    previous: Any
    target: Any
    graph_of: Any
    edges: Edges


class ChebyGINConv(torch.nn.Module):
    """`jattn.ChebyGINConv` of order 2 and more."""

    def __init__(self, inputs: int, features: int, network: Network, order: int, hidden: int | None = None) -> None:
        super().__init__()
        self.order, self.aggregation = order, network.aggregation
        widths = [inputs * order, *([hidden] if hidden else []), features]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in itertools.pairwise(widths))

    def forward(self, x: Any, edges: Edges) -> Any:
        """The features before the activation, [nodes, features]."""
        terms = [x, spmm(edges.laplacian, x)]
        for _ in range(2, self.order):
            terms.append(2 * spmm(edges.laplacian, terms[-1]) - terms[-2])
        if self.aggregation == "sum":
            terms[1:] = [edges.degrees * term for term in terms[1:]]
        x = self.layers[0](torch.cat(terms, 1))
        for layer in self.layers[1:]:
            x = layer(x.relu())
        return x


class AttentionPooling(torch.nn.Module):
    """`jattn.AttentionPooling` with a threshold, and a scorer that is linear or a graph network."""

    def __init__(self, inputs: int, network: Network, config: AttentionPoolingConfig) -> None:
        super().__init__()
        assert isinstance(config.select, Threshold)
        scorer, self.config, self.threshold = config.scorer, config, config.select.tau
        widths = [inputs, *[scorer.filters] * (scorer.layers - 1), 1]
        layers = [ChebyGINConv(*pair, network, min(network.order, 2)) for pair in itertools.pairwise(widths)]
        linear = torch.nn.Linear(inputs, 1, bias=False)
        self.scorer = torch.nn.ModuleList([linear] if scorer.kind == "linear" else layers)

    def forward(self, nodes: Nodes, graphs: int) -> tuple[Nodes, Any]:
        """The kept nodes, and the attention loss, 0 without a target."""
        x = nodes.x if self.config.score_from == "current" else nodes.previous
        if self.config.scorer.kind == "linear":
            x = self.scorer[0](x)
        else:
            for layer in self.scorer[:-1]:
                x = layer(x, nodes.edges).relu()
            x = self.scorer[-1](x, nodes.edges)
        alpha = normalized(x[:, 0].clamp(-60, 60).exp(), nodes.graph_of, graphs)
        loss, target = 0, nodes.target
        keep = alpha > self.threshold
        ends, _ = subgraph(keep, nodes.edges.ends, relabel_nodes=True, num_nodes=len(keep))
        x = (alpha[:, None] * nodes.x)[keep]
        if target is not None:
            loss, target = attention_loss(alpha, target, nodes.graph_of, graphs), target[keep]
        return Nodes(x, nodes.previous[keep], target, nodes.graph_of[keep], join(ends, len(x))), loss


def attention_loss(alpha: Any, target: Any, graph_of: Any, graphs: int) -> Any:
    """`jattn.attention_loss`."""
    target = normalized(target, graph_of, graphs)
    divergence = torch.special.xlogy(target, target) - torch.special.xlogy(target, alpha + 1e-14)
    return (scatter(divergence, graph_of, dim_size=graphs) / (degree(graph_of, graphs) + 1e-7)).mean()


def normalized(x: Any, graph_of: Any, graphs: int) -> Any:
    """Numbers of nodes divided by the sum over their graph and the offset 1e-7."""
    return x / (scatter(x, graph_of, dim_size=graphs) + 1e-7)[graph_of]


class Peer(torch.nn.Module):
    """The function of a `Network`; `supervised` if its attention has a loss."""

    def __init__(self, network: Network, features: int, supervised: bool = False) -> None:
        super().__init__()
        self.supervised = supervised
        self.poolings, self.convolutions = torch.nn.ModuleDict(), torch.nn.ModuleList()
        self.readout, previous = READOUTS[network.readout], features
        for i, filters in enumerate(network.filters):
            pooling = network.poolings[i] if i < len(network.poolings) else None
            if isinstance(pooling, AttentionPoolingConfig):
                inputs = features if pooling.score_from == "current" else previous
                self.poolings[str(i)] = AttentionPooling(inputs, network, pooling)
            self.convolutions.append(ChebyGINConv(features, filters, network, network.order, network.hidden))
            previous, features = features, filters
        self.output = torch.nn.Linear(features, network.outputs)

    def forward(self, batch: Any) -> tuple[Any, list[Any], int]:
        """Outputs [graphs, outputs], the attention loss of each pooling, and how many nodes were kept."""
        x, losses = batch.x, []
        target = batch.attention if self.supervised else None
        nodes = Nodes(x, x, target, batch.batch, join(batch.edge_index, len(x)))
        for i, convolution in enumerate(self.convolutions):
            if str(i) in self.poolings:
                nodes, loss = self.poolings[str(i)](nodes, batch.num_graphs)
                losses.append(loss)
            nodes = nodes._replace(x=convolution(nodes.x, nodes.edges).relu(), previous=nodes.x)
        return self.output(self.readout(nodes.x, nodes.graph_of, batch.num_graphs)), losses, len(nodes.x)


def training(workload: Workload) -> Iterator[float]:
    """Trains without end: each epoch's share of nodes kept."""
    torch.manual_seed(0)
    data, config = as_data(workload.graphs), workload.config
    model = Peer(workload.network, data[0].num_features, config.attention_weight > 0)
    rate, decay = config.learning_rate, config.weight_decay
    # One fused update of all weights takes up to a tenth off an epoch. A worker that collates ahead would add to it.
    optimizer = torch.optim.Adam(model.parameters(), rate, betas=(0.5, 0.999), weight_decay=decay, fused=True)
    loader = DataLoader(data, BATCH, shuffle=True)
    while True:
        kept = 0
        for batch in loader:
            optimizer.zero_grad()
            loss, nodes = total_loss(model, batch, config)
            loss.backward()
            optimizer.step()
            kept += nodes
        yield kept / len(workload.graphs.nodes["features"])


def total_loss(model: Peer, batch: Any, config: TrainConfig) -> tuple[Any, int]:
    """The loss of a batch, and how many nodes were kept."""
    prediction, attention_losses, nodes = model(batch)
    if config.task == "regression":
        loss = torch.nn.functional.mse_loss(prediction[:, 0], batch.y.float())
    else:
        loss = torch.nn.functional.cross_entropy(prediction, batch.y)
    return loss + config.attention_weight * sum(attention_losses), nodes


@torch.no_grad()
def leave_one_out(workload: Workload) -> Iterator[float]:
    """Predicts each graph with its copies, another node missing from each; yields 1 after all graphs, without end."""
    torch.manual_seed(0)
    data = as_data(workload.graphs)
    model = Peer(workload.teacher, data[0].num_features)
    while True:
        for graph in data:
            prediction, _, _ = model(with_each_node_left_out(graph))
            (prediction[1:] - prediction[:1]).abs()
        yield 1.0


class Copies(NamedTuple):
    """What `Peer` reads of a batch."""

    x: Any
    edge_index: Any
    batch: Any
    num_graphs: int


def with_each_node_left_out(graph: Any) -> Copies:
    """A graph and its copies without one node each, all at once: `subgraph` for each takes several times as long."""
    nodes = graph.num_nodes
    keep = torch.ones(nodes + 1, nodes, dtype=torch.bool)
    keep[1:].fill_diagonal_(False)
    graph_of, node = keep.nonzero(as_tuple=True)
    row = (keep.view(-1).cumsum(0) - 1).view(keep.shape)
    senders, receivers = graph.edge_index
    kept = keep[:, senders] & keep[:, receivers]
    ends = torch.stack([row[:, senders][kept], row[:, receivers][kept]])
    return Copies(graph.x[node], ends, graph_of, nodes + 1)


def as_data(graphs: GraphsTuple) -> list[Any]:
    """The graphs as PyG's."""
    # Not jraph.unbatch_np, which counts senders and receivers anew in the arrays that it was given.
    nodes, edges = np.cumsum(graphs.n_node)[:-1], np.cumsum(graphs.n_edge)[:-1]
    first = np.repeat(np.cumsum(graphs.n_node) - graphs.n_node, graphs.n_edge)
    features = np.split(np.asarray(graphs.nodes["features"]).astype(np.float32), nodes)
    attention = np.split(np.asarray(graphs.nodes["attention"]).astype(np.float32), nodes)
    ends = np.split(np.stack([graphs.senders, graphs.receivers]).astype(np.int64) - first, edges, axis=1)
    labels = graphs.globals["label"].astype(np.int64)[:, None]
    return [
        Data(**{name: torch.tensor(value) for name, value in parts.items()})
        for parts in (
            {"x": x, "attention": alpha, "edge_index": edge_index, "y": label}
            for x, alpha, edge_index, label in zip(features, attention, ends, labels, strict=True)
        )
    ]
