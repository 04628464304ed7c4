"""Commands work, or say in a line why not, whatever the environment that they are started in."""

import os
import re
import subprocess
import sys

import jax
import matplotlib
import pytest
from cases import slow

from experiments import colors
from experiments.run.folder import RunConfig, write_results
from experiments.run.groups import flat
from experiments.run.pictures import try_to_write
from jattn.io import write_json

TINY = ["supervised", "--seeds", "1", "--epochs", "1", "--train-graphs", "8", "--test-graphs", "4"]


def python(*arguments, before="pass", unset=(), **variables):
    """What a command prints and its status, in an environment of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in unset} | variables
    code = f"import runpy, sys; {before}; sys.argv[1:] = {list(arguments[1:])!r}; "
    code += f"runpy.run_module({arguments[0]!r}, run_name='__main__')"
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=120, text=True)


@pytest.mark.parametrize("backend", ["nonsense", slow("module://matplotlib_inline.backend_inline"), slow("tkagg")])
def test_a_command_starts_whatever_backend_is_asked_for(backend):
    shown = python("experiments.colors", "--help", MPLBACKEND=backend)
    assert shown.returncode == 0, shown.stderr
    assert "Traceback" not in shown.stderr


def test_a_backend_that_exists_stays_the_choice_of_who_draws_in_the_same_process():
    code = "import os, experiments, matplotlib; print(matplotlib.get_backend(), os.environ['MPLBACKEND'])"
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MPLBACKEND": "svg"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert shown.stdout == "svg svg\n"


@pytest.mark.slow
def test_pictures_of_a_run_need_no_latex(tmp_path):
    with matplotlib.rc_context({"text.usetex": True}):
        colors.EXPERIMENT.main([*TINY, "--out", str(tmp_path / "run")])
    for picture in ("training.png", "accuracy.png", "graphs.png"):
        assert (tmp_path / "run" / picture).read_bytes().startswith(b"\x89PNG")
    assert 'id="graphs-data"' in (tmp_path / "run/report.html").read_text("utf-8")


def test_a_picture_that_fails_is_named_and_the_run_has_its_results(tmp_path, monkeypatch, capsys):
    def fail(*arguments):
        assert (tmp_path / "run/results.json").exists()
        raise RuntimeError("no room\nfor this")

    monkeypatch.setattr("experiments.run.pictures.accuracy_figure", fail)
    colors.EXPERIMENT.main([*TINY, "--out", str(tmp_path / "run")])
    shown = capsys.readouterr()
    assert f"warning: {tmp_path / 'run/accuracy.png'} can't be written: no room\n" in shown.err
    assert "1 seed" in shown.out
    assert (tmp_path / "run/graphs.png").exists()


def test_a_report_that_fails_is_named_and_the_run_has_its_results(tmp_path, monkeypatch, capsys):
    def fail(*arguments):
        raise RuntimeError("no room")

    monkeypatch.setattr("experiments.reports.runs.write_report", fail)
    monkeypatch.setattr("experiments.run.protocol.write_samples", fail)
    colors.EXPERIMENT.main([*TINY, "--out", str(tmp_path / "run")])
    shown = capsys.readouterr()
    for file in ("report.html", "samples.npz"):
        assert f"warning: {tmp_path / 'run' / file} can't be written: no room\n" in shown.err
        assert not (tmp_path / "run" / file).exists()
    assert "1 seed" in shown.out
    assert (tmp_path / "run/results.json").exists()


def test_interrupts_are_no_failures_of_a_picture(tmp_path):
    def interrupt(path):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        try_to_write(tmp_path / "x.png", interrupt)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        slow({"JAX_PLATFORMS": "cuda"}, "error: JAX_PLATFORMS=cuda: jax finds no such device here, but cpu; unset the"),
        slow({"JAX_PLATFORMS": "tpu"}, "error: JAX_PLATFORMS=tpu: jax finds no such device here, but cpu; unset the"),
        slow({"JAX_NUM_CPU_DEVICES": "abc"}, "JAX_NUM_CPU_DEVICES=abc"),
        ({"JAX_NUM_CPU_DEVICES": "-1"}, "error: JAX_NUM_CPU_DEVICES=-1: expected at least 1; this machine has "),
        slow({"JAX_ENABLE_X64": "perhaps"}, "JAX_ENABLE_X64=perhaps"),
    ],
)
def test_a_variable_that_asks_for_what_is_not_there_is_an_error_of_a_line(variables, message, tmp_path):
    shown = python("experiments.colors", *TINY, "--out", str(tmp_path / "run"), **variables)
    assert shown.returncode == 2
    assert shown.stdout == ""
    (line,) = [line for line in shown.stderr.splitlines() if line.startswith("error: ")]
    assert message in line
    assert "Traceback" not in shown.stderr
    assert not (tmp_path / "run").exists()


ASCII = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""}


@pytest.mark.parametrize("encoding", [slow(ASCII), slow({"PYTHONIOENCODING": "ascii"})])
def test_tables_are_printed_where_output_has_no_plus_minus(encoding, tmp_path):
    shown = python("experiments.colors", *TINY, "--out", str(tmp_path / "run"), **encoding)
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"^1 seed +\d+\.\d \+- 0\.0", shown.stdout, re.MULTILINE)


@pytest.mark.slow
def test_files_are_utf8_whatever_the_encoding_of_the_place(tmp_path):
    run = tmp_path / "colors/supervised_seeds=0-1"
    run.mkdir(parents=True)
    job = colors.EXPERIMENT.parse(["supervised", "--seeds", "2", "--quiet"])[1]
    about = RunConfig("colors", "supervised", flat(job), None)
    write_json(run / "config.json", {"format": 2, **about._asdict()})
    spread = {"mean": 50.0, "std": 1.0, "values": [49.0, 51.0]}
    subset = {"accuracy": spread, "attention_auc": [spread]}
    subsets = dict.fromkeys(("orig", "large", "largec", "all"), subset)
    write_results(run, {"subsets": subsets, "seconds": {"attention": 1.0}})
    asked = ("table1", "--no-run", "--tasks", "colors", "--seeds", "colors=2", "--out", str(tmp_path))
    shown = python("experiments.paper", *asked, **ASCII)
    assert shown.returncode == 0, shown.stderr
    assert "50.0 +- 1.0" in shown.stdout
    for file in ("table1.txt", "table1.md", "report.html"):
        assert "50.0 ± 1.0" in (tmp_path / file).read_text("utf-8")


@pytest.mark.slow
def test_other_characters_are_printed_as_escapes():
    shown = python("experiments.colors", "größer\udcff", PYTHONIOENCODING="ascii")
    assert "error: preset 'gr\\xf6\\xdfer\\udcff' is not known" in shown.stderr


def test_memory_that_does_not_suffice_is_an_error_of_a_line(tmp_path, monkeypatch, capsys):
    def run(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8589934592 bytes.\nmore")

    monkeypatch.setattr("experiments.run.protocol.run", run)
    with pytest.raises(SystemExit) as stop:
        colors.EXPERIMENT.main([*TINY, "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    printed = capsys.readouterr().err
    assert "error: out of memory (RESOURCE_EXHAUSTED: Out of memory allocating 8589934592 bytes.); ask for" in printed


def test_help_may_go_into_a_pipe_that_is_closed_early():
    command = f"{sys.executable} -m experiments.colors --help | head -n 1"
    shown = subprocess.run(command, shell=True, capture_output=True, timeout=120, text=True)
    assert shown.stdout.startswith("usage: ")
    assert shown.stderr == ""
