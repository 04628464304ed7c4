"""However many devices there are, and whether they share seeds or batches: the same training, every graph once."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from on_devices import COUNTS, EVALUATED, SEEDS

from experiments import colors

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[1] / "on_devices.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    file = tmp_path_factory.mktemp("devices") / "results.npz"
    eight = {**os.environ, "JAX_NUM_CPU_DEVICES": "8"}
    done = subprocess.run([sys.executable, PROGRAM, file], env=eight, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return dict(np.load(file))


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("devices", COUNTS[1:])
def test_training_is_the_same_on_one_device_and_on_many(devices, seeds, results):
    curve = results[f"loss {devices} {seeds}"]
    assert curve.shape == (4, seeds)
    np.testing.assert_allclose(curve, results[f"loss 1 {seeds}"], rtol=1e-5)
    start = f"params {devices} {seeds} "
    compared = [name for name in results if name.startswith(start)]
    for name in compared:
        np.testing.assert_allclose(
            results[name], results[f"params 1 {seeds} {name.removeprefix(start)}"], rtol=1e-4, atol=1e-5
        )
    assert compared


@pytest.mark.parametrize("devices", COUNTS[1:])
def test_every_graph_is_counted_once_on_any_number_of_devices(devices, results):
    for what in ("prediction", "attention"):
        np.testing.assert_allclose(results[f"{what} {devices}"], results[f"{what} 1"], rtol=1e-5, atol=1e-6)
    assert results["prediction 1"].shape == (1, EVALUATED, 1)
    assert (results["prediction 1"] != 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--devices", "0"], "--devices: 0 is not allowed, expected at least 1"),
        (["--devices", "few"], "few"),
        (["--devices", "99"], "--devices: 99 requested, but this machine has 2 (cpu); say --devices all"),
        (
            ["--devices", "2", "--coordinator", "auto"],
            "--devices: with --coordinator each process uses all of its devices",
        ),
        (["--coordinator", "localhost"], "--coordinator: 'localhost' is not allowed, expected HOST:PORT, such as"),
        (["--coordinator", "localhost:0"], "--coordinator: 'localhost:0' is not allowed, expected HOST:PORT"),
        (["--coordinator", "http://a:80"], "--coordinator: 'http://a:80' is not allowed"),
        (["--coordinator", "auto", "--coordinator-timeout", "0"], "--coordinator-timeout: 0 is not allowed"),
        (["--seed", "4294967296"], "--seed: 4294967296 is not allowed, expected 0 to 4294967286"),
        (["--seed", "99999999999999999999999"], "--seed: 99999999999999999999999 is not allowed"),
        (["--seed", "-1"], "--seed: -1 is not allowed, expected 0 to"),
        (["--processes", "2"], "--processes: give it together with --coordinator HOST:PORT, and not without"),
        (["--coordinator", "a:1", "--processes", "2"], "--process: give it together with --coordinator HOST:PORT"),
        (
            ["--coordinator", "a:1", "--processes", "2", "--process", "2"],
            "--process: 2 is not allowed, expected 0 to 1",
        ),
        (["--checkpoint-every", "0"], "--checkpoint-every: 0 is not allowed"),
    ],
)
def test_a_wrong_number_of_devices_or_processes_is_an_error_with_advice(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        colors.EXPERIMENT.main([*arguments, "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
