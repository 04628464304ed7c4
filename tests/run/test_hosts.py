"""Several processes that run as one: they give the bits of one process, and a lost one ends the others in time."""

import signal
import socket
import time

import pytest
from test_resume import assert_same_run, epochs_done, start
from waiting import wait_until

pytestmark = pytest.mark.slow

ONE_SEED = ["--seeds", "1"]  # so that the processes share every batch


def start_two(out, *arguments, first=()):
    """Starts a run as two processes of one device each; `first` are lines that the first of them runs before."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    return [
        start(
            out,
            *(*ONE_SEED, *arguments, "--coordinator", address, "--processes", "2", "--process", str(i)),
            devices=1,
            before=() if i else first,
        )
        for i in range(2)
    ]


def test_two_processes_end_as_one_does_even_if_one_of_them_is_lost(tmp_path):
    whole = start(tmp_path / "whole", *ONE_SEED, devices=2)
    _, shown = whole.communicate(timeout=300)
    assert whole.returncode == 0, shown

    out = tmp_path / "run"
    first, second = start_two(out)
    wait_until(lambda: first.poll() is not None or epochs_done(out) >= 11)
    lost = time.monotonic()
    second.kill()
    _, shown = first.communicate(timeout=90)
    second.communicate(timeout=60)
    assert first.returncode == 75
    assert "another process was lost" in shown
    assert "start all of them again to resume the run" in shown
    assert time.monotonic() - lost < 90

    again = start_two(out)
    printed = [process.communicate(timeout=300) for process in again]
    assert [process.returncode for process in again] == [0, 0], printed
    assert "attention: resumed after epoch" in printed[0][1]
    assert "1 seed" in printed[0][0]
    assert "epoch" not in printed[1][1]  # the first alone speaks
    assert "seed" not in printed[1][0]
    assert_same_run(out, tmp_path / "whole")

    finished = start_two(out)
    shown = [process.communicate(timeout=300)[0] for process in finished]
    assert [process.returncode for process in finished] == [0, 0]
    assert ["1 seed" in text for text in shown] == [True, False]


def test_asked_to_end_one_of_two_processes_ends_both(tmp_path):
    out = tmp_path / "run"
    processes = start_two(out)
    wait_until(lambda: processes[0].poll() is not None or epochs_done(out) >= 3)
    processes[1].send_signal(signal.SIGTERM)
    printed = [process.communicate(timeout=90) for process in processes]
    assert [process.returncode for process in processes] == [143, 143], printed
    assert f"stopped; to resume, repeat the command with --out {out}" in printed[0][1]


def test_two_processes_end_together_where_one_of_them_is_asked_between_stages(tmp_path):
    asked = """
import os, signal
from experiments.run.stages import StageTrainer
compute = StageTrainer.leave_one_out_labels
def ask_first(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    return compute(*arguments)
StageTrainer.leave_one_out_labels = ask_first"""
    processes = start_two(tmp_path / "run", "--teacher-epochs", "1", first=asked)
    printed = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [143, 143], printed
    assert f"stopped; to resume, repeat the command with --out {tmp_path / 'run'}" in printed[0][1]


def with_full_disk(module, function):
    """A line that makes a function of the experiments fail as on a full disk."""
    failing = 'def full(*_, **__): raise OSError(28, "No space left on device")'
    return f"import experiments.{module} as module\n{failing}\nmodule.{function} = full"


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (
            with_full_disk("run.checkpoints", "ocp.CheckpointManager.save"),
            "checkpoints can't be written (No space left on device); those before are kept",
        ),
        (with_full_disk("run.stages", "Progress.show"), "No space left on device"),
        (with_full_disk("run.results", "write_results"), "No space left on device"),
        (with_full_disk("colors", "datasets.generate_colors"), "No space left on device"),
    ],
)
def test_an_error_in_the_first_of_two_processes_ends_both_within_seconds_with_its_message(first, message, tmp_path):
    processes = start_two(tmp_path / "run", "--epochs", "2", "--teacher-epochs", "1", first=first)
    printed = processes[0].communicate(timeout=120)[1]
    failed = time.monotonic()
    other = processes[1].communicate(timeout=60)[1]
    assert time.monotonic() - failed < 15
    assert [process.returncode for process in processes] == [2, 2], (printed, other)
    assert message in printed
    assert "error: process 0: " in other and message in other
    assert "another process was lost" not in other


def test_an_unexpected_error_in_one_of_two_processes_ends_both_within_seconds(tmp_path):
    broken = "from experiments.run import stages\ndef broken(*_): return 1 / 0\nstages.mean_std = broken"
    processes = start_two(tmp_path / "run", "--epochs", "2", "--teacher-epochs", "1", first=broken)
    printed = processes[0].communicate(timeout=120)[1]
    failed = time.monotonic()
    other = processes[1].communicate(timeout=60)[1]
    assert time.monotonic() - failed < 15
    assert processes[0].returncode == 1
    assert "ZeroDivisionError" in printed
    assert processes[1].returncode == 75, other
