"""Commands on systems that lack what Unix has, in threads, and for users without a home."""

import os
import pwd
import signal
import subprocess
import sys
import tempfile
import threading

import fake_runs
import pytest

from experiments import colors
from experiments.run.folder import read_lines
from jattn.datasets._cache_folder import cache_folder

TINY = ["supervised", "--seeds", "1", "--epochs", "1", "--train-graphs", "8", "--test-graphs", "4", "--quiet"]
OF_UNIX = {
    os: ["sched_getaffinity", "sched_setaffinity", "killpg", "getuid", "geteuid", "EX_TEMPFAIL", "waitid", "setsid"],
    signal: ["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGKILL"],
}

# Ours are imported when the libraries that we use are there: those have ways of their own where Unix' are missing.
WITHOUT_UNIX = """
import contextlib, os, runpy, signal, sys
import filelock, jax, pooch, joblib, jraph, matplotlib.figure, optax, optuna, orbax.checkpoint
import skimage, sklearn.metrics, tyro
for module in ("resource", "fcntl", "grp", "pwd", "termios"):
    sys.modules[module] = None
for module, names in {os: OS, signal: SIGNAL}.items():
    for name in names:
        with contextlib.suppress(AttributeError):
            delattr(module, name)
os.process_cpu_count = os.cpu_count  # what Python has there, from 3.13 on
"""
WITHOUT_UNIX = WITHOUT_UNIX.replace("OS", repr(OF_UNIX[os]), 1).replace("SIGNAL", repr(OF_UNIX[signal]), 1)


@pytest.mark.slow
def test_commands_start_on_a_system_that_is_no_unix(tmp_path):
    code = f"""{WITHOUT_UNIX}
for name in ("colors", "tu", "paper", "sweep", "initialization", "published", "triangles", "mnist75sp"):
    sys.argv = [name, "--help"]
    try:
        runpy.run_module("experiments." + name, run_name="__main__")
    except SystemExit as end:
        assert end.code == 0, name
from experiments import colors
colors.EXPERIMENT.main({[*TINY, "--out", str(tmp_path / "run")]!r})
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180)
    assert shown.returncode == 0, shown.stderr
    assert "1 seed" in shown.stdout
    assert "host_memory_mib" not in read_lines(tmp_path / "run/metrics.jsonl")[-1]


def test_a_sweep_runs_on_a_system_that_is_no_unix(fake, monkeypatch):
    for module, names in OF_UNIX.items():
        for name in names:
            monkeypatch.delattr(module, name, raising=False)
    fake_runs.run(fake, "weak", "--seeds", "2", "--seeds-per-job", "1")
    assert [row["jobs_done"] for row in fake_runs.summary(fake)] == ["2"]


def in_thread(function, *arguments):
    """Calls a function in a thread, as notebooks and servers do."""
    failures = []

    def call():
        try:
            function(*arguments)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(120)
    assert not thread.is_alive()
    assert failures == []


@pytest.mark.slow
def test_an_experiment_and_a_sweep_run_in_a_thread(tmp_path, fake, capsys):
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    in_thread(colors.EXPERIMENT.main, [*TINY, "--out", str(tmp_path / "run")])
    assert "1 seed" in capsys.readouterr().out
    in_thread(fake_runs.run, fake, "weak", "--seeds", "2")
    assert [row["jobs_done"] for row in fake_runs.summary(fake)] == ["1"]
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.fixture
def nobody(tmp_path, monkeypatch):
    """A user without a home and a name, as `docker run --user 12345` makes one; the temporary folder."""

    def unknown(user):
        raise KeyError(f"getpwuid(): uid not found: {user}")

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_user_without_a_home_has_a_cache_in_the_temporary_folder(nobody):
    with pytest.warns(UserWarning, match="there is no home folder .*; set XDG_CACHE_HOME") as warned:
        folder = cache_folder()
    assert len(warned) == 1
    assert folder == nobody / f"jattn-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_home_that_can_not_be_written_is_no_place_for_a_cache(nobody, monkeypatch):
    (nobody / "file").touch()
    monkeypatch.setenv("HOME", str(nobody / "file"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.warns(UserWarning, match="can't be made: caches go to"):
        assert cache_folder() == nobody / f"jattn-{os.getuid()}"


def test_a_temporary_cache_of_another_user_is_refused(nobody, monkeypatch):
    (nobody / "jattn-54321").symlink_to(nobody)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    with pytest.raises(PermissionError, match="belongs to another user; set XDG_CACHE_HOME"):
        cache_folder()


def test_a_variable_chooses_the_cache(nobody, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(cache_folder()) == "/somewhere/jattn"
