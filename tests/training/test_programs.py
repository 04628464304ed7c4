"""Compiled programs are let go of: a process may have 65,530 memory maps, and each program takes some hundreds."""

from pathlib import Path

import jax
import pytest
from on_devices import CONFIG, make_graphs

from jattn.nn import AttentionPoolingConfig, Network, ScorerConfig, Threshold
from jattn.training import _seeds as seeds_of_jattn
from jattn.training import predict_seeds, train_seeds

MAPS = Path("/proc/self/maps")


@pytest.mark.slow
@pytest.mark.skipif(not MAPS.exists(), reason="the system does not list memory maps")
def test_many_networks_leave_few_programs_behind():
    graphs, maps = make_graphs(12, seed=0), []
    for cached in (seeds_of_jattn._compiled_epoch, seeds_of_jattn._compiled_init, seeds_of_jattn._compiled_predict):
        cached.cache_clear()
    for width in range(1, 2 * seeds_of_jattn.PROGRAMS + 1):
        network = Network((3, width), poolings=(None, AttentionPoolingConfig(Threshold(0.1), ScorerConfig("linear"))))
        *_, epoch = train_seeds(network, CONFIG, graphs, [0], epochs=1)
        predict_seeds(network, jax.device_get(epoch.state.params), graphs)
        maps.append(MAPS.read_text().count("\n"))
    kept, later = maps[seeds_of_jattn.PROGRAMS] - maps[0], maps[-1] - maps[seeds_of_jattn.PROGRAMS]
    assert kept > 0
    assert later < kept / 4
    assert maps[-1] < 20_000
