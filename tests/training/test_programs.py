"""Compiled programs are let go of: a process may have 65,530 memory maps, and each program takes some hundreds."""

from pathlib import Path

import jax
import pytest
from on_devices import make_graphs

from jattn.nn import Network
from jattn.training import TrainConfig, predict_seeds, train_seeds
from jattn.training import _seeds as seeds_of_jattn

MAPS = Path("/proc/self/maps")


@pytest.mark.slow
@pytest.mark.skipif(not MAPS.exists(), reason="the system does not list memory maps")
def test_many_networks_leave_few_programs_behind():
    graphs, maps = make_graphs(12, seed=0), []
    for cached in (seeds_of_jattn._compiled_epoch, seeds_of_jattn._compiled_init, seeds_of_jattn._compiled_predict):
        cached.cache_clear()
    for width in range(1, 3 * seeds_of_jattn.PROGRAMS // 2 + 1):
        network = Network((width,))
        *_, epoch = train_seeds(network, TrainConfig(), graphs, [0], epochs=1)
        predict_seeds(network, jax.device_get(epoch.state.params), graphs)
        maps.append(MAPS.read_text().count("\n"))
    kept, later = maps[seeds_of_jattn.PROGRAMS] - maps[0], maps[-1] - maps[seeds_of_jattn.PROGRAMS]
    assert kept > 0
    assert later < kept / 4
    assert maps[-1] < 20_000
