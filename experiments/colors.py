"""COLORS: count the green nodes of a graph, on graphs up to eight times larger than those trained on.

    python -m experiments.colors                       weakly supervised attention, 10 seeds
    python -m experiments.colors robust                the same, made to generalize: 100 / 100 / 98 %
    python -m experiments.colors supervised --seeds 5  another preset, fewer seeds

The first takes 40 to 60 s on 2 CPU cores, compilation included, and reaches 100 / 90 / 62 % on Orig / Large / LargeC
with an attention AUC of 99.8 %; seeds differ much, with standard deviations of 10 % (Large) and 20 % (LargeC). Those of
`robust` hardly differ.

Knyazev et al. 2019, Tables 1 and 3.
"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jattn import datasets
from jattn._options import expect_at_least, setting

from .run.command import Experiment
from .run.groups import with_changes
from .run.paper_scores import paper_scores
from .run.presets import ROBUST
from .run.settings import EvaluationSettings, GeneratedData, Settings

if TYPE_CHECKING:  # a command line is read without what a run needs
    from .run.data import Data


@dataclass(frozen=True)
class ColorsData(GeneratedData):
    """The data set: the published one in --data-dir, or else a generated one."""

    dimension: int = setting(3, "data")
    """Colors of a generated set, at least 3."""
    train_graphs: int = setting(500, "data")
    """Training graphs of a generated set."""
    test_graphs: int = setting(2_500, "data")
    """Graphs of the validation split and of each test subset of a generated set."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed, or has no effect on published data."""
        super().validate()
        expect_at_least(3, dimension=self.dimension)

    def load(self) -> "Data":
        """Reads or generates the data."""
        from .run.data import Data

        if self.data_dir is not None:
            return Data(datasets.published_colors(self.data_dir))
        tests = self.test_graphs
        return Data(datasets.generate_colors(self.dimension, self.train_graphs, tests, tests, self.data_seed))


@dataclass(frozen=True)
class Colors(Settings):
    """Settings of COLORS."""

    data: ColorsData = ColorsData()
    evaluation: EvaluationSettings = EvaluationSettings()

    def load(self) -> "Data":
        """Reads or generates the data."""
        return self.data.load()


# All epochs of one seed take 4.8 s. With a checkpoint every 10 of them they would take 6.
WEAK = with_changes(Colors(), compact=True, checkpoint_every=50)
SUPERVISED = with_changes(WEAK, attention="supervised")
UNSUPERVISED = with_changes(WEAK, attention="unsupervised", threshold=0.03)
GLOBAL = with_changes(WEAK, attention="none", epochs=100, decay_epochs=(90,))
GIN: dict[str, Any] = {"order": 1, "aggregation": "sum", "hidden": 256}
TOPK: dict[str, Any] = {"pooling": "topk", "ratio": 1.0}
# An unsupervised MLP has an AUC of 73 % from N(0, 1), as linear scorers start, 95 from the default; the paper 91.
DEEP: dict[str, Any] = {"scorer": "mlp", "init": "default"}

# A pooling before the first convolution also keeps the features of dropped nodes out of their neighbors'.
BEFORE = with_changes(WEAK, **ROBUST, init_scale=0.0, pool_before=(0,), score_from="current")

PRESETS = {
    "weak": WEAK,
    "weak-d": with_changes(WEAK, **DEEP),
    "weak-h": with_changes(WEAK, dimension=32),
    "robust": BEFORE,
    "robust-h": with_changes(BEFORE, dimension=32),
    "supervised": SUPERVISED,
    "supervised-d": with_changes(SUPERVISED, **DEEP),
    "supervised-h": with_changes(SUPERVISED, dimension=32),
    "supervised-topk": with_changes(SUPERVISED, **TOPK),
    "supervised-gin": with_changes(SUPERVISED, **GIN),
    "supervised-gin-topk": with_changes(SUPERVISED, **GIN, **TOPK),
    "unsupervised": UNSUPERVISED,
    "unsupervised-d": with_changes(UNSUPERVISED, **DEEP),
    "unsupervised-h": with_changes(UNSUPERVISED, dimension=32),
    "unsupervised-topk": with_changes(UNSUPERVISED, **TOPK),
    "unsupervised-gin": with_changes(UNSUPERVISED, **GIN),
    "unsupervised-gin-topk": with_changes(UNSUPERVISED, **GIN, **TOPK),
    "global": GLOBAL,
    "global-h": with_changes(GLOBAL, dimension=32),
    "global-gcn": with_changes(GLOBAL, order=1),
    "global-gin": with_changes(GLOBAL, **GIN),
    "diffpool": with_changes(GLOBAL, clusters=4),
    "diffpool-gin": with_changes(GLOBAL, **GIN, clusters=4),
    "upper-bound": with_changes(WEAK, attention="ground_truth", threshold=0.0),
    "upper-bound-gin": with_changes(WEAK, **GIN, attention="ground_truth", threshold=0.0),
}


VARIANTS = {"d": "by an MLP", "h": "with 32 colors"}
EXPERIMENT = Experiment("colors", __doc__ or "", PRESETS, paper_scores("COLORS"), Colors.load, variants=VARIANTS)
main = EXPERIMENT.main

if __name__ == "__main__":
    main(sys.argv[1:])
