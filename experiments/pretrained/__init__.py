"""Ready-made models: their list and cards, and how they are made from runs."""
