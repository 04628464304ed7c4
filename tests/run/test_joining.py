"""Processes that are to run as one and can't meet end in time, with a line that says why."""

import os
import socket
import subprocess
import sys
import time

import pytest

TINY = ["supervised", "--seeds", "2", "--epochs", "1", "--train-graphs", "8", "--test-graphs", "4"]
SLURM = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NODELIST": "localhost"}


def start(*arguments, **variables):
    command = [sys.executable, "-m", "experiments.colors", *TINY, *arguments]
    began = time.monotonic()
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=120)
    return done, time.monotonic() - began


def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.slow
@pytest.mark.parametrize("process", [0, 1])
def test_a_process_that_no_other_joins_ends_at_the_time_limit(process, tmp_path):
    which = ["--coordinator", address(), "--processes", "2", "--process", str(process)]
    done, seconds = start(*which, "--coordinator-timeout", "2", "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert seconds < 60
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"error: --coordinator: process {process} of 2, counted from 0: not all came to 127.0.0.1:")
    assert last.endswith("within 2 s; see that all are started and can reach it, or set --coordinator-timeout")
    assert not (tmp_path / "run").exists()


def test_a_step_of_fewer_processes_than_its_job_is_refused_at_once(tmp_path):
    asked = ["--coordinator", "auto", "--out", str(tmp_path / "run")]
    done, _ = start(*asked, **SLURM, SLURM_NTASKS="2", SLURM_STEP_NUM_TASKS="1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "error: --coordinator: the job has 2 processes (SLURM_NTASKS), its step 1 (SLURM_STEP_NUM_TASKS); "
        "start all of them with one srun --ntasks=2"
    )


@pytest.mark.slow
@pytest.mark.parametrize("tasks", ["1", "2"])
def test_what_a_batch_system_says_is_told_where_the_others_do_not_come(tasks, tmp_path):
    asked = ["--coordinator", "auto", "--coordinator-timeout", "2", "--out", str(tmp_path / "run")]
    nowhere = {**SLURM, "SLURM_STEP_NODELIST": "no-such-machine.invalid", "SLURM_NTASKS": tasks}
    done, seconds = start(*asked, **nowhere)
    assert done.returncode == 2
    assert seconds < 60
    last = done.stderr.splitlines()[-1]
    assert f"this process, SLURM_NTASKS={tasks}, SLURM_PROCID=0, SLURM_STEP_NODELIST=no-such-machine.invalid" in last
    assert "not all came to the address that the batch system names within 2 s" in last


@pytest.mark.slow
def test_without_a_batch_system_auto_is_an_error_of_a_line(tmp_path):
    done, _ = start("--coordinator", "auto", "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        "error: --coordinator: no batch system says where the processes meet"
    )
