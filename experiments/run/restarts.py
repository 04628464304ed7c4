"""Of several initial attentions of each network, the one that trains best for a while.

What attention learns depends on where it starts (Knyazev et al. 2019, section 4.2), and many networks train at once.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from jraph import GraphsTuple

from jattn.batching import pad
from jattn.graphs import select
from jattn.nn import Network
from jattn.training import Params, TrainConfig, TrainState

from .stages import InitialWeights, StageTrainer

EPOCH_FRACTION = 0.1  # of the epochs, for which all of them train
POOLING = "pool_"  # what names of attention's parameters begin with


def best_restart(
    stages: StageTrainer,
    network: Network,
    config: TrainConfig,
    epochs: int,
    num_restarts: int,
    labels: Float[np.ndarray, "seeds nodes"] | None,
) -> InitialWeights:
    """Trains networks with several initial attentions each for a tenth of the epochs, as a stage of its own.

    Args:
      stages: of the networks that are to be trained.
      network: the architecture.
      config: how to train it.
      epochs: for how long.
      num_restarts: initial attentions of each network, the first of them its own; all else that is drawn is the same.
      labels: target attention of each network, where it is not that of the graphs.

    Returns:
      For `Stages.train` of all networks: the attention whose loss on the training graphs is least in the end. It is the
      loss that is trained with, so neither test graphs nor true attention are looked at, unless attention is supervised
      by it.
    """
    seeds = np.repeat(stages.seeds, num_restarts).tolist()
    train_ids = None if stages.train_ids is None else [own for own in stages.train_ids for _ in range(num_restarts)]
    several = StageTrainer(stages.run, stages.settings, stages.graphs, stages.task, seeds, train_ids)
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


def initial_attentions(network: Network, graphs: GraphsTuple, seeds: Sequence[int], tried: int) -> Params:
    """Initial parameters of attention, [seeds * tried, ...]: each network's own, then others that its seed makes."""
    one = jax.tree.map(jnp.asarray, pad(select(graphs, np.arange(1))))

    @jax.jit
    @jax.vmap
    def init(key: jax.Array) -> Params:
        return {name: of for name, of in network.init(key, one)["params"].items() if name.startswith(POOLING)}

    keys = [key if not i else jax.random.fold_in(key, i) for key in map(seed_key, seeds) for i in range(tried)]
    return init(jnp.stack(keys))


def seed_key(seed: int) -> jax.Array:
    """The key that `make_train` initialises the network of a seed with."""
    return jax.random.split(jax.random.key(seed))[0]


def with_attention(state: TrainState, starts: Params) -> TrainState:
    """A state before training with other parameters of attention; the optimiser's is zeros anyway."""

    def moved(x: jax.Array, own: jax.Array) -> jax.Array:
        return jax.device_put(x, own.sharding)  # where the other weights are, too

    replaced = {name: jax.tree.map(moved, of, state.params[name]) for name, of in starts.items()}
    return state._replace(params={**state.params, **replaced})
