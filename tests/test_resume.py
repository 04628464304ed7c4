"""Runs that are killed, asked to end, or started twice: they end with the bits of a run that was left alone."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from experiments import colors
from jattn.runs import read_lines

ROOT = Path(__file__).resolve().parents[1]
TINY = ["--seeds", "2", "--epochs", "12", "--twin-epochs", "8", "--train-graphs", "40", "--test-graphs", "12"]
TIMES = ("seconds", "graphs_per_second", "compile_seconds", "host_memory_mib")  # what may differ


def start(out, *arguments, devices=2):
    """Starts a weakly supervised run that saves after every epoch, as a process of its own."""
    command = [sys.executable, "-m", "experiments.colors", *TINY, "--checkpoint-every", "1", "--out", str(out)]
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)}
    return subprocess.Popen(
        [*command, *arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    process = start(out)
    shown, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return out, shown


def assert_same_run(out, expected):
    with np.load(out / "weights.npz") as a, np.load(expected / "weights.npz") as b:
        assert a.files == b.files
        for name in a.files:
            assert a[name].tobytes() == b[name].tobytes()
    with np.load(out / "labels.npz") as a, np.load(expected / "labels.npz") as b:
        assert a["target"].tobytes() == b["target"].tobytes()
    results, expected_results = (json.loads((path / "results.json").read_text()) for path in (out, expected))
    assert results["subsets"] == expected_results["subsets"]
    assert results["seconds"].keys() == expected_results["seconds"].keys()
    lines, expected_lines = (
        [
            {name: value for name, value in line.items() if name not in TIMES}
            for line in read_lines(path / "metrics.jsonl")
        ]
        for path in (out, expected)
    )
    assert lines == expected_lines


def epochs_done(out):
    file = out / "metrics.jsonl"
    return len(read_lines(file)) if file.exists() else 0


def test_a_run_that_is_killed_at_random_moments_ends_as_if_it_had_not_been(undisturbed, tmp_path):
    seed = time.time_ns() % 1000  # other moments each time; a failure tells it
    print(f"seed {seed}")
    rng, out = np.random.default_rng(seed), tmp_path / "run"
    for at_least in (
        rng.integers(1, 8),
        rng.integers(9, 14),
        rng.integers(14, 20),
    ):  # of 20 epochs, 8 of them the twin's
        process = start(out)
        while process.poll() is None and epochs_done(out) < at_least:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.06))  # a save takes 0.04 s
        process.kill()
        process.communicate(timeout=60)
    process = start(out)
    _, shown = process.communicate(timeout=300)
    assert process.returncode == 0, shown
    assert "goes on after epoch" in shown
    assert_same_run(out, undisturbed[0])


def test_a_run_that_is_asked_to_end_saves_and_goes_on_later(undisturbed, tmp_path):
    out, rarely = tmp_path / "run", ["--checkpoint-every", "100"]
    process = start(out, *rarely)
    while process.poll() is None and epochs_done(out) < 11:  # the third of the second stage
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert f"stopped; with --out {out} the same command goes on" in shown
    done = epochs_done(out)
    process = start(out, *rarely)
    _, shown = process.communicate(timeout=300)
    assert f"attention: goes on after epoch {done - 8} of 12" in shown
    assert_same_run(out, undisturbed[0])


def test_a_finished_run_shows_its_table_again(undisturbed):
    out, first = undisturbed
    before = (out / "results.json").stat().st_mtime_ns
    process = start(out)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert shown == first
    assert (out / "results.json").stat().st_mtime_ns == before


def test_the_best_checkpoint_is_tested_where_that_is_asked_for(tmp_path):
    few = ["--seeds", "2", "--epochs", "6", "--train-graphs", "40", "--test-graphs", "12", "--learning-rate", "0.1"]
    out = tmp_path / "run"
    command = ["supervised", *few, "--checkpoint-every", "2", "--best", "--out", str(out)]
    colors.EXPERIMENT.main(command)
    lines = read_lines(out / "metrics.jsonl")
    validated = {line["epoch"]: line["validation_accuracy"]["mean"] for line in lines if "validation_accuracy" in line}
    assert validated.keys() == {2, 4, 6}
    best = max(validated, key=lambda epoch: (validated[epoch], epoch))
    other = tmp_path / "other"  # trained for as long as that
    few[3] = str(best)
    colors.EXPERIMENT.main(["supervised", *few, "--out", str(other)])
    with np.load(out / "weights.npz") as a, np.load(other / "weights.npz") as b:
        np.testing.assert_allclose(a["conv_0/linear/kernel"], b["conv_0/linear/kernel"], atol=1e-6)
