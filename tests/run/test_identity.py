"""Is this the same run? What counts is said where a setting is defined, and arrays are the same if their bits are."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.colors import PRESETS, Colors
from experiments.initialization.settings import Initialization
from experiments.mnist75sp import Mnist75sp
from experiments.run.groups import entries, flat, with_changes
from experiments.run.identity import (
    differences,
    fingerprint,
    is_of_preset,
    key_of,
    settings_differences,
    settings_of,
    training_identity,
)
from experiments.triangles import Triangles
from experiments.tu import TU
from jattn import AttentionPoolingConfig, Network, Proximity, ScorerConfig, Threshold, TopK, TrainConfig, from_dense
from jattn._options import setting

NETWORK = Network((4, 4), poolings=(None, AttentionPoolingConfig(Threshold(0.1), ScorerConfig("mlp"))))


@pytest.mark.parametrize("kind", [Colors, Triangles, Mnist75sp, TU, Initialization])
def test_every_setting_says_what_it_affects(kind):
    assert [entry.field.name for entry in entries(kind()) if "affects" not in entry.field.metadata] == []


@dataclass(frozen=True)
class Older:
    epochs: int = setting(3, "training")
    data_dir: str | None = setting(None, "location")


@dataclass(frozen=True)
class Newer(Older):
    rate: float = setting(0.5, "training")
    quiet: bool = setting(False, "nothing")
    seeds: int = setting(10, "evaluation", of_preset=False)


def test_a_new_setting_at_its_default_changes_nothing_for_anyone():
    older, kinds = settings_of(Older(), ["training"]), ["training"]
    assert settings_differences(older, Newer()) == []
    assert key_of(older, Older(), {"train": "1f"}) == key_of(settings_of(Newer(), kinds), Newer(), {"train": "1f"})
    (difference,) = settings_differences(older, Newer(rate=0.1))
    assert str(difference) == "rate: 0.5 there, 0.1 now"
    assert key_of(older, Older(), {}) != key_of(settings_of(Newer(rate=0.1), kinds), Newer(rate=0.1), {})


def test_settings_that_affect_nothing_or_no_preset_do_not_count():
    assert settings_differences(settings_of(Newer(), ["training", "nothing"]), Newer(quiet=True)) == []
    assert is_of_preset(flat(Newer(quiet=True, seeds=3, data_dir="here")), Newer())
    assert not is_of_preset(flat(Newer(epochs=4)), Newer())
    weak = PRESETS["weak"]
    assert is_of_preset(flat(with_changes(weak, seed=7, data_seed=3, compact=True, checkpoint_every=1)), weak)
    assert not is_of_preset(flat(with_changes(weak, train_graphs=7)), weak)


def test_networks_differ_by_each_of_their_settings_but_how_they_are_computed():
    now = training_identity(NETWORK, TrainConfig(), epochs=3, seeds=range(2))
    same = training_identity(NETWORK, TrainConfig(compact=True), epochs=3, seeds=[0, 1])
    assert differences(same, now) == []
    pooling = AttentionPoolingConfig(TopK(0.5), ScorerConfig("mlp"))
    other = training_identity(NETWORK.clone(poolings=(None, pooling)), TrainConfig(), epochs=3, seeds=[0, 2])
    assert [str(change) for change in differences(other, now)] == [
        "network.poolings.1.select.threshold.tau: not set there, 0.1 now",
        "seeds: [0, 2] there, [0, 1] now",
        "network.poolings.1.select.topk.ratio: 0.5 there, not set now",
    ]


@pytest.mark.parametrize("there", [None, "a hash of another version", {}, {"network": 3}])
def test_what_is_no_identity_differs(there):
    assert differences(there, training_identity(NETWORK))


def graphs(**changes):
    graph = from_dense(np.eye(3, dtype=np.float32), np.float32([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), label=2)
    return graph._replace(**changes)


def test_equal_data_have_equal_fingerprints_whatever_holds_them():
    assert fingerprint(graphs()) == fingerprint(graphs())
    nodes = graphs().nodes
    assert fingerprint(graphs(nodes=dict(reversed(nodes.items())))) == fingerprint(graphs())
    assert fingerprint(jnp.arange(3, dtype=jnp.int32)) == fingerprint(np.arange(3, dtype=np.int32))
    assert fingerprint(np.arange(12.0).reshape(3, 4).T.copy().T) == fingerprint(np.arange(12.0).reshape(3, 4))
    assert fingerprint(np.float64(0.5)) == fingerprint(0.5)
    assert fingerprint(range(3)) == fingerprint([0, 1, 2])


def test_fingerprints_are_those_of_other_machines_and_versions():
    tree = {"b": [1, 2.5, None, "x"], "a": np.arange(6, dtype=np.int32).reshape(2, 3)}
    assert fingerprint(tree) == "ed40376accd5294a3da1c2c0917596e0"


def test_other_data_have_other_fingerprints():
    other_edge = graphs(senders=graphs().senders[::-1].copy())
    named = {**graphs().nodes, "more": np.zeros(3)}
    trees = [
        graphs(), other_edge, graphs(nodes=named), graphs(edges=None), graphs(edges=Proximity(1.0)),
        graphs(edges=Proximity(2.0)), graphs(edges=Proximity(1.0, squared=True)), np.zeros(3), np.zeros((3, 1)),
        np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3, np.float32), np.zeros(3, np.int32), [0, 0], [[0], 0],
        [[0, 0]], "00", ["0", "0"], None, [None], 0, 0.0, False, {}, {"a": 0}, {"b": 0},
    ]  # fmt: skip
    assert len({fingerprint(tree) for tree in trees}) == len(trees)


def test_what_has_no_fingerprint_is_refused():
    with pytest.raises(TypeError, match="expected arrays, numbers and strings, got object"):
        fingerprint({"a": object()})
