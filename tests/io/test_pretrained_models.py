"""Ready-made models give the outputs that their cards know, and fit the cards."""

import jax
import numpy as np
import pytest

from experiments.pretrained.examples import example_graphs
from jattn import load_pretrained, predict_seeds, pretrained_cards
from jattn.io._pretrained import FOLDER

CARDS = pretrained_cards()


@pytest.mark.parametrize("name", CARDS)
def test_a_model_gives_its_known_outputs(name):
    card = CARDS[name]
    network, params = load_pretrained(name)
    graphs = example_graphs(card.name.partition("-")[0], card.feature_mean, card.feature_std)
    outputs = predict_seeds(network, jax.tree.map(lambda x: x[None], params), graphs).prediction[0]
    np.testing.assert_allclose(outputs, card.examples, atol=1e-4, rtol=1e-5)
    assert len(outputs) == 10
    assert np.ptp(outputs, axis=0).max() > 0.1


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_of_its_model(name):
    card, (network, params) = CARDS[name], load_pretrained(name)
    assert card.name == name
    assert list(network.filters) == card.settings["filters"]
    assert (network.outputs == 1) == (card.task == "regression")
    poolings = sum(pooling is not None for pooling in network.poolings)
    assert all(len(scores.attention_auc) == poolings for scores in card.scores.values())
    assert all(array.dtype == np.float32 for array in jax.tree.leaves(params))
    assert card.seed in card.seeds
    assert len(card.validation_accuracy) in ([0, 1] if len(card.seeds) == 1 else [len(card.seeds)])
    assert card.command.startswith(f"jattn {name.replace('-', ' ', 1)}")


def test_all_models_together_are_small():
    assert {file.stem for file in FOLDER.iterdir()} == set(CARDS)
    assert 0 < sum(file.stat().st_size for file in FOLDER.iterdir()) <= 3e6


def test_an_unknown_name_is_refused_with_the_nearest_and_all():
    with pytest.raises(ValueError, match=r"name: 'colors-week' is .*; did you mean colors-weak\? There are: colors-g"):
        load_pretrained("colors-week")
    with pytest.raises(ValueError, match=r"name: 'zzz' is no ready-made model\. There are: colors-g"):
        load_pretrained("zzz")
