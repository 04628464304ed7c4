"""Small random models give the numbers of the paper's implementation, stored beside this file."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax
import pytest
from cases import slow
from jraph import GraphsTuple

from jattn.attribution import leave_one_out
from jattn.io._published import network_from_config, params_from_weights
from jattn.nn import block_topology, sparse_topology
from jattn.training import TrainConfig, attention_loss, task_loss
from jattn.training._optimizer import make_optimizer

FOLDER = Path(__file__).parent / "reference"
INDEX = json.loads((FOLDER / "index.json").read_text())
TOPOLOGIES = {"edges": sparse_topology, "blocks": lambda graph: block_topology(graph, ROWS)}
NODES, GRAPHS, ROWS = 34, 6, 40


def assert_close(actual, expected, tolerance=1e-5):
    """Equal to `tolerance`, absolute or relative, whichever is larger."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    excess = np.abs(actual - expected) / np.maximum(1, np.abs(expected))
    assert not excess.size or excess.max() <= tolerance


class Case:
    """A reference case: its network, its graphs as a padded batch, and its arrays."""

    def __init__(self, name):
        self.config = INDEX[name]
        self.task = name.split("__")[1]
        with np.load(FOLDER / f"{name}.npz") as arrays:
            self.arrays = dict(arrays)
        self.network = network_from_config(self.config, self.config["out_features"])
        self.params = self.tree("param")
        self.graph = self.padded_graph()

    def __getitem__(self, key):
        return self.arrays[key]

    @property
    def supervised(self):
        return bool(self.config["pool"]) and self.config["pool"][1] == "sup"

    def tree(self, prefix):
        arrays = {k.removeprefix(f"{prefix}/"): v for k, v in self.arrays.items() if k.startswith(f"{prefix}/")}
        return jax.tree.map(jnp.asarray, params_from_weights(arrays, self.network))

    def padded_graph(self):
        n_node, n_edge = (self[key].astype(np.int32) for key in ("n_node", "n_edge"))
        shift = np.repeat(np.cumsum(n_node) - n_node, n_edge)
        graph = GraphsTuple(
            nodes={"features": self["nodes"], "attention": self["attention"]},
            edges=self["edge_weight"],
            senders=(self["senders_local"] + shift).astype(np.int32),
            receivers=(self["receivers_local"] + shift).astype(np.int32),
            globals={"label": self["label"]},
            n_node=n_node,
            n_edge=n_edge,
        )
        return jax.tree.map(jnp.asarray, jraph.pad_with_graphs(graph, n_node=ROWS, n_edge=104, n_graph=8))


def is_last_bias_of_scorer(path):
    """A softmax does not feel it: its exact gradient is 0, and Adam makes steps out of rounding."""
    keys = [entry.key for entry in path]
    return "scorer" in keys and keys[-2:] == ["linear", "bias"] and keys[-3] in ("scorer", "ChebyGINConv_2")


def three_steps(case, topology_of):
    """Weights after three training steps on the same batch; loss terms, outputs and gradient of the first."""
    optimizer = make_optimizer(TrainConfig(case.task), steps_per_epoch=1)

    def loss(params):
        topology = topology_of(case.graph)
        output = case.network.apply({"params": params}, case.graph, topology)
        task = task_loss(output.prediction, case.graph.globals["label"], topology.graph_mask, case.task)
        target = case.graph.nodes["attention"]
        poolings = output.poolings if case.supervised else ()
        terms = [case.config["kl_weight"] * attention_loss(pooled, target, topology) for pooled in poolings]
        return task + sum(terms), (task, terms, output)

    @jax.jit
    def step(params, state):
        (total, aux), gradient = jax.value_and_grad(loss, has_aux=True)(params)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, (total, *aux, gradient)

    params, state, first = step(case.params, optimizer.init(case.params))
    for _ in range(2):
        params, state, _ = step(params, state)
    return params, first


@pytest.mark.default_xla
@pytest.mark.parametrize("storage", ["blocks", slow("edges")])
@pytest.mark.parametrize("name", INDEX)
def test_network_and_three_training_steps_give_the_reference_numbers(name, storage):
    case = Case(name)
    after, (total, task, terms, output, gradient) = three_steps(case, TOPOLOGIES[storage])

    assert_close(output.prediction[:GRAPHS], case["eval/prediction"])
    assert len(output.poolings) == sum(key.startswith("eval/alpha") for key in case.arrays)
    for i, pooled in enumerate(output.poolings):
        alpha = case[f"eval/alpha_{i}"]
        present = ~np.isnan(alpha)
        np.testing.assert_array_equal(pooled.node_mask_in[:NODES], present)
        np.testing.assert_array_equal(pooled.node_mask[:NODES], case[f"eval/kept_{i}"])
        assert_close(pooled.attention[:NODES], np.where(present, alpha, 0))

    assert_close(task, case["train/task_loss"])
    assert_close(np.array(terms), case["train/kl_terms"])
    assert_close(total, case["train/loss"])

    expected_gradient, expected_after = case.tree("grad"), case.tree("param_after_3_steps")
    assert jax.tree.structure(gradient) == jax.tree.structure(expected_gradient)
    for (path, g), expected, before, w, expected_w in zip(
        jax.tree_util.tree_leaves_with_path(gradient),
        *(jax.tree.leaves(tree) for tree in (expected_gradient, case.params, after, expected_after)),
        strict=True,
    ):
        assert_close(g, expected)
        if is_last_bias_of_scorer(path):
            assert np.abs(g).max() < 1e-5
            assert np.abs(w - before).max() <= 3.2e-3
        else:
            assert_close(w, expected_w)


@pytest.mark.parametrize("storage", ["blocks", slow("edges")])
@pytest.mark.parametrize("name", [name for name in INDEX if INDEX[name]["pool"] is None])
def test_leave_one_out_gives_the_reference_labels(name, storage):
    case = Case(name)

    def predict(graph, kept):
        topology = TOPOLOGIES[storage](graph).subgraph(kept)
        return case.network.apply({"params": case.params}, graph, topology).prediction

    result = jax.jit(lambda graph: leave_one_out(predict, graph, 9, task=case.task))(case.graph)
    difference = np.abs(result.attention[:NODES] - case["leave_one_out"])
    moved = np.repeat(result.total_change[:GRAPHS], case["n_node"])
    assert ((difference <= 1e-6) | (difference * (moved + 1e-7) <= 2e-7)).all()
    assert not result.attention[NODES:].any()


def test_every_kind_of_scorer_with_a_last_bias_is_found():
    found = {
        name.split("__")[0]
        for name in INDEX
        for path, _ in jax.tree_util.tree_leaves_with_path(Case(name).params)
        if is_last_bias_of_scorer(path)
    }
    assert found == {"sup_threshold_mlp_prev", "sup_threshold_gnn_curr_two_pools", "sup_topk_gnn_curr_two_pools"}
