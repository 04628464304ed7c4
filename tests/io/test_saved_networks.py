"""A network in one file: it comes back as it was, and a file that is none says so."""

import chex
import jax
import numpy as np
import pytest
from programs import NETWORKS, USUAL, pad, params_of

from jattn import AttentionPoolingConfig, Network, ScorerConfig, Threshold
from jattn.io import describe, load_network, network_from, read_arrays, save_network, write_arrays


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_comes_back_as_it_was(name, tmp_path):
    network, params = NETWORKS[name], jax.device_get(params_of(name))
    save_network(tmp_path / "weights.npz", network, params)
    again, weights = load_network(tmp_path / "weights.npz")
    assert again == network
    chex.assert_trees_all_equal(weights, params)
    graph = pad([USUAL])
    for a, b in zip(
        jax.tree.leaves(again.apply({"params": jax.tree.map(jax.numpy.asarray, weights)}, graph)),
        jax.tree.leaves(network.apply({"params": params_of(name)}, graph)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_a_description_holds_every_setting():
    network = NETWORKS["chebygin"].clone(dropout=0.25)
    assert network_from(describe(network)) == network


class Least(Threshold):
    def __call__(self, alpha, topology):
        return topology.node_mask & (alpha < self.tau)


@pytest.mark.parametrize("rule", [lambda alpha, topology: topology.node_mask, Least(0.1)])
def test_a_rule_of_ones_own_can_not_be_saved(rule, tmp_path):
    network = Network(poolings=(AttentionPoolingConfig(rule),))
    with pytest.raises(ValueError, match="only poolings by Threshold or TopK can be saved"):
        save_network(tmp_path / "weights.npz", network, {})


def test_the_kind_of_softmax_is_kept_and_files_without_it_have_the_papers():
    network = Network(poolings=(AttentionPoolingConfig(Threshold(0.1), softmax="plain"),))
    described = describe(network)
    assert network_from(described) == network
    del described["poolings"][0]["softmax"]
    assert network_from(described).poolings[0].softmax == "clamped"


def test_a_subclass_can_not_be_saved(tmp_path):
    class Mine(Network):
        pass

    with pytest.raises(ValueError, match="network: Mine is a subclass; only `Network` itself can be saved"):
        save_network(tmp_path / "weights.npz", Mine(), {})


def test_numbers_of_numpy_are_saved(tmp_path):
    rule = Threshold(np.float32(0.25))
    scorer = ScorerConfig("mlp", hidden=np.int64(6), scale=np.float64(2))
    network = Network(
        np.array([8, 8]),
        np.int8(3),
        hidden=np.int32(5),
        outputs=np.int64(2),
        dropout=np.float32(0.5),
        poolings=[AttentionPoolingConfig(rule, scorer)],
    )
    plain = Network(
        (8, 8),
        3,
        hidden=5,
        outputs=2,
        dropout=0.5,
        poolings=(AttentionPoolingConfig(Threshold(0.25), ScorerConfig("mlp", hidden=6, scale=2.0)),),
    )
    assert network == plain
    assert hash(network) == hash(plain)
    save_network(tmp_path / "weights.npz", network, {})
    assert load_network(tmp_path / "weights.npz")[0] == plain


@pytest.mark.parametrize("content", [b"", b"neither zip nor npz", None])
def test_a_file_that_holds_no_network_is_named(content, tmp_path):
    path = tmp_path / "other.npz"
    if content is None:
        np.savez(path, a=np.ones(3))
    else:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"other\.npz: not a network that save_network wrote"):
        load_network(path)


@pytest.mark.parametrize(("number", "why"), [(None, "it has no format number"), (3, "its format is 3, of a newer")])
def test_a_file_of_another_format_is_refused_with_what_to_do(number, why, tmp_path):
    path = tmp_path / "weights.npz"
    save_network(path, Network(), {})
    arrays = read_arrays(path)
    del arrays["format"]
    write_arrays(path, arrays if number is None else {**arrays, "format": number})
    with pytest.raises(ValueError, match=rf"weights\.npz: {why}.*; train it again, or load it with that version"):
        load_network(path)


def test_a_missing_file_is_not_called_a_wrong_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_network(tmp_path / "nowhere.npz")
