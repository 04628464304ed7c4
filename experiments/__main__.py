"""The command `jattn`: runs the paper's experiments, many of them at once, or all that its tables need."""

import importlib
import sys
from collections.abc import Sequence

from .run.errors import expect_known
from .run.program import program

COMMANDS = {
    "colors": "count the green nodes of a graph, with graphs up to eight times larger in tests",
    "triangles": "count the triangles of a graph, with graphs up to four times larger in tests",
    "mnist75sp": "classify digits as graphs of superpixels, with noise in tests",
    "tu": "classify graphs of a data set of the TU collection, or of your own, with larger ones in tests",
    "size_shift": "classify the largest graphs of a TU data set after training on the smallest",
    "report": "write the report of a run again, or one that compares several runs",
    "sweep": "run presets, seeds and values of settings as independent jobs, here or on SLURM",
    "paper": "make the paper's tables and figures: table1, table2, table3, figures, all or status",
    "initialization": "study what attention on COLORS learns from its initial weights",
    "pretrained": "list the ready-made models, show one's card, or make them from runs",
    "published": "evaluate the models that the paper's authors trained",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command that a command line names.

    Args:
      arguments: the command line after the program's name; that of this process if None.
    """
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        print(help_text())
    elif name == "--version":
        from jattn._version import __version__

        print(f"jattn {__version__}")
    else:
        name = name if name.startswith("-") else name.replace("-", "_")  # installed: `jattn size-shift`
        expect_known("command", name, COMMANDS)
        module = f"{__package__}.{name}"
        ending = ".__main__" if name in ("initialization", "paper", "pretrained") else ""
        importlib.import_module(f"{module}{ending}").main(rest)


def help_text() -> str:
    """Returns the help, which lists all commands."""
    width = max(map(len, COMMANDS))
    shown = {program(name).removeprefix(program("")): about for name, about in COMMANDS.items()}
    lines = [f"  {name:<{width}}  {about}" for name, about in shown.items()]
    usage = f"usage: {program('COMMAND')} [ARGUMENTS ...]"
    return "\n".join([usage, "", *lines, "", f"{program('COMMAND')} --help lists the command's presets and settings."])


if __name__ == "__main__":
    main()
