"""What all tests share: signatures are checked as functions run, two devices, the folder of large reference files.

Programs are compiled quickly, since a small one that runs a few times costs more to optimise than to run: half the time
of all tests. Those of the README's example are compiled as users' are.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICKLY}"
# Compiled programs are kept for the runs that tests start, for as long as tests run, and not in the user's own cache.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # workers get it from the process that starts them
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="jattn-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)

import jax
import jaxtyping
import pytest
from jaxtyping import install_import_hook

install_import_hook("jattn", "typecheck.check")
jax.config.update("jax_num_cpu_devices", 2)  # as experiments do, so that seeds are spread over devices


pytest_plugins = ["fake_runs"]  # a fixture of several files


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"{folder} does not exist; it holds reference files that are too large for this repository")
    return folder


@pytest.fixture
def unchecked_types(monkeypatch) -> None:
    """Signatures are not checked, so that functions themselves refuse what does not fit, as they do for users."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
