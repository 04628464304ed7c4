"""Restarts: of several initial scorers per network, training starts from the one that trains best for a while.

What attention learns depends on its initial weights (Knyazev et al. 2019, section 4.2).
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from jraph import GraphsTuple

from jattn.batching import pad
from jattn.graphs import select_graphs
from jattn.nn import Network
from jattn.training import TrainConfig, TrainState
from jattn.types import Params

from .stages import InitialWeights, StageTrainer

EPOCH_FRACTION = 0.1  # of the epochs, for which all initial scorers are trained
POOLING = "pool_"  # prefix of the names of attention's parameters


def best_restart(
    stages: StageTrainer,
    network: Network,
    config: TrainConfig,
    epochs: int,
    num_restarts: int,
    labels: Float[np.ndarray, "seeds nodes"] | None,
) -> InitialWeights:
    """Trains each network with several initial scorers for a tenth of the epochs, as a stage of its own.

    Args:
      stages: trains the networks afterwards.
      network: the architecture.
      config: how to train it.
      epochs: the epochs of the training afterwards.
      num_restarts: initial scorers per network; the first is the one that its seed draws. All else is the same.
      labels: target attention of each network, if it is not that of the graphs.

    Returns:
      For `StageTrainer.train`: the initial scorers with the lowest training loss at the end. Neither test graphs nor,
      without supervision, true attention are looked at.
    """
    seeds = np.repeat(stages.seeds, num_restarts).tolist()
    train_ids = None if stages.train_ids is None else [ids for ids in stages.train_ids for _ in range(num_restarts)]
    several = stages.with_networks(stages.graphs, seeds, train_ids)
    several.chosen = stages.chosen
    attention = None if labels is None else np.repeat(labels, num_restarts, axis=0)
    starts = initial_attentions(network, stages.graphs, stages.seeds, num_restarts)
    several.train(
        "choosing",
        network,
        config,
        max(round(EPOCH_FRACTION * epochs), 1),
        attention,
        start=InitialWeights(lambda state: with_attention(state, starts), {"tried": num_restarts}),
    )
    stages.seconds |= several.seconds
    loss = several.final_loss("choosing").reshape(-1, num_restarts)
    best = np.where(np.isfinite(loss), loss, np.inf).argmin(1) + num_restarts * np.arange(len(loss))
    chosen = jax.tree.map(lambda x: x[best], starts)
    return InitialWeights(lambda state: with_attention(state, chosen), {"tried": num_restarts, "chosen": best.tolist()})


def initial_attentions(network: Network, graphs: GraphsTuple, seeds: Sequence[int], num_restarts: int) -> Params:
    """Initial parameters of attention, [seeds * restarts, ...]; the first of each seed are those that it draws."""
    one = jax.tree.map(jnp.asarray, pad(select_graphs(graphs, np.arange(1))))

    @jax.jit
    @jax.vmap
    def init(key: jax.Array) -> Params:
        params = network.init(key, one)["params"]
        return {name: layer for name, layer in params.items() if name.startswith(POOLING)}

    keys = [key if not i else jax.random.fold_in(key, i) for key in map(seed_key, seeds) for i in range(num_restarts)]
    return init(jnp.stack(keys))


def seed_key(seed: int) -> jax.Array:
    """The key that `make_train` initializes the network of a seed with."""
    return jax.random.split(jax.random.key(seed))[0]


def with_attention(state: TrainState, starts: Params) -> TrainState:
    """A state before training with other parameters of attention; the state of the optimizer is zeros anyway."""

    def place(x: jax.Array, replaced: jax.Array) -> jax.Array:
        return jax.device_put(x, replaced.sharding)

    replaced = {name: jax.tree.map(place, layer, state.params[name]) for name, layer in starts.items()}
    return state._replace(params={**state.params, **replaced})
