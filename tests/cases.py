"""Cases of parametrised tests."""

from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """A case that `-m slow` runs."""
    return pytest.param(*values, marks=pytest.mark.slow)
