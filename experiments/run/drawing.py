"""Pictures of a run: in matplotlib's own style, and never in the way of what they show."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib import style


def try_to_draw(picture: Path, draw: Callable[[Path], Any]) -> None:
    """Lets `draw` draw a picture and write it to a file; where that fails, a warning says why, and all goes on.

    A user's matplotlibrc does not matter: it may ask for LaTeX or fonts that are not on this machine.
    """
    try:
        with style.context("default"):
            draw(picture)
    except Exception as error:  # of matplotlib, of the data shown, or of the disk
        why = (str(error).splitlines() or [type(error).__name__])[0]
        print(f"warning: {picture} can't be drawn: {why}", file=sys.stderr)
