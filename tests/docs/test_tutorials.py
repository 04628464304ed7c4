"""The tutorials run as they are written, without a warning, and what they say about their numbers holds."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs/tutorials"
TUTORIALS = sorted(FOLDER.glob("0*.md"))
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# What the prose of a tutorial claims, checked after its last cell.
CLAIMS = {
    "01_own_graphs": """
assert min(accuracies["supervised", "small"] + accuracies["supervised", "large"]) > 90
assert min(accuracies["unsupervised", "small"]) > 90 > max(accuracies["unsupervised", "large"])
assert np.array_equal(again.prediction, predictions["supervised", "large"].prediction)
""",
    "02_weak_supervision": """
assert min(jattn.attention_auc(target, is_green) for target in labels.target) > 95
assert min(of_teacher["orig"] + of_teacher["large"]) > 90 > 50 > max(of_teacher["largec"])
assert sum(of_student["largec"]) > sum(of_teacher["largec"]) + 30
assert largest < 1e-6
""",
    "03_training_loop": """
assert history[-1] < 0.1 < 10 < history[0]
assert min(accuracies["orig"], accuracies["large"]) > 95
assert accuracies_of_rule["largec"] >= accuracies["largec"] > 50
""",
    "04_superpixels": """
assert accuracy > 80 and accuracy > accuracy_noisy + 10
assert min(auc, auc_noisy) > 99
""",
    "05_larger_graphs": """
scores = {name: by_size(found).mean(axis=1) for name, found in predictions.items()}
assert all(score[0] > 97 for score in scores.values())
assert scores["sum"][-1] < 60
assert min(scores["attention, sum"].min(), scores["max"].min()) > 90
""",
}


def code(tutorial: Path) -> str:
    return "\n".join(CELL.findall(tutorial.read_text("utf-8")))


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.stem)
def test_a_tutorial_is_a_notebook_as_text(tutorial):
    text = tutorial.read_text("utf-8")
    _, header, body = text.split("---\n", 2)
    assert "format_name: myst" in header and "name: python3" in header
    assert body.lstrip().startswith("# ")
    assert len(CELL.findall(text)) == text.count("{code-cell}") >= 5
    compile(code(tutorial), tutorial.name, "exec")
    assert "jattn.plots." in code(tutorial)


def test_claims_are_of_tutorials():
    assert set(CLAIMS) == {tutorial.stem for tutorial in TUTORIALS}


@pytest.mark.slow
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.stem)
def test_a_tutorial_runs_and_its_claims_hold(tutorial, tmp_path):
    script = tmp_path / f"{tutorial.stem}.py"
    script.write_text(code(tutorial) + CLAIMS[tutorial.stem], "utf-8")
    as_users_do = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env=as_users_do | {"MPLBACKEND": "agg", "PYTHONPATH": str(FOLDER.parents[1])},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout
