"""The paper's tables and figures beside ours: `python -m experiments.paper --help`."""
