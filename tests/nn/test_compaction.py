"""Rows of kept nodes alone give what all rows with a mask do, whichever layout the nodes are in."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from cases import default_xla, slow
from flax import linen as nn
from graph_strategies import USUAL, graph_lists, make_graph, pad, rows, seeds
from hypothesis import given
from programs import (
    STORAGES,
    assert_close,
    changed_costs,
    each_storage,
    fast,
    gather_small,
    pack_small,
    random_mask,
    total_loss,
)

from jattn.batching import device_put, gather, pack
from jattn.nn import AttentionPooling, AttentionPoolingConfig, ChebyGINConv, Network, ScorerConfig, Threshold
from jattn.nn._compaction import (
    CompactLayout,
    compact_rows,
    gather_rows,
    layouts,
    scatter_rows,
    smallest_fitting,
)
from jattn.training import TrainConfig, train_seeds


@pytest.fixture(autouse=True)
def layouts_for_narrow_layers():
    with changed_costs(compact_features=1):
        yield


LAYOUTS = [
    CompactLayout(merged=1, block=8),
    CompactLayout(merged=2, block=16),
    CompactLayout(merged=4, block=32),
    CompactLayout(merged=3, block=24),
]
SIZES = [6, 5, 6, 4, 0, 6, 1, 6, 5, 6, 3, 6]
GRAPHS = [make_graph(size, 0.7, 70 + i) for i, size in enumerate(SIZES)]


@functools.cache
def small_program(layout):
    """A split, ids and nodes to keep -> what a topology says of rows, without and with a layout."""

    def facts(topology, x, scores):
        x = topology.mask_nodes(x)
        of_rows = topology.degrees, topology.normalized()(x), topology.softmax(scores)
        return of_rows, (topology.sum(x), topology.max(x), topology.mean(x))

    @jax.jit
    def run(split, ids, kept):
        batch = gather_small(split, ids, "blocks")
        topology = batch.topology.subgraph(kept.at[batch.node_ids].get(mode="fill", fill_value=False))
        x = batch.graph.nodes["features"]
        of_rows, of_graphs = facts(topology, x, x[:, 0])
        reduced, places = compact_rows(topology, layout)
        own_rows, own_graphs = facts(reduced, gather_rows(x, places), gather_rows(x[:, 0], places))
        return (of_rows, of_graphs), (jax.tree.map(lambda y: scatter_rows(y, places), own_rows), own_graphs)

    return run


@pytest.mark.parametrize("layout", LAYOUTS)
@fast
@given(graph_lists, seeds)
def test_the_topology_of_kept_nodes_alone_says_the_same(layout, graph_list, seed):
    split, ids = pack_small(graph_list)
    mask = np.zeros(len(split.graphs.nodes["attention"]), bool)
    kept = random_mask(graph_list, seed)
    mask[: len(kept)] = kept
    expected, actual = small_program(layout)(split, ids, mask)
    jax.tree.map(functools.partial(assert_close, tolerance=1e-6), actual, expected)


def network(poolings=1, readout="max", **settings):
    """Keeps just the nodes that have a target, so that a test says how many."""
    truth = AttentionPoolingConfig(Threshold(0.0), ScorerConfig("ground_truth"))
    return Network(
        (5, 6, 7), order=3, outputs=3, readout=readout, poolings=(None, truth, truth)[: poolings + 1],
        **settings,
    )  # fmt: skip


@functools.cache
def batch(dense=True):
    """All graphs as one batch, of blocks or sparse, and where its rows are."""
    split = jraph.batch_np(GRAPHS)
    packed = pack(split, np.arange(len(GRAPHS))[None], dense=dense)
    return gather(device_put(split), jnp.asarray(packed.ids[0, 0]), packed.bucket)


def with_target_on(count, dense=True):
    """The batch's graph with target attention on some nodes, so that the networks here keep these."""
    rng = np.random.default_rng(count)
    attention = np.zeros(sum(SIZES) + 1, np.float32)
    attention[rng.permutation(sum(SIZES))[:count]] = rng.uniform(0.5, 1, count)
    graph = batch(dense).graph
    return graph._replace(nodes={**graph.nodes, "attention": jnp.asarray(attention[batch(dense).node_ids])})


@functools.cache
def loss_and_gradient(compact, poolings, readout, dense):
    model, topology = network(poolings, readout), batch(dense).topology
    params = jax.jit(lambda: model.init(jax.random.key(3), batch(dense).graph, topology)["params"])()
    value = jax.value_and_grad(total_loss, has_aux=True)
    return jax.jit(lambda graph: value(params, model, graph, topology, compact))


def assert_same(count, poolings=1, readout="max", dense=True):
    (actual, gradient), (expected, expected_gradient) = (
        loss_and_gradient(compact, poolings, readout, dense)(with_target_on(count, dense)) for compact in (True, False)
    )
    jax.tree.map(functools.partial(assert_close, tolerance=1e-6), (actual, gradient), (expected, expected_gradient))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((actual, gradient)))


def branch_of(count):
    kept = with_target_on(count).nodes["attention"] > 0
    topology = batch().topology.subgraph(kept)
    return int(smallest_fitting(topology, layouts(topology)))


NODES = {0: 5, 1: 20, 2: 30, 3: 38, 4: sum(SIZES)}  # kept by the branches; the last is that of all rows


@pytest.mark.parametrize("readout", [default_xla("max"), slow("sum"), slow("mean")])
@pytest.mark.parametrize("branch", NODES)
def test_every_branch_gives_the_loss_and_the_gradient_of_all_rows(branch, readout):
    assert branch_of(NODES[branch]) == branch
    assert_same(NODES[branch], readout=readout)


