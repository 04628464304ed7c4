"""The paper's experiments, each a module to run: `python -m experiments.colors --help`."""

from .run.environment import import_jax, import_matplotlib, let_output_be_plain

let_output_be_plain()
import_matplotlib()
import_jax()
