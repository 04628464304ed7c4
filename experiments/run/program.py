"""The command line of each experiment: `python -m experiments.NAME` in a checkout, `jattn NAME` once installed.

An installation has the folder `experiments` as the package `jattn_experiments`, so that it takes no common name.
"""

import re
import sys

PACKAGE = __name__.partition(".")[0]
CHECKOUT, INSTALLED = "python -m experiments.", "jattn "


def program(name: str) -> str:
    """Returns the command that runs an experiment, as a user types it."""
    return as_typed(f"{CHECKOUT}{name}")


def as_typed(text: str) -> str:
    """Returns a text with its commands as a user types them: written for a checkout, shown for an installation too."""
    if PACKAGE == "experiments":
        return text
    return re.sub(rf"{re.escape(CHECKOUT)}(\w*)", lambda match: INSTALLED + match[1].replace("_", "-"), text)


def job_command(name: str) -> list[str]:
    """Returns the command with which a process starts an experiment of this same installation or checkout."""
    return [sys.executable, "-m", f"{PACKAGE}.{name}"]
