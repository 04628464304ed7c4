"""What `import jattn` gives, and what it leaves for later."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import jattn

HEAVY = {"jax", "flax", "optax", "jraph", "networkx", "scipy.sparse", "matplotlib", "skimage", "sklearn", "pooch"}
PACKAGES = ["jattn", *(f"jattn.{file.parent.name}" for file in Path(jattn.__file__).parent.glob("*/__init__.py"))]


def test_names_are_there_at_once_and_imported_where_they_are_used():
    code = """
import json, sys
import jattn
before = [*sys.modules]
there = sorted({"datasets", "plots", "Network", "__version__"} - {*dir(jattn)})
jattn.Network, jattn.graphs.from_networkx, jattn.datasets.generate_colors, jattn.from_arrays([[1.0]], [], [])
print(json.dumps([before, there, [*sys.modules]]))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    before, missing, after = map(set, json.loads(shown))
    assert not missing
    assert not before & HEAVY
    assert after & HEAVY == {"jax", "flax", "jraph", "scipy.sparse"}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_has_the_names_of_its_stub(name):
    module = importlib.import_module(name)
    stub = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text("utf-8"))
    (listed,) = (ast.literal_eval(line.value) for line in stub.body if isinstance(line, ast.Assign))
    assert sorted(listed) == module.__all__
    assert all(hasattr(module, given) for given in dir(module))


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="jattn attribute data"):
        jattn.data  # noqa: B018
