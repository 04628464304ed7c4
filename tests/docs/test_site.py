"""The site is built without a warning and loads nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc="(https?:)?//|<link[^>]*\shref="(https?:)?//""")


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path):
    for package in ("sphinx", "furo", "myst_nb", "latex2mathml", "sphinx_copybutton"):
        pytest.importorskip(package, reason="pip install -e '.[docs]'")
    # Notebooks are run by tests of their own.
    command = [sys.executable, "-m", "sphinx", "-qW", "-D", "nb_execution_mode=off", "docs", tmp_path]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) >= 30
    assert not [page.name for page in pages if LOADED.search(page.read_text("utf-8"))]
    styles = list(tmp_path.rglob("_static/**/*.css"))
    assert not [
        style.name for style in styles if re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text("utf-8"))
    ]
