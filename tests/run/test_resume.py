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
from waiting import wait_until

from experiments import colors
from experiments.run import stages
from experiments.run.checkpoints import Checkpoints
from experiments.run.folder import read_lines
from jattn import Network, datasets, load_network
from jattn.evaluation import mean_std

ROOT = Path(__file__).resolve().parents[2]
TINY = ["--seeds", "2", "--epochs", "12", "--teacher-epochs", "8", "--train-graphs", "40", "--test-graphs", "12"]
TIMES = ("seconds", "graphs_per_second", "compile_seconds", "host_memory_mib")  # what may differ


def start(out, *arguments, devices=2, before=()):
    """Starts a weakly supervised run that saves after every epoch, as a process of its own; first it runs some code."""
    main = "import sys; from experiments import colors; colors.EXPERIMENT.main(sys.argv[1:])"
    program = ["-c", f"{before}\n{main}"] if before else ["-m", "experiments.colors"]
    command = [sys.executable, *program, *TINY, "--checkpoint-every", "1", "--out", str(out)]
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


@pytest.mark.slow
def test_a_run_that_is_killed_at_random_moments_ends_as_if_it_had_not_been(undisturbed, tmp_path):
    seed = time.time_ns() % 1000  # other moments each time; a failure tells it
    print(f"seed {seed}")
    rng, out = np.random.default_rng(seed), tmp_path / "run"
    for at_least in (
        rng.integers(1, 8),
        rng.integers(9, 14),
        rng.integers(14, 20),
    ):  # of 20 epochs, 8 of them the teacher's
        process = start(out)
        wait_until(lambda: process.poll() is not None or epochs_done(out) >= at_least)  # noqa: B023
        time.sleep(rng.uniform(0, 0.06))  # a save takes 0.04 s
        process.kill()
        process.communicate(timeout=60)
    process = start(out)
    _, shown = process.communicate(timeout=300)
    assert process.returncode == 0, shown
    assert "resumed after epoch" in shown
    assert_same_run(out, undisturbed[0])


@pytest.mark.default_xla
@pytest.mark.slow
def test_a_run_that_is_asked_to_end_saves_and_goes_on_later(undisturbed, tmp_path):
    out, rarely = tmp_path / "run", ["--checkpoint-every", "100"]
    process = start(out, *rarely)
    wait_until(lambda: process.poll() is not None or epochs_done(out) >= 11)  # the third of the second stage
    process.send_signal(signal.SIGTERM)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert f"stopped; to resume, repeat the command with --out {out}" in shown
    done = epochs_done(out)
    process = start(out, *rarely)
    _, shown = process.communicate(timeout=300)
    assert f"attention: resumed after epoch {done - 8} of 12" in shown
    assert_same_run(out, undisturbed[0])


@pytest.mark.slow
def test_a_finished_run_shows_its_table_again(undisturbed):
    out, first = undisturbed
    before = (out / "results.json").stat().st_mtime_ns
    process = start(out)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    *table, last = first.splitlines()
    assert shown.splitlines() == [*table, f"finished before, in {last.split()[0]} s: {out}"]
    assert (out / "results.json").stat().st_mtime_ns == before


FEW = ["--seeds", "3", "--train-graphs", "40", "--test-graphs", "12", "--learning-rate", "0.1", "--quiet"]


def kernels(folder):
    return load_network(folder / "weights.npz")[1]["conv_0"]["linear"]["kernel"]


@pytest.mark.slow
def test_each_seeds_best_checkpoint_is_tested_where_that_is_asked_for(tmp_path, monkeypatch):
    scores = {2: [1.0, 3.0, 0.0], 4: [2.0, 1.0, 0.0], 6: [1.0, 2.0, 0.0]}  # of each seed
    best = [4, 2, 6]
    asked = iter([*scores.values(), scores[2], KeyboardInterrupt(), scores[4], scores[6]])

    def validate(*arguments):
        given = next(asked)
        if isinstance(given, BaseException):
            raise given
        return mean_std(given)

    monkeypatch.setattr(stages.StageTrainer, "_validation_accuracy", validate)
    command = ["supervised", *FEW, "--epochs", "6", "--checkpoint-every", "2", "--best", "--out"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    colors.EXPERIMENT.main([*command, str(whole)])
    lines = read_lines(whole / "metrics.jsonl")
    validated = {line["epoch"]: line["validation_accuracy"] for line in lines if "validation_accuracy" in line}
    assert {epoch: scores_of["values"] for epoch, scores_of in validated.items()} == scores
    for seed, epoch in enumerate(best):  # trained for as long as that
        other = tmp_path / f"{epoch}"
        colors.EXPERIMENT.main(["supervised", *FEW, "--epochs", str(epoch), "--out", str(other)])
        np.testing.assert_allclose(kernels(whole)[seed], kernels(other)[seed], atol=1e-6)

    with pytest.raises(SystemExit):
        colors.EXPERIMENT.main([*command, str(stopped)])
    assert not (stopped / "results.json").exists()
    colors.EXPERIMENT.main([*command, str(stopped)])
    np.testing.assert_array_equal(kernels(stopped), kernels(whole))


@pytest.mark.slow
def test_data_are_the_same_wherever_they_lie_and_others_are_not_in_the_same_place(tmp_path, monkeypatch, capsys):
    """And another version of flax that prints networks another way changes nothing."""

    def read(folder):
        return datasets.generate_colors(3, 30, 6, 6, seed=int((folder / "seed").read_text()))

    def copy(name, seed):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "seed").write_text(str(seed))
        return str(tmp_path / name)

    monkeypatch.setattr(datasets, "published_colors", read)
    out, short = tmp_path / "run", ["weak", "--seeds", "2", "--epochs", "2", "--teacher-epochs", "2", "--quiet"]
    command = [*short, "--checkpoint-every", "1", "--out", str(out), "--data-dir"]
    colors.EXPERIMENT.main([*command, copy("a", 0)])
    (out / "results.json").unlink()  # as if it had been stopped
    first, kept = kernels(out), {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    copy("a", 1)
    with pytest.raises(SystemExit) as stop:
        colors.EXPERIMENT.main([*command, str(tmp_path / "a")])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "another configuration" in said
    assert "data.train: the digest differs" in said
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == kept
    with monkeypatch.context() as patched:
        patched.setattr(Network, "__repr__", lambda network: "another way to print it")
        patched.setattr(stages, "leave_one_out_seeds", lambda *arguments: pytest.fail("labels were there"))
        patched.setattr(Checkpoints, "save", lambda *arguments: pytest.fail("all was trained"))
        colors.EXPERIMENT.main([*command, copy("b", 0)])
    np.testing.assert_array_equal(kernels(out), first)
    colors.EXPERIMENT.main([*command, copy("c", 0)])  # it is finished, and still the same data
