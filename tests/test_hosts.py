"""Several processes that run as one: they give the bits of one process, and a lost one ends the others in time."""

import signal
import socket
import time

from test_resume import assert_same_run, epochs_done, start

ONE_SEED = ["--seeds", "1"]  # so that the processes share every batch


def start_two(out):
    """Starts a run as two processes of one device each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    return [
        start(out, *ONE_SEED, "--coordinator", address, "--processes", "2", "--process", str(i), devices=1)
        for i in range(2)
    ]


def test_two_processes_end_as_one_does_even_if_one_of_them_is_lost(tmp_path):
    whole = start(tmp_path / "whole", *ONE_SEED, devices=2)
    _, shown = whole.communicate(timeout=300)
    assert whole.returncode == 0, shown

    out = tmp_path / "run"
    first, second = start_two(out)
    while first.poll() is None and epochs_done(out) < 11:
        time.sleep(0.002)
    lost = time.monotonic()
    second.kill()
    _, shown = first.communicate(timeout=90)
    second.communicate()
    assert first.returncode == 75
    assert "another process was lost" in shown
    assert "start all again, and the run goes on" in shown
    assert time.monotonic() - lost < 90

    again = start_two(out)
    said = [process.communicate(timeout=300) for process in again]
    assert [process.returncode for process in again] == [0, 0], said
    assert "attention: goes on after epoch" in said[0][1]
    assert "1 seed" in said[0][0]
    assert "epoch" not in said[1][1]  # the first alone speaks
    assert "seed" not in said[1][0]
    assert_same_run(out, tmp_path / "whole")

    finished = start_two(out)
    shown = [process.communicate(timeout=300)[0] for process in finished]
    assert [process.returncode for process in finished] == [0, 0]
    assert ["1 seed" in text for text in shown] == [True, False]


def test_asked_to_end_one_of_two_processes_ends_both(tmp_path):
    out = tmp_path / "run"
    processes = start_two(out)
    while processes[0].poll() is None and epochs_done(out) < 3:
        time.sleep(0.002)
    processes[1].send_signal(signal.SIGTERM)
    said = [process.communicate(timeout=90) for process in processes]
    assert [process.returncode for process in processes] == [143, 143], said
    assert f"stopped; with --out {out} the same command goes on" in said[0][1]
