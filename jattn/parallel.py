"""Seeds over devices: the one place that knows how many devices there are."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec


def over_seeds(function: Callable[..., Any], seeds: int, in_axes: tuple[int | None, ...], optimize: bool = True) -> Any:
    """Compiles `function`, written for one seed, for many: a vmap on every device that gets a share of them.

    Args:
      function: maps pytrees to a pytree.
      seeds: how many; the largest number of devices that divides it is used.
      in_axes: for every argument 0 where it has a leading axis of seeds, None where all seeds share it.
      optimize: False for what runs once, which compiles in a third of the time.

    Returns:
      The compiled function, whose results have a leading axis of seeds.
    """
    devices = jax.devices()
    count = max(n for n in range(1, len(devices) + 1) if seeds % n == 0)
    mesh = Mesh(np.array(devices[:count]), ("seeds",))
    spread = jax.shard_map(
        jax.vmap(function, in_axes),
        mesh=mesh,
        in_specs=tuple(PartitionSpec() if axis is None else PartitionSpec("seeds") for axis in in_axes),
        out_specs=PartitionSpec("seeds"),
        check_vma=False,  # seeds never talk to each other
    )
    return jax.jit(spread, compiler_options=None if optimize else {"xla_backend_optimization_level": 0})
