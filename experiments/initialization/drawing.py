"""Draws the pictures of a study from its CSV files alone, so that none needs training."""

import functools
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from jattn.plots import save

from ..run.pictures import try_to_write
from ..run.tables import read_csv
from . import pictures

POINTS, SHARES, DYNAMICS = "points.csv", "good_share.csv", "dynamics.csv"


def draw_study(folder: Path) -> None:
    """Draws the pictures of a study from those of its CSV files that are there.

    Raises:
      RunError: a file is damaged.
    """
    points, shares, changes = (read_csv(folder / name) for name in (POINTS, SHARES, DYNAMICS))
    dimensions = list(dict.fromkeys(row["n"] for row in points))
    figures: dict[str, Callable[[], Figure]] = {}
    if changes:
        figures["dynamics"] = functools.partial(pictures.dynamics_figure, changes)
    if shares:
        figures["good_share"] = functools.partial(pictures.share_figure, shares, dimensions)
    for n in dimensions:
        rows = [row for row in points if row["n"] == n]
        figures[f"sigma-n{n}"] = functools.partial(pictures.sigma_figure, rows)
        figures[f"cosine-n{n}"] = functools.partial(pictures.cosine_figure, rows)
        figures[f"auc-n{n}"] = functools.partial(pictures.auc_figure, rows)
    for name, make in figures.items():
        try_to_write(folder / f"{name}.png", functools.partial(_save, make))


def _save(make: Callable[[], Figure], path: Path) -> None:
    save(make(), path)
