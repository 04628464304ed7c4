"""Seeds over devices, then parts of their work: the one place that knows how many devices and processes there are.

Several processes run the same program on the same host-side data, each with devices of its own, as one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jattn._cost_model import CostModel, cost_model, use_cost_model

SEEDS, PARTS = "seeds", "parts"  # names of the mesh's axes
ALL_KNOW = "The other processes were told, and end too."
TOLD = 2048  # bytes of an error's message that other processes are told
Tree = TypeVar("Tree")


def devices_per_seed(seeds: int) -> int:
    """Devices that share the work of each seed: as many for each as there are, where seeds need half of all or less.

    Raises:
      ValueError: one of several processes would have nothing to do.
    """
    return len(jax.devices()) // _seed_devices(seeds)


def shard_seeds(
    function: Callable[..., Any],
    seeds: int,
    *specs: tuple[str | None, ...],
    result: tuple[str, ...] = (SEEDS,),
    sequential: bool = False,
    optimize: bool = True,
    costs: CostModel | None = None,
) -> Any:
    """Compiles `function`, written for one seed, for many: a vmap on every device that gets a share of them.

    Args:
      function: maps pytrees to a pytree.
      seeds: how many; they go to the largest number of devices that divides it.
      *specs: for every argument the names of its leading axes: "seeds" for the one of seeds, which `function` does not
        see, "parts" for one of `parts_of(seeds)`, of which it sees its own as an axis of 1, None for others; () where
        all devices have all of it.
      result: as `specs`, for all that `function` returns: ("seeds",) where it is the same on all of a seed's devices,
        as `sum_parts` leaves it; ("seeds", "parts") where each returns its own, as an axis of 1.
      sequential: a loop over a device's seeds in place of a vmap, which would run all branches of a `switch`.
      optimize: False for what runs once, which compiles in a third of the time.
      costs: the cost model that the program goes by; today's where not given.

    Returns:
      The compiled function, whose results have leading axes as `result` names them.
    """
    shape = _seed_devices(seeds), devices_per_seed(seeds)
    mesh = Mesh(np.array(jax.devices()[: shape[0] * shape[1]]).reshape(shape), (SEEDS, PARTS))
    axes = tuple(0 if SEEDS in spec else None for spec in specs)
    of_seeds = _without_seed_axis if seeds == shape[0] else _sequentially if sequential else jax.vmap
    mapped, costs = of_seeds(function, axes), costs or cost_model()

    def with_costs(*arguments: Any) -> Any:
        with use_cost_model(costs):
            return mapped(*arguments)

    spread = jax.shard_map(
        with_costs,
        mesh=mesh,
        in_specs=tuple(PartitionSpec(*spec) for spec in specs),
        out_specs=PartitionSpec(*result),
        check_vma=False,  # `function` sees to it that a seed's devices agree
    )
    compiled = jax.jit(spread, compiler_options=None if optimize else {"xla_backend_optimization_level": 0})
    shardings = [NamedSharding(mesh, PartitionSpec(*spec)) for spec in specs]
    place = jax.device_put if jax.process_count() == 1 else _placed

    def on_all(*arguments: Any) -> Any:
        return compiled(*map(place, arguments, shardings))

    return on_all


def shard_batches(
    function: Callable[[Any, Any, Any], Any], seeds: int, sequential: bool, costs: CostModel
) -> Callable[..., Any]:
    """Compiles a function of weights, a split and batches [steps, entries] for batches [parts, steps, entries].

    Each part runs on a device of its own; the function's results are 0 for graphs that are not in its batches. Seeds
    run as in `over_devices`.
    """

    def of_part(params: Any, split: Any, batches: Any) -> Any:
        return psum_shards(function(params, split, batches[0]))

    return shard_seeds(of_part, seeds, (SEEDS,), (), (PARTS,), sequential=sequential, costs=costs)


def psum_shards(tree: Tree) -> Tree:
    """The sum over all parts of arrays of which each part has filled its own rows, zeros elsewhere."""
    return jax.tree.map(lambda x: jax.lax.psum(x.astype(jnp.float32), PARTS).astype(x.dtype), tree)


def is_main_process() -> bool:
    """Whether this process is the one that writes files; so it is where it is the only one."""
    return jax.process_index() == 0


def to_host(tree: Tree) -> Tree:
    """Arrays as numpy ones, whole in every process, which all have to call this."""

    def whole(x: Any) -> Any:
        if isinstance(x, jax.Array) and not x.is_fully_addressable:
            assert isinstance(x.sharding, NamedSharding)  # as `over_devices` and `everywhere` leave it
            return jax.jit(_same, out_shardings=NamedSharding(x.sharding.mesh, PartitionSpec()))(x)
        return x

    return jax.device_get(jax.tree.map(whole, tree))


def broadcast_from_main(tree: Tree) -> Tree:
    """The first process's numpy arrays, in all processes; theirs have to have the same shapes."""
    return tree if jax.process_count() == 1 else jax.tree.map(lambda of_all: of_all[0], _of_each_device(tree))


