"""The command `jattn`, and what an installation has of a checkout."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import jattn
from experiments import __main__ as command
from experiments.run import program

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_help_lists_every_command_and_imports_nothing_heavy():
    code = "import sys; from experiments.__main__ import main; main(); print(*sys.modules, file=sys.stderr)"
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("usage: python -m experiments.COMMAND [ARGUMENTS ...]\n")
    for name, about in command.COMMANDS.items():
        assert any(line.split(maxsplit=1) == [name, about] for line in shown.stdout.splitlines())
    assert not {"jax", "numpy", "tyro", "matplotlib", "jattn"} & set(shown.stderr.split())


def test_help_of_a_command_imports_nothing_heavy():
    code = """
import contextlib, io, sys
from experiments.__main__ import main
for name in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main([name, "--help"])
print(*sys.modules)
"""
    names = list(command.COMMANDS)
    shown = subprocess.run([sys.executable, "-c", code, *names], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(shown.stdout.split())
    assert {f"experiments.{name.replace('-', '_')}" for name in names} <= loaded
    heavy = {
        "jax",
        "jraph",
        "scipy",
        "matplotlib",
        "skimage",
        "sklearn",
        "orbax",
        "optuna",
        "networkx",
        "pooch",
        "joblib",
    }
    assert not heavy & loaded


def test_the_version_is_that_of_the_library(capsys):
    command.main(["--version"])
    assert capsys.readouterr().out == f"jattn {jattn.__version__}\n"


def test_every_module_that_is_run_is_a_command():
    run = [file for file in (ROOT / "experiments").glob("*.py") if "__main__" in file.read_text("utf-8")]
    packages = [file.parent for file in (ROOT / "experiments").glob("*/__main__.py")]
    assert {file.stem for file in [*run, *packages]} - {"__main__"} == set(command.COMMANDS)


@pytest.mark.parametrize("name", command.COMMANDS)
def test_a_command_runs_the_main_of_its_module(name, monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main([name, "--help"])
    assert stop.value.code == 0
    assert f"usage: python -m experiments.{name} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["color"], "command 'color' is not known; did you mean colors?"),
        (["x"], "command 'x' is not known; expected one of: colors, triangles, "),
        (["--outt"], "command '--outt' is not known; "),
        ([""], "command '' is not known; "),
    ],
)
def test_an_unknown_command_is_an_error_of_a_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(arguments)
    assert stop.value.code == 2
    assert f"error: {message}" in capsys.readouterr().err


def test_an_installation_has_all_packages_of_the_checkout_and_no_experiments():
    setup = PYPROJECT["tool"]["setuptools"]
    files = [file.relative_to(ROOT) for room in ("jattn", "experiments") for file in (ROOT / room).rglob("*.py")]
    folders = {file.parent for file in files}
    names = {".".join(folder.parts).replace("experiments", "jattn_experiments", 1) for folder in folders}
    assert set(setup["packages"]) == names
    assert setup["package-dir"] == {"jattn_experiments": "experiments"}
    assert all((folder / "__init__.py").exists() for folder in map(ROOT.joinpath, folders))
    module, _, function = PYPROJECT["project"]["scripts"]["jattn"].partition(":")
    assert getattr(importlib.import_module(module.replace("jattn_experiments", "experiments")), function)


def test_an_installation_shows_and_starts_its_own_command(monkeypatch):
    assert program.program("colors") == "python -m experiments.colors"
    assert program.job_command("colors") == [sys.executable, "-m", "experiments.colors"]
    monkeypatch.setattr(program, "PACKAGE", "jattn_experiments")
    assert program.program("colors") == "jattn colors"
    assert program.job_command("colors") == [sys.executable, "-m", "jattn_experiments.colors"]
    assert program.as_typed("    python -m experiments.tu --dataset DD") == "    jattn tu --dataset DD"
    assert program.program("size_shift") == "jattn size-shift"


def test_modules_of_experiments_name_their_package_nowhere():
    """It has another name in an installation; texts for users go through `as_typed`."""
    for file in (ROOT / "experiments").rglob("*.py"):
        text = file.read_text("utf-8")
        assert "from experiments" not in text, file
        assert "import experiments" not in text, file
        assert 'f"experiments.' not in text, file
        assert '"python -m experiments.' not in text or file.name == "program.py", file
