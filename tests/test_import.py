"""What `import jattn` gives, and what it leaves for later."""

import subprocess
import sys

import pytest


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_modules_are_there_at_once_and_imported_where_they_are_used():
    code = """
import sys
import jattn
names = ("datasets", "plots")
print(*[f"jattn.{name}" in sys.modules or "matplotlib" in sys.modules for name in names])
print(*[getattr(jattn, name).__name__ for name in names], jattn.datasets.image_graphs.__name__)
print(*[name in dir(jattn) for name in names])
"""
    loaded, there = ["False"] * 2, ["True"] * 2
    names = [f"jattn.{name}" for name in ("datasets", "plots")]
    assert run(code) == [*loaded, *names, "image_graphs", *there]


def test_what_is_not_there_is_an_attribute_error():
    import jattn

    with pytest.raises(AttributeError, match="module 'jattn' has no attribute 'data'"):
        jattn.data  # noqa: B018