def any_process(flag: bool) -> bool:
    """Whether a flag is set in any of the processes, which all have to call this."""
    return flag if jax.process_count() == 1 else bool(_of_each_device(np.array(flag)).any())


class ProcessError(RuntimeError):
    """Another of several processes that run as one failed; the message says which and why."""


@contextmanager
def fail_together() -> Iterator[None]:
    """Within, an error in one process is raised in all of them, which all have to come here.

    There it keeps its kind and gets a note; in others it is a `ProcessError` with its message. What runs within must
    not itself wait for other processes.
    """
    error: Exception | None = None
    try:
        yield
    except Exception as raised:
        error = raised
    if jax.process_count() > 1:
        text = b"" if error is None else (str(error) or type(error).__name__).encode()[:TOLD]
        told = _of_each_device(np.frombuffer(text.ljust(TOLD, b"\0"), np.uint8))
        for device, of_device in zip(jax.devices(), told, strict=True):
            said = of_device.tobytes().rstrip(b"\0").decode(errors="replace")
            if said and error is None:
                error = ProcessError(f"process {device.process_index}: {said}")
        if error is not None:
            error.add_note(ALL_KNOW)
    if error is not None:
        raise error


def _of_each_device(tree: Tree) -> Tree:
    """Every device's array, which is its process's, along a new first axis; the first device is the first process's."""
    sharding = NamedSharding(_all_devices(), PartitionSpec("all"))

    def join(x: np.ndarray) -> jax.Array:
        shape = (len(jax.devices()), *np.shape(x))
        return jax.make_array_from_callback(shape, sharding, lambda index: np.asarray(x)[None])

    return to_host(jax.tree.map(join, tree))


def _same(x: jax.Array) -> jax.Array:
    return x


def _all_devices() -> Mesh:
    return Mesh(np.array(jax.devices()), ("all",))


def replicate(tree: Tree) -> Tree:
    """Arrays that all processes have, for compiled functions that run on all of their devices."""
    place = jax.device_put if jax.process_count() == 1 else _placed
    return place(tree, NamedSharding(_all_devices(), PartitionSpec()))


def _placed(tree: Tree, sharding: NamedSharding) -> Tree:
    """Arrays that all processes have as ones of all their devices, of which each gets its part."""

    def place(x: Any) -> jax.Array:
        if isinstance(x, jax.Array) and not x.is_fully_addressable:
            return x
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(place(jax.random.key_data(x)))
        whole = np.asarray(x)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(place, tree)


def _without_seed_axis(function: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
    """What `vmap` does for one seed, without its axis in every product: XLA lays those out less well."""

    def mapped(*arguments: Any) -> Any:
        own = [
            argument if axis is None else jax.tree.map(lambda x: x[0], argument)
            for argument, axis in zip(arguments, axes, strict=True)
        ]
        return jax.tree.map(lambda x: x[None], function(*own))

    return mapped


def _sequentially(function: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
    """What `vmap` does, one seed after another."""

    def mapped(*arguments: Any) -> Any:
        def of_seed(own: list[Any]) -> Any:
            seeds = iter(own)
            return function(
                *(argument if axis is None else next(seeds) for argument, axis in zip(arguments, axes, strict=True))
            )

        return jax.lax.map(of_seed, [argument for argument, axis in zip(arguments, axes, strict=True) if axis == 0])

    return mapped


def _seed_devices(seeds: int) -> int:
    devices, processes = jax.devices(), jax.process_count()
    number = max(n for n in range(1, len(devices) + 1) if seeds % n == 0)
    busy = {device.process_index for device in devices[: len(devices) // number * number]}
    if len(busy) < processes:
        raise ValueError(
            f"seeds: {seeds} go to {number} of {len(devices)} devices, so {processes - len(busy)} of {processes} "
            f"processes have nothing to do; choose a multiple of {len(devices)}, or fewer processes"
        )
    return number
