"""What the README shows is what happens, and it is short."""

import os
import re
import subprocess
import sys

import pytest
from pages import README, ROOT, examples


def test_it_is_short():
    assert len(README.splitlines()) <= 150
    (code, _), *others = examples(README)
    assert not others
    assert len([line for line in code.splitlines() if line]) <= 18


@pytest.mark.slow
def test_the_example_prints_what_the_readme_says():
    ((code, printed),) = examples(README)
    as_users_do = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=as_users_do, capture_output=True, text=True, check=True, timeout=500
    )
    # Numbers are those of one machine; elsewhere they may differ a little.
    numbers = r"\d+(?= %)"
    assert re.sub(numbers, "N", run.stdout) == re.sub(numbers, "N", printed)
    for here, there in zip(re.findall(numbers, run.stdout), re.findall(numbers, printed), strict=True):
        assert abs(int(here) - int(there)) <= 3


def test_the_layout_lists_every_room_and_command():
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    layout = re.search(r"## Where a thing lives\n+```text\n(.*?)```", contributing, re.DOTALL)[1]
    listed = set(re.findall(r"[\w-]+(?=/)", layout))
    for package in ("jattn", "experiments"):
        assert {path.parent.name for path in (ROOT / package).glob("*/__init__.py")} <= listed
    assert all((ROOT / name).is_dir() or list(ROOT.glob(f"*/{name}")) for name in listed)
    commands = {path.stem for path in (ROOT / "experiments").glob("[!_]*.py")}
    assert commands <= set(re.findall(r"\w+", layout))
