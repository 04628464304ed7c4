"""The results of a run: scores of each test subset over all networks, and the seconds of each stage.

Every experiment writes them to `results.json` and every table reads them from there, through the classes of this file.
Scores are percentages from 0 to 100.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jattn import evaluation

from .folder import MADE_AGAIN, RESULTS, RunError, read_results, write_results

TOGETHER = "all"  # the subset that all test subsets make together


@dataclass(frozen=True)
class MeanStd:
    """A score of several networks.

    Attributes:
      mean: NaN if a value is not finite, as in `std`.
      std: standard deviation (ddof 0).
      values: one for each network, draw after draw of training graphs and seed after seed.
    """

    mean: float
    std: float
    values: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.std:.1f}" if math.isfinite(self.mean) else "-"


@dataclass(frozen=True)
class LabelScores:
    """Accuracy on the graphs of one label."""

    label: float
    accuracy: MeanStd
    graphs: int


@dataclass(frozen=True)
class SizeScores:
    """Accuracy on the graphs whose numbers of nodes are within a range, its ends included."""

    nodes: tuple[int, int]
    accuracy: MeanStd
    graphs: int


@dataclass(frozen=True)
class SubsetScores:
    """Scores on one test subset. What was not measured is None, or empty where it has an entry for each layer.

    Attributes:
      accuracy: share of graphs predicted correctly.
      attention_auc: area under the ROC curve of attention, for each pooling layer.
      graphs: how many there are; the mean over networks if each was tested on graphs of its own.
      nodes_kept: share of nodes left by each pooling layer.
      graphs_emptied: share of graphs without any node left, for each pooling layer.
      balanced_accuracy: mean over classes of the accuracy on each.
      matthews_correlation: 100 times the coefficient.
      majority_accuracy: accuracy of always predicting the largest class.
      predicted: share of graphs predicted to be of each class.
      by_label: accuracy by label; not for all subsets together.
      by_nodes: accuracy by number of nodes; not for all subsets together.
    """

    accuracy: MeanStd
    attention_auc: tuple[MeanStd, ...] = ()
    graphs: int | None = None
    nodes_kept: tuple[MeanStd, ...] = ()
    graphs_emptied: tuple[MeanStd, ...] = ()
    balanced_accuracy: MeanStd | None = None
    matthews_correlation: MeanStd | None = None
    majority_accuracy: MeanStd | None = None
    predicted: tuple[MeanStd, ...] | None = None
    by_label: tuple[LabelScores, ...] | None = None
    by_nodes: tuple[SizeScores, ...] | None = None

    def layers(self, name: str) -> tuple[MeanStd, ...]:
        """Returns a score by its name: one entry for each layer or class, one alone if it is of the whole network.

        Raises:
          ValueError: it was not measured.
        """
        score = getattr(self, name)
        if score is None:
            raise ValueError(f"{name} was not measured")
        return score if isinstance(score, tuple) else (score,)


@dataclass(frozen=True)
class Tuned:
    """The choice of a study.

    Attributes:
      settings: the chosen settings, by name.
      score: their validation score, mean - standard deviation of the accuracy.
      accuracy: their validation accuracy.
      trial: the number of the trial.
      trials: the number of trials of the study.
    """

    settings: Mapping[str, Any]
    score: float
    accuracy: MeanStd
    trial: int
    trials: int


@dataclass(frozen=True)
class Results:
    """The results of a run.

    Attributes:
      subsets: scores by test subset, "all" among them.
      seconds: the seconds that each stage of the run took.
      tuned: the choice of a study, if there was one.
      labels_removed: percentage of the leave-one-out labels above 0 that were set to 0 as noise, if any could be.
    """

    subsets: Mapping[str, SubsetScores]
    seconds: Mapping[str, float]
    tuned: Tuned | None = None
    labels_removed: MeanStd | None = None

    @property
    def together(self) -> SubsetScores:
        """Scores on all test subsets together."""
        return self.subsets[TOGETHER]

    @property
    def networks(self) -> int:
        """How many networks were tested."""
        return len(self.together.accuracy.values)

    @property
    def total_seconds(self) -> float:
        """The seconds of all stages."""
        return sum(self.seconds.values())

    def write(self, folder: Path) -> None:
        """Writes `results.json`, which makes a run finished."""
        write_results(folder, _without_none(asdict(self)))

    @classmethod
    def read(cls, folder: Path, details: Sequence[str] = ()) -> "Results":
        """Returns the results of a finished run.

        Args:
          folder: the run's.
          details: scores of all subsets together that have to be there besides accuracy and AUC, by name.

        Raises:
          RunError: `results.json` is damaged, lacks a score, or has scores of different numbers of networks.
        """
        found = read_results(folder, ["subsets", "seconds"])
        try:
            seconds = {name: _number(value) for name, value in found["seconds"].items()}
            tuned = _tuned(found["tuned"]) if "tuned" in found else None
            removed = as_mean_std(found["labels_removed"]) if "labels_removed" in found else None
            results = cls(subset_scores(found["subsets"]), seconds, tuned, removed)
            scores = [
                score for subset in results.subsets.values() for score in (subset.accuracy, *subset.attention_auc)
            ]
            scores += [score for name in details for score in results.together.layers(name)]
            if {len(score.values) for score in scores} != {results.networks}:
                raise ValueError("numbers of networks differ")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RunError(f"{folder / RESULTS}: not all scores are there; {MADE_AGAIN}") from error
        return results


def subset_scores(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, SubsetScores]:
    """Returns the scores that `jattn.evaluation.evaluate` computes, or a results file has, as `SubsetScores`."""
    return {name: _subset(found) for name, found in scores.items()}


def pooled(scores: Sequence[MeanStd]) -> MeanStd:
    """Returns the score of the networks of several runs together."""
    return as_mean_std(evaluation.mean_std([value for score in scores for value in score.values]))


def _subset(found: Mapping[str, Any]) -> SubsetScores:
    def several(name: str) -> tuple[MeanStd, ...]:
        return tuple(map(as_mean_std, found.get(name, ())))

    def one(name: str) -> MeanStd | None:
        return as_mean_std(found[name]) if name in found else None

    by_label = [LabelScores(_number(part["label"]), *_part(part)) for part in found.get("by_label", ())]
    by_nodes = [SizeScores((part["nodes"][0], part["nodes"][1]), *_part(part)) for part in found.get("by_nodes", ())]
    return SubsetScores(
        accuracy=as_mean_std(found["accuracy"]),
        attention_auc=several("attention_auc"),
        graphs=found.get("graphs"),
        nodes_kept=several("nodes_kept"),
        graphs_emptied=several("graphs_emptied"),
        balanced_accuracy=one("balanced_accuracy"),
        matthews_correlation=one("matthews_correlation"),
        majority_accuracy=one("majority_accuracy"),
        predicted=several("predicted") if "predicted" in found else None,
        by_label=tuple(by_label) if "by_label" in found else None,
        by_nodes=tuple(by_nodes) if "by_nodes" in found else None,
    )


def _tuned(found: Mapping[str, Any]) -> Tuned:
    score, accuracy = _number(found["score"]), as_mean_std(found["accuracy"])
    return Tuned(found["settings"], score, accuracy, found["trial"], found["trials"])


def _part(found: Mapping[str, Any]) -> tuple[MeanStd, int]:
    return as_mean_std(found["accuracy"]), found["graphs"]


def as_mean_std(found: Mapping[str, Any]) -> MeanStd:
    """Returns what `jattn.evaluation.mean_std` computes, or a results file has, as `MeanStd`."""
    return MeanStd(_number(found["mean"]), _number(found["std"]), tuple(map(_number, found["values"])))


def _number(value: Any) -> Any:
    """Returns a number; NaN for null."""
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return value


def _without_none(value: Any) -> Any:
    """Returns nested dicts without entries that are None."""
    if isinstance(value, Mapping):
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list | tuple) else value
