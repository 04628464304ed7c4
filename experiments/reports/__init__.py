"""Pages of HTML that need no other file and no network: of runs, and of the paper's tables."""
