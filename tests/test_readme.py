"""What the README shows is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_example_prints_what_the_readme_says():
    code, printed = re.search(r"```python\n(.*?)```\n+It prints\n+```text\n(.*?)```", README, re.DOTALL).groups()
    as_users_do = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    run = subprocess.run([sys.executable, "-c", code], env=as_users_do, capture_output=True, text=True, check=True)
    # Numbers are those of one machine; elsewhere they may differ a little.
    numbers = r"\d+(?= %)"
    assert re.sub(numbers, "N", run.stdout) == re.sub(numbers, "N", printed)
    for here, there in zip(re.findall(numbers, run.stdout), re.findall(numbers, printed), strict=True):
        assert abs(int(here) - int(there)) <= 3


def test_every_preset_of_the_table_exists():
    from experiments import colors, triangles, tu

    for module, least in ((colors, 4), (triangles, 3)):
        rows = re.findall(rf"\| `python -m {module.__name__}(?: (\w[\w-]*))?", README)
        assert len(rows) >= least
        assert all(row == "" or row in module.PRESETS for row in rows)

    rows = re.findall(r"\| `python -m experiments.tu(?: (\w+))? --dataset ([\w-]+)`", README)
    assert len(rows) >= 5
    assert all(dataset in tu.DATASETS and (preset or "weak") in tu.presets(dataset) for preset, dataset in rows)
