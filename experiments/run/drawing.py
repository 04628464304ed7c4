"""Pictures of a run: in matplotlib's default style, and a failure is only a warning."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib import style


def try_to_draw(picture: Path, draw: Callable[[Path], Any]) -> None:
    """Calls `draw` to write a picture to a file; if it fails, prints a warning with the reason.

    A user's matplotlibrc is ignored: it may ask for LaTeX or fonts that this machine lacks.
    """
    try:
        with style.context("default"):
            draw(picture)
    except Exception as error:  # from matplotlib, the data or the disk
        why = (str(error).splitlines() or [type(error).__name__])[0]
        print(f"warning: {picture} can't be drawn: {why}", file=sys.stderr)
