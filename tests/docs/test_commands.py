"""Commands of the README and of the pages are understood: they and their presets exist, and so do their settings."""

import re
import shlex

import pytest
from pages import PAGES, README

from experiments.__main__ import COMMANDS
from experiments.sweeps.grid import EXPERIMENTS, find

TEXTS = {"README": README, **{page.stem: page.read_text("utf-8") for page in PAGES}}
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
SPAN = re.compile(r"\| `(jattn [^`]+)` \|")  # in a table


def commands(text: str) -> list[list[str]]:
    """The words after `jattn` of every command in a block of its own or in a table."""
    lines = "\n".join(BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    found = [re.sub(r"^.*\bjattn ", "jattn ", line) for line in lines if re.search(r"(^| |/)jattn ", line)]
    return [shlex.split(command)[1:] for command in [*found, *SPAN.findall(text)]]


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if commands(text)])
def test_commands_are_understood(name):
    for command, *arguments in commands(TEXTS[name]):
        command = command.replace("-", "_")
        assert command in COMMANDS
        arguments = ["1234:1" if word == "HOST:PORT" else word for word in arguments]
        if command in EXPERIMENTS:
            find(command, arguments).parse(arguments)
