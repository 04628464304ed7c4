"""Devices and processes: seeds are sharded over devices, and batches over the devices of a seed.

Several processes, each with devices of its own, run the same program on the same host-side data, as one.
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
MESSAGE_BYTES = 2048  # of an error message that other processes receive
Tree = TypeVar("Tree")


def devices_per_seed(seeds: int) -> int:
    """Number of devices that share the batches of each seed; more than 1 if seeds need half of all devices or fewer.

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
    """Compiles a function of one seed for many seeds: `shard_map` over devices, and a vmap over the seeds of a device.

    Args:
      function: maps pytrees to a pytree, for one seed.
      seeds: number of seeds; they go to the largest number of devices that divides it.
      *specs: `PartitionSpec` of each argument over the mesh ("seeds", "parts"): names of its leading axes. `function`
        sees no axis of seeds and an axis of parts of length 1. () if all devices have all of the argument.
      result: the same for the results: ("seeds",) if they are equal on all devices of a seed, as after `psum_shards`;
        ("seeds", "parts") if each device returns its own, with an axis of length 1.
      sequential: loop over the seeds of a device instead of a vmap, which would run all branches of a `switch`.
      optimize: False for a function that runs once; it compiles in a third of the time.
      costs: cost model of the program; the current one by default.

    Returns:
      The compiled function, whose results have the leading axes of `result`.
    """
    mesh = _seed_mesh(seeds)
    axes = tuple(0 if SEEDS in spec else None for spec in specs)
    map_seeds = _without_seed_axis if seeds == mesh.shape[SEEDS] else _sequentially if sequential else jax.vmap
    mapped, costs = map_seeds(function, axes), costs or cost_model()

    def with_costs(*arguments: Any) -> Any:
        with use_cost_model(costs):
            return mapped(*arguments)

    sharded = jax.shard_map(
        with_costs,
        mesh=mesh,
        in_specs=tuple(PartitionSpec(*spec) for spec in specs),
        out_specs=PartitionSpec(*result),
        check_vma=False,  # `function` makes the devices of a seed agree
    )
    compiled = jax.jit(sharded, compiler_options=None if optimize else {"xla_backend_optimization_level": 0})
    shardings = [NamedSharding(mesh, PartitionSpec(*spec)) for spec in specs]

    def on_all(*arguments: Any) -> Any:
        pairs = zip(arguments, shardings, strict=True)
        # Placing what is there already would take as long as some steps of small graphs.
        return compiled(*(tree if _is_placed(tree, sharding) else _place(tree, sharding) for tree, sharding in pairs))

    return on_all


def shard_batches(
    function: Callable[[Any, Any, Any, Any], Any], seeds: int, sequential: bool, costs: CostModel
) -> Callable[..., Any]:
    """Compiles a function of weights, a split, batches [steps, entries] and numbers; it takes [parts, steps, entries].

    Each part runs on its own device. The results of the function have to be 0 for graphs that are not in its batches.
    Seeds run as in `shard_seeds`.
    """

    def sum_parts(params: Any, split: Any, batches: Any, numbers: Any) -> Any:
        return psum_shards(function(params, split, batches[0], numbers))

    return shard_seeds(sum_parts, seeds, (SEEDS,), (), (PARTS,), (), sequential=sequential, costs=costs)


def psum_shards(tree: Tree) -> Tree:
    """Sum over parts of arrays that each have other rows filled and zeros elsewhere."""
    return jax.tree.map(lambda x: jax.lax.psum(x.astype(jnp.float32), PARTS).astype(x.dtype), tree)


def is_main_process() -> bool:
    """Whether this process is the first one, which alone writes files."""
    return jax.process_index() == 0


def to_host(tree: Tree) -> Tree:
    """Whole numpy arrays in every process; all processes have to call this."""

    def whole(x: Any) -> Any:
        if isinstance(x, jax.Array) and not x.is_fully_addressable:
            assert isinstance(x.sharding, NamedSharding)  # from `shard_seeds` or `replicate`
            return jax.jit(_identity, out_shardings=NamedSharding(x.sharding.mesh, PartitionSpec()))(x)
        return x

    return jax.device_get(jax.tree.map(whole, tree))


def broadcast_from_main(tree: Tree) -> Tree:
    """The numpy arrays of the first process, in all processes, whose arrays need the same shapes."""
    return tree if jax.process_count() == 1 else jax.tree.map(lambda arrays: arrays[0], _gather_devices(tree))


