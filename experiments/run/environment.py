"""What a command finds when it starts: variables that libraries refuse when imported, and where its output goes."""

import codecs
import importlib
import os
import sys

UNCHECKED = ("JAX_COMPILATION_CACHE_DIR", "JAX_PLATFORMS")  # jax reads these later
PLAIN = "jattn.plain"  # what is done with characters that an output's encoding lacks


def import_matplotlib() -> None:
    """Imports matplotlib whatever MPLBACKEND says: runs draw to files, for which no backend of screens is needed.

    A backend that exists stays the choice of who draws with pyplot in the same process, as in a notebook.
    """
    backend = os.environ.get("MPLBACKEND")
    if not backend or "matplotlib" in sys.modules:
        return
    del os.environ["MPLBACKEND"]
    try:
        matplotlib = importlib.import_module("matplotlib")
    finally:
        os.environ["MPLBACKEND"] = backend
    try:
        matplotlib.rcParams["backend"] = backend
    except ValueError:  # there is none of that name
        matplotlib.rcParams["backend"] = "agg"


def import_jax() -> None:
    """Imports jax where variables say how; exits with a message where it refuses one of them."""
    given = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("JAX_")]
    given = [variable for variable in given if not variable.startswith(UNCHECKED)]
    if not given:  # what only waits for other processes is spared jax
        return
    try:
        importlib.import_module("jax")
    except ValueError as error:
        print(f"error: {error}; change or unset the variable, given are {', '.join(given)}", file=sys.stderr)
        raise SystemExit(2) from error


def let_output_be_plain() -> None:
    """Lets standard output and error have any character: where their encoding lacks ±, +- stands in its place."""
    codecs.register_error(PLAIN, _plain)
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) in ("strict", "surrogateescape") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=PLAIN)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].replace("±", "+-")
    return lacking.encode("ascii", "backslashreplace").decode("ascii"), error.end
