"""Every trained network of the paper's tables: a row of scores each, and accuracy against attention AUC in a picture.

Knyazev et al. 2019, Figure 3 (a, b, f).
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..initialization.figures import PALETTE, ZOOM, finish_panel
from ..sweeps.grid import Job
from ..sweeps.summary import read_finished, rows_of

SHADES = {**PALETTE, "none": "0.6"}  # by what attention learns from; of networks without, what leaving nodes out says
NAMES = {"weak": "weakly supervised", "none": "no attention"}

Row = Mapping[str, Any]


def read_networks(jobs: Sequence[Job], out: Path) -> list[Row]:
    """A row for every network of those jobs that are finished; without damaged results, of which `read_rows` tells.

    Args:
      jobs: of one task.
      out: has their folders.

    Returns:
      Rows of "task", "row" (preset and settings that vary), "attention" (what it learns from), "data_seed" where there
      are several draws of training graphs, "seed", and in per cent "auc", of the first pooling on all test graphs
      together, NaN where there is none, and the accuracy on each subset and on "all".
    """
    rows: list[Row] = []
    for of_row in rows_of(jobs):
        for job, _, results in read_finished(of_row, out)[0]:
            drawn = hasattr(job.settings, "data_seeds")
            auc = results.together.attention_auc
            for i, (data_seed, seed) in enumerate(job.trained):
                rows.append(
                    {
                        "task": job.experiment.name,
                        "row": job.row,
                        "attention": job.settings.attention,
                        **({"data_seed": data_seed} if drawn else {}),
                        "seed": seed,
                        "auc": auc[0].values[i] if auc else math.nan,
                        **{name: of.accuracy.values[i] for name, of in results.subsets.items()},
                    }
                )
    return rows


def networks_figure(networks: Mapping[str, Sequence[Row]]) -> Figure | None:
    """Accuracy on all test graphs against attention AUC, a mark a network: a row for each task, then where AUC > 95 %.

    Args:
      networks: rows that `read_networks` made, by what their task is called.

    Returns:
      The figure; None where no network has an AUC. Those with true attention are left out.
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
            for row in rows:
                if not zoomed or row["auc"] >= ZOOM[0]:
                    axes.plot(row["auc"], row["all"], "o", color=SHADES[row["attention"]], ms=4, alpha=0.5, mew=0)
            axes.set_xlim(ZOOM if zoomed else (-3, 103))
            finish_panel(axes, "accuracy on all test graphs (%)", "attention AUC (%)" + ", zoom" * zoomed)
        panels[0].axvspan(*ZOOM, color="0.92", linewidth=0, zorder=0)
        panels[0].set_title(task, loc="left", fontsize=11, fontweight="bold")
    kinds = [kind for kind in SHADES if any(row["attention"] == kind for rows in drawn.values() for row in rows)]
    handles = [
        Line2D([], [], linestyle="", marker="o", color=SHADES[kind], label=NAMES.get(kind, kind)) for kind in kinds
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    return figure
