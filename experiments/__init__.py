"""The paper's experiments, each a module to run: `python -m experiments.colors --help`."""
