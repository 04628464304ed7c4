"""Programs that print how fast jattn is, as ratios."""
