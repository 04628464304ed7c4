"""A step that takes its batch in chunks, one after another, is the step of the whole batch."""

import dataclasses

import jax
import jraph
import numpy as np
import pytest
from cases import slow
from graph_strategies import make_graph
from hypothesis import given
from hypothesis import strategies as st
from programs import changed_costs, fast

from jattn.batching import shuffled_batches
from jattn.batching._training_batches import pack_training
from jattn.nn import AttentionPoolingConfig, DiffPoolConfig, Network, ScorerConfig, Threshold
from jattn.training import TrainConfig, prepare_seeds
from jattn.training._devices import devices_per_seed

SIZES = [9, 14, 0, 12, 1, 11, 20, 8, 13, 6, 10, 17]
GRAPHS = jraph.batch_np([make_graph(size, 0.3, 80 + i) for i, size in enumerate(SIZES)])
POOLED = Network(
    (6, 5), order=2, outputs=3, dropout=0.3, poolings=(None, AttentionPoolingConfig(Threshold(0.05), ScorerConfig()))
)
CLUSTERED = dataclasses.replace(POOLED, poolings=(None, DiffPoolConfig(3)))
CONFIG = TrainConfig("classification", learning_rate=1e-2)
SUPERVISED = dataclasses.replace(CONFIG, attention_weight=2.0)
SPARSE = {"dense_work": 1}


def trained(network, config, seeds, **costs):
    """The number of parts of a batch, and weights, losses and predictions of two epochs with batches of 8 graphs."""
    with changed_costs(**SPARSE, **costs):
        training = prepare_seeds(network, config, GRAPHS, seeds, 2, 8)
        epochs = [(epoch.state.params, epoch.loss, epoch.predictions) for epoch in training.run(training.state, 0)]
    return training.run.args[3].shape[3], epochs


@pytest.mark.parametrize(
    ("network", "config"), [(POOLED, SUPERVISED), slow(CLUSTERED, CONFIG)], ids=["pooled", "clustered"]
)
@pytest.mark.parametrize("seeds", [[3], slow([3, 4, 5, 6])], ids=["one", "four"])
def test_a_step_in_chunks_is_that_of_its_whole_batch(network, config, seeds):
    parts, whole = trained(network, config, seeds, chunk_floats=None)
    smaller, chunked = trained(network, config, seeds, chunk_floats=150)
    assert parts == devices_per_seed(len(seeds)) < smaller
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), chunked, whole)


@pytest.mark.parametrize("changes", [{"dense_work": 1000}, {"chunk_floats": None}], ids=["dense", "not asked for"])
def test_other_batches_are_taken_at_once(changes):
    with changed_costs(**{**SPARSE, "chunk_floats": 1, **changes}):
        training = prepare_seeds(POOLED, CONFIG, GRAPHS, [0], 1, 8)
    assert training.run.args[3].shape[3] == devices_per_seed(1)


@fast
@given(most_rows=st.integers(1, 90), parts=st.integers(1, 3), batch=st.integers(1, 12))
def test_chunks_have_every_graph_once_and_so_many_rows(most_rows, parts, batch):
    order = shuffled_batches(0, 2, np.array(SIZES), batch)
    with changed_costs(**SPARSE):
        ids, bucket = pack_training(GRAPHS, order, parts, most_rows)
    chunks = ids.shape[-2] // parts
    assert ids.shape[:-1] == (*order.shape[:2], parts * chunks)
    for packed, batches in zip(ids, order, strict=True):
        np.testing.assert_array_equal(np.sort(packed[packed >= 0]), np.sort(batches[batches >= 0]))
    assert np.append(SIZES, 0)[ids].sum(-1).max() <= bucket.nodes
    per_part = -(-batch // parts)
    assert chunks <= per_part
    if 1 < chunks < per_part:  # one more graph than fits on average, and rows up to a multiple of 8
        assert bucket.nodes <= most_rows + max(SIZES) + 8
