"""Trains and predicts on 1, 2, 4 and 8 devices; a program of its own, since jax counts its devices once.

python tests/on_devices.py FILE     writes what came out to an npz file
"""

import sys

import jax
import jraph
import numpy as np

from jattn.graphs import from_dense
from jattn.nn import AttentionPoolingConfig, Network, ScorerConfig, Threshold
from jattn.training import TrainConfig, predict_seeds, train_seeds
from jattn.training import _seeds as seeds_of_jattn

COUNTS = (1, 2, 4, 8)
SEEDS = (1, 3)  # all devices share one seed; three go to one device each, or two where there are enough
EVALUATED = 7_501
NETWORK = Network(
    (4, 5), order=2, poolings=(None, AttentionPoolingConfig(Threshold(0.1), ScorerConfig("linear"), "previous"))
)
CONFIG = TrainConfig(attention_weight=1.0, learning_rate=0.01)


def make_graphs(count, seed):
    rng, graphs = np.random.default_rng(seed), []
    for _ in range(count):
        n = int(rng.integers(1, 7))
        adjacency = np.triu(rng.random((n, n)) < 0.5, 1)
        marked = rng.random(n) < 0.5
        features = np.stack([marked, ~marked], 1).astype(np.float32)
        adjacency = (adjacency | adjacency.T).astype(np.float32)
        graphs.append(from_dense(features, adjacency, attention=marked, label=int(marked.sum())))
    return jraph.batch_np(graphs)


def main(file):
    train, test, everything = make_graphs(23, seed=0), make_graphs(EVALUATED, seed=1), jax.devices()
    results = {}
    for devices in COUNTS:
        jax.devices = lambda devices=devices: everything[:devices]
        for cached in (seeds_of_jattn._compiled_epoch, seeds_of_jattn._compiled_init, seeds_of_jattn._compiled_predict):
            cached.cache_clear()
        for seeds in SEEDS:
            losses = []
            for epoch in train_seeds(NETWORK, CONFIG, train, range(seeds), 4, 5):
                losses.append(np.asarray(epoch.loss))
            results[f"loss {devices} {seeds}"] = np.stack(losses)
            for path, array in jax.tree.leaves_with_path(epoch.state.params):
                results[f"params {devices} {seeds} {jax.tree_util.keystr(path)}"] = np.asarray(array)
        params = jax.tree.map(lambda x: x[:1], epoch.state.params)
        predicted = predict_seeds(NETWORK, params, test)
        results[f"prediction {devices}"], results[f"attention {devices}"] = predicted.prediction, predicted.attention[0]
    np.savez(file, **results)


if __name__ == "__main__":
    main(sys.argv[1])
