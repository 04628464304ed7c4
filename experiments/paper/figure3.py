"""The paper's Figure 3: accuracy against attention AUC, and what the cosine of the initial projection makes of both.

Knyazev et al. 2019, Figure 3. Panels a and f show the networks of the tables, the others those of the study of initial
attention.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..initialization.drawing import POINTS, SHARES
from ..initialization.pictures import (
    PALETTE,
    by_value,
    cosine_marks,
    draw_by_cosine,
    draw_shares,
    name_panel,
    supervision_marks,
)
from ..initialization.training import SUBSETS
from .accuracy_by_auc import ACCURACY, Row, draw_networks
from .plan import GENERATED, STUDY

COLUMNS = 4
FILES = {  # with the data of each panel
    "a": "networks-colors.csv",
    "b": f"{STUDY}/{POINTS}",
    "c": f"{STUDY}/{POINTS}",
    "d": f"{STUDY}/{SHARES}",
    "e": f"{STUDY}/{POINTS}",
    "f": "networks-triangles.csv",
}


class Panel(NamedTuple):
    """A panel of the figure.

    Attributes:
      letter: the paper's letter of it.
      title: the text above it, behind the letter.
      draw: draws it.
    """

    letter: str
    title: str
    draw: Callable[[Axes], None]


def figure_3(points: Sequence[Row], shares: Sequence[Row], networks: Mapping[str, Sequence[Row]]) -> Figure | None:
    """Draws those panels whose data are there.

    Args:
      points: rows of the study's `points.csv`; the first of its models is shown.
      shares: rows of its `good_share.csv`.
      networks: rows of `networks-TASK.csv` by task.

    Returns:
      The figure; None without any panel.
    """
    found = panels(points, shares, networks)
    if not found:
        return None
    rows = -(-len(found) // COLUMNS)
    columns = min(COLUMNS, len(found))
    figure = Figure(figsize=(3.1 * columns, 0.5 + 2.8 * rows), dpi=130, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, found, strict=False):
        panel.draw(axes)
        name_panel(axes, f"({panel.letter}) {panel.title}")
    for axes in grid[len(found) :]:
        axes.set_axis_off()
    handles = [*supervision_marks(PALETTE), *(cosine_marks(points) if points else [])]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    return figure


def missing(points: Sequence[Row], shares: Sequence[Row], networks: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """Returns the letters of the panels that `figure_3` leaves out, and the file that would have their data."""
    there = {panel.letter for panel in panels(points, shares, networks)}
    return {letter: file for letter, file in FILES.items() if letter not in there}


def panels(points: Sequence[Row], shares: Sequence[Row], networks: Mapping[str, Sequence[Row]]) -> list[Panel]:
    """Returns the panels whose data are there, as `figure_3` takes them; a and b have two each, the second a zoom."""
    colors = [row for row in networks.get("colors", ()) if row["row"] not in GENERATED]  # those have 32 colors
    few, *larger = _by_dimension(points)
    found = _whole_and_zoom("a", "COLORS, n = 3", colors)
    found += [panel for rows in larger[:1] for panel in _whole_and_zoom("b", _title(rows), rows)]
    if few:
        auc = "attention AUC (%)"
        found.append(Panel("c", _title(few), lambda axes: _draw_by_cosine(axes, few, "auc", auc)))
    if shares:
        marked = [rows[0]["n"] for rows in (few, *larger) if rows]
        found.append(Panel("d", "good initialization", lambda axes: draw_shares(axes, shares, marked)))
    if few:
        found.append(Panel("e", _title(few), lambda axes: _draw_by_cosine(axes, few, "all", ACCURACY)))
    return found + _whole_and_zoom("f", "TRIANGLES", networks.get("triangles", ()))[:1]


def _by_dimension(points: Sequence[Row]) -> list[list[Row]]:
    """The networks of the first model for each number of colors, as `draw_networks` takes them; [[]] without any."""
    model = points[0]["model"] if points else ""
    rows = [
        {**row, "attention": row["supervision"], "all": sum(row[name] for name in SUBSETS) / len(SUBSETS)}
        for row in points
        if row["model"] == model
    ]
    return [same for _, same in by_value(rows, "n")] or [[]]


def _title(rows: Sequence[Row]) -> str:
    return f"{rows[0]['model'].upper()}, n = {rows[0]['n']}"


def _whole_and_zoom(letter: str, title: str, rows: Sequence[Row]) -> list[Panel]:
    """The panels of networks with learned attention: two, or none without any network."""
    shown = [row for row in rows if row["attention"] in PALETTE and row["auc"] >= 0]
    draws = [functools.partial(draw_networks, rows=shown, zoomed=zoomed) for zoomed in (False, True)]
    return [Panel(letter, title, draw) for draw in draws] if shown else []


def _draw_by_cosine(axes: Axes, rows: Sequence[Row], key: str, label: str) -> None:
    for _, same in by_value(rows, "supervision"):
        draw_by_cosine(axes, same, key, label)
