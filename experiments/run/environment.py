"""The environment of a command: variables that libraries refuse on import, and the encoding of its output."""

import codecs
import importlib
import os
import sys

UNCHECKED = ("JAX_COMPILATION_CACHE_DIR", "JAX_PLATFORMS")  # jax reads these later
PLAIN = "jattn.plain"  # name of the handler of characters that an output's encoding lacks


def import_matplotlib() -> None:
    """Imports matplotlib even if MPLBACKEND names an unknown backend: runs draw to files, without one.

    A known backend stays chosen, for pyplot in the same process, as in a notebook.
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
    except ValueError:  # an unknown backend
        matplotlib.rcParams["backend"] = "agg"


def import_jax() -> None:
    """Imports jax if variables configure it; exits with a message if it refuses one of them."""
    variables = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("JAX_")]
    variables = [variable for variable in variables if not variable.startswith(UNCHECKED)]
    if not variables:  # a process that only waits for others does not need jax
        return
    try:
        importlib.import_module("jax")
    except ValueError as error:
        print(f"error: {error}; change or unset the variable, these are set: {', '.join(variables)}", file=sys.stderr)
        raise SystemExit(2) from error


def let_output_be_plain() -> None:
    """Lets standard output and error print any character: in encodings without ± it becomes +-, others escapes."""
    codecs.register_error(PLAIN, _plain)
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) in ("strict", "surrogateescape") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=PLAIN)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].replace("±", "+-")
    return lacking.encode("ascii", "backslashreplace").decode("ascii"), error.end
