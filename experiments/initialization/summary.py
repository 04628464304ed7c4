"""The summary of the study: means over networks that began with a good p, and over the others."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..run.folder import MADE_AGAIN, RESULTS, RunError, read_results
from ..run.tables import as_text
from .projections import COSINE_THRESHOLD
from .training import SUBSETS, Row


@dataclass(frozen=True)
class Summary:
    """Means over the networks of one kind whose initial p is good, with a cosine above 0.5, or over the others.

    Attributes:
      n: number of colors.
      model: "gin" or "gcn".
      supervision: the kind of supervision.
      initial_p: "good" or "other".
      networks: how many there are.
      orig: accuracy on Orig in per cent, as on `large` and `largec`; NaN without networks.
      large: that on Large.
      largec: that on LargeC.
      auc: AUC of attention in per cent.
    """

    n: int
    model: str
    supervision: str
    initial_p: str
    networks: int
    orig: float
    large: float
    largec: float
    auc: float


def summarize(points: Sequence[Row]) -> list[Summary]:
    """The summary of all networks, kind after kind."""
    summary = []
    for n, model, supervision in dict.fromkeys((row["n"], row["model"], row["supervision"]) for row in points):
        for good in (True, False):
            rows = [
                row
                for row in points
                if (row["n"], row["model"], row["supervision"], row["cosine"] > COSINE_THRESHOLD)
                == (n, model, supervision, good)
            ]
            means = {
                name: float(np.mean([row[name] for row in rows])) if rows else np.nan for name in (*SUBSETS, "auc")
            }
            summary.append(Summary(n, model, supervision, "good" if good else "other", len(rows), **means))
    return summary


def read_summary(folder: Path) -> list[Summary]:
    """The summary of a finished study.

    Raises:
      RunError: `results.json` is damaged.
    """
    try:
        return [Summary(**row) for row in read_results(folder, ["summary"])["summary"]]
    except TypeError as error:
        raise RunError(f"{folder / RESULTS}: its summary has other columns; {MADE_AGAIN}") from error


def table(summary: Sequence[Summary]) -> str:
    """The summary as text."""
    rows = [["n", "model", "supervision", "initial p", "networks", "Orig", "Large", "LargeC", "AUC"]]
    for row in summary:
        cells = asdict(row).values()
        rows.append([("-" if np.isnan(x) else f"{x:.1f}") if isinstance(x, float) else str(x) for x in cells])
    return as_text(rows, left=range(4))