class Tripled(AttentionPooling):
    def __call__(self, x, *others):
        z, topology, result = super().__call__(x, *others)
        return 3 * z, topology, result


class OfTripled(Network):
    def setup(self):
        self.conv_0, self.conv_1 = (ChebyGINConv(features, self.order) for features in self.filters)
        self.pool_1 = Tripled(self.poolings[1], self.order, self.aggregation)
        self.output = nn.Dense(self.outputs)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(Network, {"renormalize": True, "relative": True}), slow(Network, {"relative": True}), (OfTripled, {})],
)
def test_what_attention_multiplies_is_the_same_in_a_layout(kind, options):
    select = Threshold(1.0 if options else 0.2)  # relative or not, about half of the nodes stay
    pooling = AttentionPoolingConfig(select, ScorerConfig("linear"), **options)
    model, topology, graph = kind((5, 6), order=3, outputs=3, poolings=(None, pooling)), batch().topology, batch().graph
    params = model.init(jax.random.key(3), graph, topology)["params"]
    value = jax.value_and_grad(total_loss, has_aux=True)
    expected, actual = (
        jax.jit(lambda params, compact=compact: value(params, model, graph, topology, compact))(params)
        for compact in (False, True)
    )
    reduced = topology.subgraph(expected[0][1].poolings[0].node_mask)
    assert smallest_fitting(reduced, layouts(reduced)) < len(layouts(reduced))
    jax.tree.map(functools.partial(assert_close, tolerance=1e-5), actual, expected)


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 10, 30, sum(SIZES)])
def test_poolings_one_after_another_give_the_same(count):
    assert_same(count, poolings=2)


def test_the_layout_is_the_smallest_that_holds_all_kept_nodes():
    options = layouts(batch().topology)
    assert {option.merged for option in options} == {len(batch().topology.adjacency)}  # so few rows are one block
    for count in range(sum(SIZES) + 1):
        branch = branch_of(count)
        assert all(count > option.block for option in options[:branch])
        assert branch == len(options) or count <= options[branch].block


@pytest.mark.parametrize("count", [0, 1, default_xla(20), sum(SIZES)])
def test_compact_products_of_a_sparse_batch_give_the_loss_and_the_gradient_of_all_rows(count):
    assert_same(count, poolings=2, dense=False)


@functools.cache
def compact_and_plain(storage, poolings):
    """(graph, rows to keep) -> loss, output and gradient with `compact`, and without it; compiled once a bucket."""
    model = network(poolings)
    params = jax.jit(lambda: model.init(jax.random.key(3), pad([USUAL]))["params"])()

    @jax.jit
    def run(graph, kept):
        topology, value = STORAGES[storage](graph).subgraph(kept), jax.value_and_grad(total_loss, has_aux=True)
        return [value(params, model, graph, topology, compact) for compact in (True, False)]

    return run


@each_storage
@pytest.mark.parametrize("poolings", [0, slow(1)])
@fast
@given(graph_list=graph_lists, seed=seeds)
def test_compact_products_give_the_loss_and_the_gradient_of_all_rows(storage, poolings, graph_list, seed):
    with changed_costs(compact_features=1000):  # no layouts
        kept = rows(graph_list, random_mask(graph_list, seed))
        actual, expected = compact_and_plain(storage, poolings)(pad(graph_list), kept)
    jax.tree.map(functools.partial(assert_close, tolerance=1e-6), actual, expected)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(actual))


def test_without_pooling_products_are_compact_only_before_a_maximum():
    def switches(readout, compact):
        graph, model = pad([USUAL]), network(0, readout)
        params = jax.eval_shape(model.init, jax.random.key(3), graph)["params"]
        gradient = jax.grad(lambda *arguments: total_loss(*arguments)[0])
        program = jax.make_jaxpr(lambda params: gradient(params, model, graph, STORAGES["edges"](graph), compact))
        return str(program(params)).count("cond[")

    assert switches("max", compact=True) == 2  # forward, and the VJP
    assert switches("max", compact=False) == switches("sum", compact=True) == 0


@pytest.mark.slow
@pytest.mark.parametrize("compact", [True, False])
def test_seeds_run_side_by_side_where_the_cost_model_has_no_compaction(compact):
    model = network(1)
    with changed_costs(compact=compact):
        (graphs, config), calls = (jraph.batch_np(GRAPHS), TrainConfig("classification", compact=True)), []
        with pytest.MonkeyPatch.context() as patch:
            original = Network._layers_of_kept
            patch.setattr(Network, "_layers_of_kept", lambda *a: calls.append(1) or original(*a))
            next(train_seeds(model, config, graphs, [0, 1], epochs=1))
    assert bool(calls) == compact


@pytest.mark.slow
def test_seeds_one_after_another_train_as_each_alone():
    graphs = jraph.batch_np(GRAPHS)
    learned = AttentionPoolingConfig(Threshold(0.15))
    model = Network((5, 6), outputs=3, readout="max", poolings=(None, learned), dropout=0.5)
    config = TrainConfig("classification", attention_weight=1.0)
    *_, together = train_seeds(model, replace(config, compact=True), graphs, [0, 1, 2, 3], epochs=2, batch_size=4)
    for seed in (0, 3):
        *_, alone = train_seeds(model, config, graphs, [seed, seed + 10], 2, 4)
        single = jax.tree.map(lambda x, seed=seed: x[seed], together.state.params)
        jax.tree.map(
            functools.partial(assert_close, tolerance=1e-5), single, jax.tree.map(lambda x: x[0], alone.state.params)
        )
