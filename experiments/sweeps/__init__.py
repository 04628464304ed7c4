"""Sweeps: many runs of an experiment as independent jobs, here or on SLURM; the command is `experiments.sweep`."""
