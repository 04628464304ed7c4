"""Initial projections p of linear attention: draws, vectors at an angle to the optimum, the probability of good draws.

Knyazev et al. 2019, section 4.2: what unsupervised attention learns depends on the cosine of the angle between the
initial p and the optimum, which on COLORS is p = [0, 1, 0, ...].
"""

from collections.abc import Mapping

import jax
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Float
from scipy.special import betainc

from jattn._options import expect_one_of
from jattn.training import TrainState

from .settings import Distribution

COSINE_THRESHOLD = 0.5  # an initial p with a cosine above it counts as good


def sample_projection(
    distribution: Distribution, sigma: float, features: int, seed: int
) -> Float[np.ndarray, " features"]:
    """A projection from N(0, sigma), sigma being the standard deviation, or U(-sigma, sigma): a function of all four.

    Raises:
      ValueError: the distribution is not known.
    """
    expect_one_of("distribution", distribution, Distribution)
    # Each sigma has its own draws, whatever others a study has, so that many sigmas show more directions.
    bits = int(np.float64(sigma).view(np.uint64))
    rng = np.random.default_rng([seed, bits, distribution == "uniform"])
    unit = rng.normal(size=features) if distribution == "normal" else rng.uniform(-1, 1, features)
    return (sigma * unit).astype(np.float32)


def projection_at(
    cosine: float, optimum: Float[np.ndarray, " features"], norm: float, seed: int
) -> Float[np.ndarray, " features"]:
    """A random vector with a given norm and a given cosine with the optimum.

    Args:
      cosine: from -1 to 1.
      optimum: at least two features.
      norm: the length of the vector.
      seed: the seed of the direction across the optimum.

    Raises:
      ValueError: the cosine is not from -1 to 1.
    """
    if not -1 <= cosine <= 1:
        raise ValueError(f"cosine: {cosine} is not allowed, expected -1 to 1")
    along = optimum / np.linalg.norm(optimum)
    across = np.random.default_rng(seed).normal(size=len(along))
    across -= (across @ along) * along
    across /= np.linalg.norm(across)
    return (norm * (cosine * along + np.sqrt(1 - cosine**2) * across)).astype(np.float32)


def common_scales(distribution: Distribution, features: int) -> Mapping[str, float]:
    """Sigma by Xavier's and Kaiming's rules for a map of so many features to 1, by the name of the rule."""
    variances = {"Xavier": 2 / (features + 1), "Kaiming": 2 / features}
    factor = 1 if distribution == "normal" else 3  # U(-sigma, sigma) has the variance sigma^2 / 3
    return {name: float(np.sqrt(factor * variance)) for name, variance in variances.items()}


def prob_good_init(distribution: Distribution, features: int, draws: int = 100_000) -> float:
    """The fraction of draws whose cosine with an axis is above 0.5, estimated by sampling; the same for all sigmas."""
    rng = np.random.default_rng(features)
    shape = draws, features
    p = rng.normal(size=shape) if distribution == "normal" else rng.uniform(-1, 1, shape)
    return float(np.mean(p[:, 0] > COSINE_THRESHOLD * np.linalg.norm(p, axis=1)))


def prob_good_init_normal(features: int) -> float:
    r"""`prob_good_init` of normal draws, whose directions are uniform: the fraction of a sphere within 60 degrees.

    .. math:: \frac{1}{2} I_{1 - c^2}\left(\frac{n - 1}{2}, \frac{1}{2}\right), \quad c = 0.5
    """
    return float(betainc((features - 1) / 2, 0.5, 1 - COSINE_THRESHOLD**2) / 2)


def with_projections(
    state: TrainState, pooling: str, projections: Float[np.ndarray, "networks features"]
) -> TrainState:
    """The state of networks before training, with other projections.

    It equals that of networks initialized with them, since the state of the optimizer starts as zeros.

    Args:
      state: arrays with a leading axis of networks.
      pooling: the name of the pooling among the parameters, such as "pool_1"; its scorer is linear.
      projections: the p of each network.

    Raises:
      ValueError: there is no such pooling, its scorer is not linear, or the projections have another shape.
    """
    place, params = (pooling, "scorer", "projection", "kernel"), flatten_dict(state.params)
    if place not in params:
        raise ValueError(f"pooling: {pooling!r} is no pooling with a linear scorer, among: {', '.join(state.params)}")
    before = params[place]  # [networks, features, 1]
    if projections.shape != before.shape[:2]:
        raise ValueError(f"projections: expected shape {before.shape[:2]}, got {projections.shape}")
    params[place] = jax.device_put(projections.astype(np.float32)[:, :, None], before.sharding)
    return state._replace(params=unflatten_dict(params))
