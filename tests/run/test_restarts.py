"""The best of several initial attentions: the first is the network's own, and the one of least loss is trained."""

import chex
import jax
import numpy as np
import pytest

from experiments import colors
from experiments.run.folder import read_lines
from experiments.run.restarts import initial_attentions, with_attention
from jattn.datasets import generate_colors
from jattn.io import load_network
from jattn.training import prepare_seeds, train_seeds

TINY = ["--epochs", "20", "--train-graphs", "40", "--test-graphs", "6", "--batch-size", "8"]
SETTINGS = colors.PRESETS["unsupervised"]
GRAPHS = generate_colors(3, 40, 6, 6, 0)["train"]


def test_the_first_of_each_network_is_its_own():
    network, seeds = SETTINGS.network(1), [4, 7]
    starts = initial_attentions(network, GRAPHS, seeds, 3)
    single = prepare_seeds(network, SETTINGS.training("regression"), GRAPHS, seeds, 1).state
    p = starts["pool_1"]["scorer"]["projection"]["kernel"]
    assert p.shape == (6, 4, 1)
    np.testing.assert_array_equal(p[::3], single.params["pool_1"]["scorer"]["projection"]["kernel"])
    assert len(np.unique(np.asarray(p)[:, 1])) == 6
    same = with_attention(single, jax.tree.map(lambda x: x[::3], starts))
    chex.assert_trees_all_equal(same.params, single.params)


@pytest.mark.slow
def test_training_begins_with_the_attention_whose_loss_was_least(tmp_path):
    out = tmp_path / "run"
    colors.EXPERIMENT.main(["unsupervised", "--seeds", "2", "--restarts", "3", *TINY, "--out", str(out)])
    lines = read_lines(out / "metrics.jsonl")
    assert [line["epoch"] for line in lines if line["stage"] == "choosing"] == [1, 2]
    loss = np.reshape([line for line in lines if line["stage"] == "choosing"][-1]["loss"]["values"], (2, 3))
    network, weights = load_network(out / "weights.npz")

    starts = initial_attentions(network, GRAPHS, [0, 1], 3)
    chosen = jax.tree.map(lambda x: x[loss.argmin(1) + np.array([0, 3])], starts)
    config = SETTINGS.training("regression")
    training = prepare_seeds(network, config, GRAPHS, [0, 1], 20, 8)
    *_, last = training.run(with_attention(training.state, chosen), 0)
    chex.assert_trees_all_equal(weights, jax.device_get(last.state.params))
    # the choice goes by what training is for: the loss of the first epochs of the chosen ones is the least
    *_, single = train_seeds(network, config, GRAPHS, [0, 1], 2, 8)
    np.testing.assert_allclose(loss[:, 0], single.loss, rtol=1e-5)


@pytest.mark.parametrize(("preset", "of"), [("global", "none"), ("upper-bound", "ground_truth")])
def test_there_has_to_be_something_to_choose(preset, of, tmp_path, capsys):
    with pytest.raises(SystemExit):
        colors.EXPERIMENT.main([preset, "--restarts", "3", "--out", str(tmp_path)])
    assert f"--restarts: --attention {of} has no scorer to choose" in " ".join(capsys.readouterr().err.split())
