"""What all tests share: signatures are checked as functions run, two devices, the folder of large reference files.

Programs are compiled quickly, since a small one that runs a few times costs more to optimize than to run: half the time
of all tests. With JATTN_TESTS_XLA=default they are compiled as users' are; those of the README's example always are.
"""

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

if os.environ.get("JATTN_TESTS_XLA") != "default":
    quickly = ["--xla_backend_optimization_level=0"]
    if version("jaxlib").startswith("0.10."):  # later ones end over a flag that they do not know
        quickly.append("--xla_cpu_use_fusion_emitters=false")
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *quickly])
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

MEMORY_MAPS = Path("/proc/self/maps")  # where there is one
MANY_MAPS = 20_000  # of the 65,530 that a process may have; a compiled program has about 250


@pytest.fixture(scope="module", autouse=True)
def room_for_programs() -> Iterator[None]:
    """Drops compiled programs after a file whose tests, and those before, have left many."""
    yield
    if MEMORY_MAPS.exists() and MEMORY_MAPS.read_text().count("\n") > MANY_MAPS:
        jax.clear_caches()
        gc.collect()


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
