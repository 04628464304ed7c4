"""Every trained network of the paper's tables: a row of scores each, and accuracy against attention AUC in a picture.

Knyazev et al. 2019, Figure 3 (a, b, f).
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..initialization.pictures import PALETTE, ZOOM, finish_panel, name_panel
from ..sweeps.grid import Job
from ..sweeps.summary import read_finished, rows_of

SHADES = {**PALETTE, "none": "0.6"}  # by supervision; "none": the AUC is that of leave-one-out attribution
NAMES = {"weak": "weakly supervised", "none": "no attention"}

ACCURACY = "accuracy on all test graphs (%)"

Row = Mapping[str, Any]


def read_networks(jobs: Sequence[Job], out: Path) -> list[Row]:
    """Returns a row for every network of the finished jobs; damaged results, which `read_rows` reports, have none.

    Args:
      jobs: jobs of one task.
      out: the folder of their folders.

    Returns:
      Rows of "task", "row" (preset and varied settings), "attention" (its supervision), "data_seed" if there are
      several draws of training graphs, "seed", "auc" (of the first pooling on all test graphs together; NaN without
      one), and the accuracy on each subset and on "all", in per cent.
    """
    rows: list[Row] = []
    for same_row in rows_of(jobs):
        for job, _, results in read_finished(same_row, out)[0]:
            has_draws = hasattr(job.settings.data, "data_seeds")
            auc = results.together.attention_auc
            for i, (data_seed, seed) in enumerate(job.trained):
                rows.append(
                    {
                        "task": job.experiment.name,
                        "row": job.row,
                        "attention": job.settings.attention.attention,
                        **({"data_seed": data_seed} if has_draws else {}),
                        "seed": seed,
                        "auc": auc[0].values[i] if auc else math.nan,
                        **{name: scores.accuracy.values[i] for name, scores in results.subsets.items()},
                    }
                )
    return rows


def networks_figure(networks: Mapping[str, Sequence[Row]]) -> Figure | None:
    """Draws accuracy on all test graphs against attention AUC, one mark per network: per task a row, and its zoom.

    Args:
      networks: rows of `read_networks`, by the title of their task.

    Returns:
      The figure; None if no network has an AUC. Networks with ground-truth attention are left out.
    """
    drawn = {
        task: [row for row in rows if row["auc"] >= 0 and row["attention"] in SHADES] for task, rows in networks.items()
    }
    drawn = {task: rows for task, rows in drawn.items() if rows}
    if not drawn:
        return None
    figure = Figure(figsize=(7.2, 0.6 + 2.7 * len(drawn)), dpi=130, layout="constrained")
    for (task, rows), panels in zip(drawn.items(), figure.subplots(len(drawn), 2, squeeze=False), strict=True):
        for axes, zoomed in zip(panels, (False, True), strict=True):
            draw_networks(axes, rows, zoomed)
        name_panel(panels[0], task)
    kinds = [kind for kind in SHADES if any(row["attention"] == kind for rows in drawn.values() for row in rows)]
    handles = [
        Line2D([], [], linestyle="", marker="o", color=SHADES[kind], label=NAMES.get(kind, kind)) for kind in kinds
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    return figure


def draw_networks(axes: Axes, rows: Sequence[Row], zoomed: bool) -> None:
    """Draws accuracy on all test graphs against attention AUC, one mark per network.

    Args:
      axes: where to draw.
      rows: rows with "auc", "all" (accuracy) and "attention" (supervision, one of `SHADES`).
      zoomed: show AUCs above 95 % alone; otherwise they are shaded.
    """
    for row in rows:
        if not zoomed or row["auc"] >= ZOOM[0]:
            axes.plot(row["auc"], row["all"], "o", color=SHADES[row["attention"]], ms=4, alpha=0.5, mew=0)
    if not zoomed:
        axes.axvspan(*ZOOM, color="0.92", linewidth=0, zorder=0)
    axes.set_xlim(ZOOM if zoomed else (-3, 103))
    finish_panel(axes, ACCURACY, "attention AUC (%)" + ", zoom" * zoomed)
