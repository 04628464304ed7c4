"""The paper's experiments, each a module to run: `python -m experiments.colors --help`."""

from experiments.environment import import_jax, import_matplotlib

import_matplotlib()
import_jax()
