"""The version of jattn, also where it is not installed; `pyproject.toml` reads it from here."""

__version__ = "0.1.0"