def any_process(flag: bool) -> bool:
    """Whether a flag is set in any process; all processes have to call this."""
    return flag if jax.process_count() == 1 else bool(_gather_devices(np.array(flag)).any())


class ProcessError(RuntimeError):
    """Another process of this run failed; the message says which and why."""


@contextmanager
def fail_together() -> Iterator[None]:
    """Raises an error of one process in all processes, which all have to enter and leave this context.

    The process itself raises its error with a note, the others a `ProcessError` with the message. Code inside must not
    wait for other processes.
    """
    error: Exception | None = None
    try:
        yield
    except Exception as raised:
        error = raised
    if jax.process_count() > 1:
        text = b"" if error is None else (str(error) or type(error).__name__).encode()[:MESSAGE_BYTES]
        messages = _gather_devices(np.frombuffer(text.ljust(MESSAGE_BYTES, b"\0"), np.uint8))
        for device, message in zip(jax.devices(), messages, strict=True):
            text_there = message.tobytes().rstrip(b"\0").decode(errors="replace")
            if text_there and error is None:
                error = ProcessError(f"process {device.process_index}: {text_there}")
        if error is not None:
            error.add_note(ALL_KNOW)
    if error is not None:
        raise error


def _gather_devices(tree: Tree) -> Tree:
    """The arrays of the processes of all devices, along a new first axis; the first process has the first device."""
    sharding = NamedSharding(_all_devices(), PartitionSpec("all"))

    def join(x: np.ndarray) -> jax.Array:
        shape = (len(jax.devices()), *np.shape(x))
        return jax.make_array_from_callback(shape, sharding, lambda index: np.asarray(x)[None])

    return to_host(jax.tree.map(join, tree))


def _identity(x: jax.Array) -> jax.Array:
    return x


def _all_devices() -> Mesh:
    return Mesh(np.array(jax.devices()), ("all",))


def replicate(tree: Tree) -> Tree:
    """Puts arrays that all processes have on all of their devices."""
    return _place(tree, NamedSharding(_all_devices(), PartitionSpec()))


def put_by_seed(tree: Any, seeds: int) -> Any:
    """Puts arrays [seeds, ...] where `shard_seeds` takes them, so that it does not move them in every call."""
    return _place(tree, NamedSharding(_seed_mesh(seeds), PartitionSpec(SEEDS)))


def _seed_mesh(seeds: int) -> Mesh:
    """The devices by seed, and by part of its batches."""
    shape = _seed_devices(seeds), devices_per_seed(seeds)
    return Mesh(np.array(jax.devices()[: shape[0] * shape[1]]).reshape(shape), (SEEDS, PARTS))


def _is_placed(tree: Any, sharding: NamedSharding) -> bool:
    """Whether all arrays are on the devices already, in a given sharding."""
    return all(
        isinstance(x, jax.Array) and x.sharding.is_equivalent_to(sharding, x.ndim) for x in jax.tree.leaves(tree)
    )


def _place(tree: Tree, sharding: NamedSharding) -> Tree:
    """Global arrays from the identical host copies of all processes."""
    if jax.process_count() == 1:
        return jax.device_put(tree, sharding)

    def place(x: Any) -> jax.Array:
        if isinstance(x, jax.Array) and not x.is_fully_addressable:
            return x
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(place(jax.random.key_data(x)))
        whole = np.asarray(x)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(place, tree)


def _without_seed_axis(function: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
    """A vmap over one seed, without its axis in products, whose layout XLA would choose less well."""

    def mapped(*arguments: Any) -> Any:
        without_axis = [
            argument if axis is None else jax.tree.map(lambda x: x[0], argument)
            for argument, axis in zip(arguments, axes, strict=True)
        ]
        return jax.tree.map(lambda x: x[None], function(*without_axis))

    return mapped


def _sequentially(function: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
    """A vmap as a loop: one seed after another."""

    def mapped(*arguments: Any) -> Any:
        def run_seed(arguments_of_seed: list[Any]) -> Any:
            seeds = iter(arguments_of_seed)
            return function(
                *(argument if axis is None else next(seeds) for argument, axis in zip(arguments, axes, strict=True))
            )

        return jax.lax.map(run_seed, [argument for argument, axis in zip(arguments, axes, strict=True) if axis == 0])

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
