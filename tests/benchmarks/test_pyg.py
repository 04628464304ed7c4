"""PyTorch Geometric's side of the benchmark computes the same functions as ours. Skipped where it is not installed."""

import jax
import numpy as np
import pytest

from benchmarks.workloads import SOURCES
from jattn import attention_loss, pad, sparse_topology, task_loss

NOT_INSTALLED = "PyTorch Geometric is not installed; see benchmarks/requirements.txt"
torch = pytest.importorskip("torch", reason=NOT_INSTALLED)
pytest.importorskip("torch_geometric", reason=NOT_INSTALLED)
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own


def layers_of(model, params):
    """The linear layers of PyG's model, each with our tree of its kernel and bias."""
    yield model.output, params["output"]
    for i, convolution in enumerate(model.convolutions):
        yield from zip(convolution.layers[::-1], map(params[f"conv_{i}"].get, ("linear", "hidden_layer")), strict=False)
    for i, pooling in model.poolings.items():
        scorer = params[f"pool_{i}"]["scorer"]
        for j, layer in enumerate(pooling.scorer):
            if isinstance(layer, torch.nn.Linear):
                yield layer, scorer["projection"]
            else:
                yield layer.layers[0], scorer[f"ChebyGINConv_{j}"]["linear"]


def as_weight(kernel):
    """Our kernel [in, out] or [in, order, out] as torch's weight [out, order * in]."""
    kernel = np.asarray(kernel)
    return np.moveaxis(kernel, 0, -2).reshape(-1, kernel.shape[-1]).T.copy()


@pytest.mark.parametrize("workload", ["colors", "triangles", "sparse"])
def test_predictions_losses_and_gradients_are_ours(workload):
    from torch_geometric.data import Batch

    from benchmarks import pyg

    made = SOURCES[workload].workload(4)
    graph = jax.device_put(pad(made.graphs))
    topology, config = sparse_topology(graph), made.config
    params = made.network.init(jax.random.key(0), graph)["params"]

    def loss_of(params):
        output = made.network.apply({"params": params}, graph, topology)
        loss = task_loss(output.prediction, graph.globals["label"], topology.graph_mask, config.task)
        for pooled in output.poolings if config.attention_weight else ():
            loss += config.attention_weight * attention_loss(pooled, graph.nodes["attention"], topology)
        return loss, output

    (loss, output), gradient = jax.jit(jax.value_and_grad(loss_of, has_aux=True))(params)
    model = pyg.Peer(made.network, graph.nodes["features"].shape[1], config.attention_weight > 0)
    batch = Batch.from_data_list(pyg.as_data(made.graphs))
    copied = 0
    with torch.no_grad():
        for layer, weights in layers_of(model, params):
            layer.weight.copy_(torch.tensor(as_weight(weights["kernel"])))
            copied += layer.weight.numel()
            if layer.bias is not None:
                layer.bias.copy_(torch.tensor(np.asarray(weights["bias"])))
                copied += layer.bias.numel()
    assert copied == sum(p.numel() for p in model.parameters()) == sum(p.size for p in jax.tree.leaves(params))
    prediction, _, kept = model(batch)
    np.testing.assert_allclose(prediction.detach(), output.prediction[:4], rtol=1e-3, atol=1e-4)
    assert kept == int(output.poolings[-1].node_mask.sum())
    theirs, _ = pyg.total_loss(model, batch, config)
    np.testing.assert_allclose(theirs.item(), loss, rtol=1e-3)
    theirs.backward()
    for layer, weights in layers_of(model, gradient):
        expected = as_weight(weights["kernel"])
        np.testing.assert_allclose(layer.weight.grad, expected, rtol=1e-2, atol=1e-3 * np.abs(expected).max())


def test_copies_without_a_node_are_pygs_subgraphs():
    from torch_geometric.data import Batch

    from benchmarks import pyg

    made = SOURCES["triangles"].workload(3)
    model = pyg.Peer(made.teacher, made.graphs.nodes["features"].shape[1])
    for graph in pyg.as_data(made.graphs):
        left = ~torch.eye(graph.num_nodes, dtype=torch.bool)
        expected, _, _ = model(Batch.from_data_list([graph, *(graph.subgraph(mask) for mask in left)]))
        actual, _, _ = model(pyg.with_each_node_left_out(graph))
        np.testing.assert_allclose(actual.detach(), expected.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("workload", ["colors", "triangles", "sparse"])
def test_pyg_trains_and_leaves_nodes_out(workload):
    from benchmarks import pyg

    made = SOURCES[workload].workload(2)
    assert 0 < next(pyg.training(made)) <= 1
    assert next(pyg.leave_one_out(made)) == 1
