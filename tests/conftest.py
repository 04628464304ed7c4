"""What all tests share: shapes in signatures are checked as functions run, and the folder of large reference files."""

from pathlib import Path

import pytest
from jaxtyping import install_import_hook

install_import_hook("jattn", "typecheck.check")


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"{folder} does not exist; it holds reference files that are too large for this repository")
    return folder
