"""The floor of a time: FLOPs of matrix products over real nodes and edges, at the rate of a large product."""

import itertools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jraph import GraphsTuple

from jattn import Network
from jattn.graphs import Proximity
from jattn.nn import DiffPoolConfig, ScorerConfig

MATRIX = 2048


def matmul_rate() -> float:
    """FLOP/s of a large float32 matrix product, the best of several."""
    product = jax.jit(jnp.matmul)
    x = jnp.ones((MATRIX, MATRIX))
    return 2 * MATRIX**3 / min(seconds_of(lambda: product(x, x)) for _ in range(20))


def seconds_of(function: Callable[[], object]) -> float:
    """Seconds that a call takes, with what it computes on devices."""
    start = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - start


def forward_flops(network: Network, graphs: GraphsTuple, copies: bool = False) -> float:
    """FLOPs of a graph's forward pass on average, of which matrix products count; no node counts as dropped.

    Args:
      network: the architecture.
      graphs: the graphs.
      copies: count a graph as often as it has nodes.
    """
    n_node = np.asarray(graphs.n_node, float)
    n_edge = n_node**2 if isinstance(graphs.edges, Proximity) else np.asarray(graphs.n_edge, float)
    times = n_node if copies else np.ones_like(n_node)
    nodes, edges = (float(np.mean(times * n)) for n in (n_node, n_edge))

    def convolution(inputs: int, outputs: int, order: int, hidden: int | None) -> float:
        maps = order * inputs * (hidden or outputs) + (hidden * outputs if hidden else 0)
        return 2 * (max(order - 1, 1) * edges * inputs + nodes * maps)

    def scorer(config: ScorerConfig, inputs: int) -> float:
        match config.kind:
            case "gnn":
                widths = [inputs] + [config.filters] * (config.layers - 1) + [1]
                order = min(network.order, 2)
                return sum(convolution(i, o, order, None) for i, o in itertools.pairwise(widths))
            case "mlp":
                return 2 * nodes * (inputs + 1) * config.hidden
            case _:
                return 2 * nodes * inputs

    total, previous = 0.0, 0
    features = int(graphs.nodes["features"].shape[1])
    for i, filters in enumerate(network.filters):
        pooling = network.poolings[i] if i < len(network.poolings) else None
        if isinstance(pooling, DiffPoolConfig):
            raise ValueError("FLOPs of DiffPool are not counted")
        if pooling is not None:
            total += scorer(pooling.scorer, features if pooling.score_from == "current" else previous)
        total += convolution(features, filters, network.order, network.hidden)
        previous, features = features, filters
    return total
