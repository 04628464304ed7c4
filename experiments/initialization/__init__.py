"""How initial attention decides what attention learns: `python -m experiments.initialization --help`."""
