"""What a run is: its settings, command line, stages, checkpoints, folder and curves."""
