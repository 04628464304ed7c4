"""The nearest models that PyTorch Geometric has for ours, their training and their leave-one-out attribution.

A model is ChebConv, TopKPooling with `min_score` and a readout over nodes, with as many weights in its convolutions as
ours, the same optimizer and as many graphs a step. On the sparse graphs it is the same function as ours; where the two
differ, PyG's has less to do:

- TRIANGLES: it computes attention by one projection, ours by a graph network of three convolutions; it has no
  attention loss, ours has one at both poolings; it has no sum aggregation, a product of the Chebyshev terms with the
  degree. So it is what PyG offers its users, not a model that learns the same. COLORS: no attention loss either.
- It takes dropped nodes and their edges out of a batch, ours masks them: the more it drops, the less it has to do. It
  keeps at least one node of every graph.

It has no rule for weights by proximity, as MNIST-75sp has them, and trains one network at a time.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jraph import GraphsTuple
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import ChebConv, TopKPooling, global_add_pool, global_max_pool, global_mean_pool

from benchmarks.workloads import BATCH, Workload
from jattn import AttentionPoolingConfig, Network, Threshold

READOUTS = {"sum": global_add_pool, "mean": global_mean_pool, "max": global_max_pool}


class Peer(torch.nn.Module):
    """The nearest model that PyG has for a `Network`."""

    def __init__(self, network: Network, features: int) -> None:
        super().__init__()
        self.poolings = torch.nn.ModuleDict()
        self.convolutions, self.updates = torch.nn.ModuleList(), torch.nn.ModuleList()
        self.readout = READOUTS[network.readout]
        for i, filters in enumerate(network.filters):
            pooling = network.poolings[i] if i < len(network.poolings) else None
            if isinstance(pooling, AttentionPoolingConfig):
                assert isinstance(pooling.select, Threshold)
                self.poolings[str(i)] = TopKPooling(features, min_score=pooling.select.tau)
            self.convolutions.append(ChebConv(features, network.hidden or filters, network.order))
            mlp = [torch.nn.ReLU(), torch.nn.Linear(network.hidden, filters)] if network.hidden else []
            self.updates.append(torch.nn.Sequential(*mlp, torch.nn.ReLU()))
            features = filters
        self.output = torch.nn.Linear(features, network.outputs)

    def forward(self, batch: Any) -> tuple[Any, int]:
        """Outputs, [graphs, outputs], and how many nodes were kept."""
        x, edge_index, graph_of = batch.x, batch.edge_index, batch.batch
        for i, (convolution, update) in enumerate(zip(self.convolutions, self.updates, strict=True)):
            if str(i) in self.poolings:
                x, edge_index, _, graph_of, _, _ = self.poolings[str(i)](x, edge_index, batch=graph_of)
            x = update(convolution(x, edge_index))
        return self.output(self.readout(x, graph_of, batch.num_graphs)), len(x)


def training(workload: Workload) -> Iterator[float]:
    """Trains without end: each epoch's share of nodes kept."""
    torch.manual_seed(0)
    data, config = as_data(workload.graphs), workload.config
    model = Peer(workload.network, data[0].num_features)
    rate, decay = config.learning_rate, config.weight_decay
    # One fused update of all weights takes up to a tenth off an epoch. A worker that collates ahead would add to it.
    optimizer = torch.optim.Adam(model.parameters(), rate, betas=(0.5, 0.999), weight_decay=decay, fused=True)
    loader = DataLoader(data, BATCH, shuffle=True)
    while True:
        kept = 0
        for batch in loader:
            optimizer.zero_grad()
            prediction, nodes = model(batch)
            if config.task == "regression":
                loss = torch.nn.functional.mse_loss(prediction[:, 0], batch.y.float())
            else:
                loss = torch.nn.functional.cross_entropy(prediction, batch.y)
            loss.backward()
            optimizer.step()
            kept += nodes
        yield kept / len(workload.graphs.nodes["features"])


@torch.no_grad()
def leave_one_out(workload: Workload) -> Iterator[float]:
    """Predicts each graph with its copies, another node missing from each; yields 1 after all graphs, without end."""
    torch.manual_seed(0)
    data = as_data(workload.graphs)
    model = Peer(workload.teacher, data[0].num_features)
    while True:
        for graph in data:
            keep = ~torch.eye(graph.num_nodes, dtype=torch.bool)
            copies = Batch.from_data_list([graph, *(graph.subgraph(mask) for mask in keep)])
            prediction, _ = model(copies)
            (prediction[1:] - prediction[:1]).abs()
        yield 1.0


def as_data(graphs: GraphsTuple) -> list[Any]:
    """The graphs as PyG's."""
    # Not jraph.unbatch_np, which counts senders and receivers anew in the arrays that it was given.
    nodes, edges = np.cumsum(graphs.n_node)[:-1], np.cumsum(graphs.n_edge)[:-1]
    first = np.repeat(np.cumsum(graphs.n_node) - graphs.n_node, graphs.n_edge)
    features = np.split(np.asarray(graphs.nodes["features"]).astype(np.float32), nodes)
    ends = np.split(np.stack([graphs.senders, graphs.receivers]).astype(np.int64) - first, edges, axis=1)
    labels = graphs.globals["label"].astype(np.int64)[:, None]
    return [
        Data(x=torch.tensor(x), edge_index=torch.tensor(edge_index), y=torch.tensor(label))
        for x, edge_index, label in zip(features, ends, labels, strict=True)
    ]
