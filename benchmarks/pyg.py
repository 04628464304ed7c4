"""The nearest models that PyTorch Geometric has for ours, and their training."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jraph import GraphsTuple
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import ChebConv, TopKPooling, global_max_pool

from benchmarks.workloads import BATCH, Workload
from jattn import AttentionPoolingConfig, Network, Threshold


class Peer(torch.nn.Module):
    """The nearest model that PyG has for a `Network` with a linear scorer and the maximum as readout."""

    def __init__(self, network: Network, features: int) -> None:
        super().__init__()
        self.poolings = torch.nn.ModuleDict()
        self.convolutions, self.updates = torch.nn.ModuleList(), torch.nn.ModuleList()
        for i, filters in enumerate(network.filters):
            pooling = network.poolings[i]
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
        return self.output(global_max_pool(x, graph_of, batch.num_graphs)), len(x)


def epochs(workload: Workload, threads: int = 0) -> Iterator[tuple[float, float]]:
    """Trains without end: each epoch's loss and share of nodes kept.

    Args:
      workload: what is trained.
      threads: torch's, as many as it takes by itself where 0.
    """
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(0)
    data, config = as_data(workload.graphs), workload.config
    model = Peer(workload.network, data[0].num_features)
    rate, decay = config.learning_rate, config.weight_decay
    # One fused update of all weights takes up to a tenth off an epoch. A worker that collates ahead would add to it.
    optimizer = torch.optim.Adam(model.parameters(), rate, betas=(0.5, 0.999), weight_decay=decay, fused=True)
    loader = DataLoader(data, BATCH, shuffle=True)
    while True:
        total = kept = 0.0
        for batch in loader:
            optimizer.zero_grad()
            prediction, nodes = model(batch)
            if config.task == "regression":
                loss = torch.nn.functional.mse_loss(prediction[:, 0], batch.y.float())
            else:
                loss = torch.nn.functional.cross_entropy(prediction, batch.y)
            loss.backward()
            optimizer.step()
            total += loss.item() * batch.num_graphs
            kept += nodes
        yield total / len(data), kept / len(workload.graphs.nodes["features"])


def as_data(graphs: GraphsTuple) -> list[Any]:
    """The graphs as PyG's."""
    # Not jraph.unbatch_np, which counts senders and receivers anew in the arrays that it was given.
    nodes, edges = np.cumsum(graphs.n_node)[:-1], np.cumsum(graphs.n_edge)[:-1]
    first = np.repeat(np.cumsum(graphs.n_node) - graphs.n_node, graphs.n_edge)
    features = np.split(graphs.nodes["features"].astype(np.float32), nodes)
    ends = np.split(np.stack([graphs.senders, graphs.receivers]).astype(np.int64) - first, edges, axis=1)
    labels = graphs.globals["label"].astype(np.int64)[:, None]
    return [
        Data(x=torch.tensor(x), edge_index=torch.tensor(edge_index), y=torch.tensor(y))
        for x, edge_index, y in zip(features, ends, labels, strict=True)
    ]
