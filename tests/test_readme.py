"""What the README shows is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_examples_print_what_the_readme_says():
    printed = re.search(r"It prints\n+```text\n(.*?)```", README, re.DOTALL)[1]
    example, _, of_ones_own = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    code = f"{example}\n{of_ones_own}"
    as_users_do = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=as_users_do, capture_output=True, text=True, check=True, timeout=500
    )
    *lines, last = run.stdout.splitlines()
    assert re.fullmatch(r"loss \d+, labels of \d+ nodes, padding included", last)
    # Numbers are those of one machine; elsewhere they may differ a little.
    numbers, shown = r"\d+(?= %)", "\n".join(lines)
    assert re.sub(numbers, "N", shown) == re.sub(numbers, "N", printed.strip())
    for here, there in zip(re.findall(numbers, shown), re.findall(numbers, printed), strict=True):
        assert abs(int(here) - int(there)) <= 3


def test_every_preset_of_the_table_exists():
    from experiments import colors, triangles, tu

    for module, least in ((colors, 4), (triangles, 3)):
        rows = re.findall(rf"\| `{module.__name__.replace('experiments.', 'jattn ')}(?: (\w[\w-]*))?", README)
        assert len(rows) >= least
        assert all(row == "" or row in module.PRESETS for row in rows)

    rows = re.findall(r"\| `jattn tu(?: (\w+))? --dataset ([\w-]+)`", README)
    assert len(rows) >= 5
    assert all(dataset in tu.DATASETS and (preset or "weak") in tu.presets(dataset) for preset, dataset in rows)


def test_the_layout_lists_every_room_and_command():
    layout = re.search(r"## Layout\n+```text\n(.*?)```", README, re.DOTALL)[1]
    listed = set(re.findall(r"[\w-]+(?=/)", layout))
    for package in ("jattn", "experiments"):
        assert {path.parent.name for path in (ROOT / package).glob("*/__init__.py")} <= listed
    assert all((ROOT / name).is_dir() or list(ROOT.glob(f"*/{name}")) for name in listed)
    commands = {path.stem for path in (ROOT / "experiments").glob("[!_]*.py")}
    assert commands <= set(re.findall(r"\w+", layout))
