"""The scores of the paper's Tables 1 to 3, which every table of results shows beside ours.

They stand in `paper_scores.csv`, a line each: table, data set, model, supervision, pooling, column (a test subset, or
the attention AUC), mean and standard deviation in per cent, which is empty where the paper prints none. A row that
Table 3 repeats from Table 1 stands there once.

Knyazev, Taylor and Amer, Understanding Attention and Generalization in Graph Neural Networks, NeurIPS 2019.
"""

import csv
import functools
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

FILE = "paper_scores.csv"
RUNS = {"COLORS": (100, 100), "TRIANGLES": (10, 10), "MNIST-75sp": (10, 10)}  # networks and draws behind a score
TU_RUNS = (100, 10)  # those of other data sets
_SUPERVISION = {"none": "global", "truth": "upper-bound"}  # whose presets have other names


class PaperScore(NamedTuple):
    """A score in one of the paper's tables.

    Attributes:
      mean: mean over networks in per cent, as printed.
      std: their standard deviation, as printed; "" if the paper prints none.
      networks: how many there are.
      draws: how many of them are independent: networks of the same draw of training graphs are not.
    """

    mean: str
    std: str
    networks: int
    draws: int

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit of the mean."""
        return 0.5 * 0.1 ** len(self.mean.partition(".")[2])

    def __str__(self) -> str:
        return f"{self.mean} ± {self.std}" if self.std else self.mean


PaperScores = Mapping[str, PaperScore]  # by test subset; "auc" for that of the first pooling on all subsets together


@functools.cache
def paper_scores(data_set: str) -> Mapping[str, PaperScores]:
    """Returns the paper's scores for a data set, by preset; none for one that is not in the paper.

    Args:
      data_set: COLORS, TRIANGLES or MNIST-75sp, or a data set of Table 2: COLLAB-35, PROTEINS-25, D&D-200 or D&D-300.
    """
    found: dict[str, dict[str, PaperScore]] = {}
    text = resources.files(__package__).joinpath(FILE).read_text("utf-8")
    for line in csv.DictReader(text.splitlines()):
        if line["data"] == data_set:
            score = PaperScore(line["mean"], line["std"], *RUNS.get(data_set, TU_RUNS))
            found.setdefault(_preset(line), {})[line["column"]] = score
    return found


def _preset(line: Mapping[str, str]) -> str:
    """Returns the preset that is a line's row: its supervision, then what differs from the paper's main model."""
    supervision, variant = line["supervision"], line["model"].removeprefix("ChebyGIN").removeprefix("-").lower()
    name = "diffpool" if line["pooling"] == "diffpool" else _SUPERVISION.get(supervision, supervision)
    return "-".join(filter(None, [name, variant, "topk" * (line["pooling"] == "top-k")]))
