"""Our side of the comparison with PyTorch Geometric: rounds of work that end when the round does."""

from collections.abc import Iterator

import jax

from benchmarks.workloads import BATCH, Workload
from experiments.run.devices import configure_jax
from jattn import leave_one_out_seeds, train_seeds


def training(workload: Workload, rounds: int) -> Iterator[float]:
    """Trains an epoch a round, and yields the share of nodes kept. The first compiles, and trains two."""
    _configure()
    # Its last epoch is reported without another being trained, so one more than is reported is asked for.
    for epoch in train_seeds(workload.network, workload.config, workload.graphs, [0], rounds + 1, BATCH):
        jax.block_until_ready(epoch.loss)
        yield float(epoch.predictions.node_masks[-1].mean())


def leave_one_out(workload: Workload, rounds: int) -> Iterator[float]:
    """Computes the attribution of all graphs in each round, and yields the share of nodes kept: all."""
    _configure()
    teacher = workload.teacher
    state = next(train_seeds(teacher, workload.teacher_config, workload.graphs, [0], 1, BATCH)).state
    for _ in range(rounds):
        leave_one_out_seeds(teacher, state.params, workload.graphs, workload.task)
        yield 1.0


def _configure() -> None:
    jax.config.update("jax_platforms", "cpu")
    configure_jax()
    # `train_seeds` has the device train the next epoch while its caller looks at the last one; without this it would do
    # so in PyG's turn.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
