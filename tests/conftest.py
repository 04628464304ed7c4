"""What all tests share: signatures are checked as functions run, two devices, the folder of large reference files."""

from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

install_import_hook("jattn", "typecheck.check")
jax.config.update("jax_num_cpu_devices", 2)  # as experiments do, so that seeds are spread over devices


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"{folder} does not exist; it holds reference files that are too large for this repository")
    return folder
