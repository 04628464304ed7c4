"""The API reference has every public name once."""

import re
from collections import Counter
from pathlib import Path

import pytest

import jattn
from jattn import datasets, plots

PAGES = Path(__file__).parents[2] / "docs/api"
KINDS = {"function": callable, "class": lambda thing: isinstance(thing, type)}


def entries() -> list[tuple[str, str, str]]:
    """(module, kind, name) of every entry, such as ("jattn.plots", "function", "save")."""
    found = []
    for page in sorted(PAGES.glob("*.rst")):
        module = None
        for directive, argument in re.findall(r"^\.\. (\w+):: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE):
            if directive == "currentmodule":
                module = argument
            elif directive != "automodule":
                found.append((module, directive.removeprefix("auto"), argument))
    return found


@pytest.mark.parametrize("module", [jattn, datasets, plots], ids=lambda module: module.__name__)
def test_every_public_name_has_one_entry(module):
    names = Counter(name for place, _, name in entries() if place == module.__name__)
    assert not (twice := [name for name, count in names.items() if count > 1]), twice
    missing, unknown = set(module.__all__) - {"__version__", *names}, set(names) - set(module.__all__)
    assert not missing, f"add them to a page of {PAGES}: {sorted(missing)}"
    assert not unknown, f"these are not in {module.__name__}.__all__: {sorted(unknown)}"


def test_entries_have_the_right_kind():
    modules = {module.__name__: module for module in (jattn, datasets, plots)}
    wrong = [
        name for place, kind, name in entries() if kind in KINDS and not KINDS[kind](getattr(modules[place], name))
    ]
    classes = [
        name
        for place, kind, name in entries()
        if kind == "function" and isinstance(getattr(modules[place], name), type)
    ]
    assert not wrong and not classes


def test_every_page_is_in_the_index():
    listed = (PAGES / "index.md").read_text("utf-8").split()
    assert not [page.stem for page in PAGES.glob("*.rst") if page.stem not in listed]
