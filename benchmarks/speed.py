"""How fast training and leave-one-out are, as ratios to what the machine's matrix products allow.

    python -m benchmarks.speed

The floor of a training step is 3 x the forward FLOPs over real nodes and edges (no padding), at the rate of a large
float32 matrix product measured in the same run on the same cores. Ratios carry over between machines, times do not.
"""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jraph import GraphsTuple

from experiments.colors import SUPERVISED
from experiments.settings import configure_jax
from jattn import Network, leave_one_out_seeds, train_seeds
from jattn.datasets.colors import generate_colors

MATRIX = 2048
EPOCHS = 24


def main() -> None:
    """Prints the benchmark."""
    configure_jax()
    graphs = generate_colors()["train"]
    network = SUPERVISED.network(outputs=1)
    rate = matmul_rate()
    print(f"matrix product {MATRIX} x {MATRIX}: {rate / 1e9:.0f} GFLOP/s on {jax.device_count()} devices")
    flops = step_flops(network, graphs)
    floor = flops / rate * 1e3
    print(f"COLORS, supervised: {flops / 1e6:.1f} MFLOP a training step of 32 graphs, floor {floor:.3f} ms")
    for seeds in (1, 10):
        step = training_step(network, graphs, seeds)
        print(f"  {seeds:>2} seeds: {step:.3f} ms a step and seed, {step / floor:.1f} x the floor")
    for seeds in (1, 10):
        print(f"  {seeds:>2} seeds: leave-one-out {leave_one_out_time(graphs, seeds):.3f} ms a graph and seed")


def matmul_rate() -> float:
    """FLOP/s of a large float32 matrix product, the best of several."""
    product = jax.jit(jnp.matmul)
    x = jnp.ones((MATRIX, MATRIX))
    return 2 * MATRIX**3 / best(lambda: product(x, x), 20)


def step_flops(network: Network, graphs: GraphsTuple, batch: int = 32) -> float:
    """FLOPs of a training step on average: 3 x those of the forward pass, of which matrix products count."""
    nodes = float(np.mean(graphs.n_node)) * batch
    edges = float(np.mean(graphs.n_edge)) * batch
    features, total = graphs.nodes["features"].shape[1], 0.0
    for filters in network.filters:
        sums = max(network.order - 1, 1) * edges * features
        maps = nodes * network.order * features * (network.hidden or filters)
        total += 2 * (sums + maps + (nodes * network.hidden * filters if network.hidden else 0))
        features = filters
    return 3 * total


def training_step(network: Network, graphs: GraphsTuple, seeds: int) -> float:
    """Milliseconds of a training step and seed; the best epoch."""
    training = train_seeds(network, SUPERVISED.training("regression"), graphs, range(seeds), EPOCHS)
    jax.block_until_ready(next(training))
    seconds = best(lambda: next(training), EPOCHS - 1)
    return seconds / seeds / -(-len(graphs.n_node) // 32) * 1e3


def leave_one_out_time(graphs: GraphsTuple, seeds: int) -> float:
    """Milliseconds of leave-one-out a graph and seed."""
    twin = SUPERVISED.twin(outputs=1)
    state = next(train_seeds(twin, SUPERVISED.twin_training("regression"), graphs, range(seeds), 1)).state
    seconds = best(lambda: leave_one_out_seeds(twin, state.params, graphs, "regression"), 3)
    return seconds / seeds / len(graphs.n_node) * 1e3


def best(function: Callable[[], object], repetitions: int) -> float:
    """Seconds of the quickest of several calls."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
