"""Cases of parametrised tests."""

from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """A case that `-m slow` runs."""
    return pytest.param(*values, marks=pytest.mark.slow)


def default_xla(*values: Any) -> Any:
    """A case that `-m default_xla` runs too."""
    return pytest.param(*values, marks=pytest.mark.default_xla)
