"""The stages of a run, timed: training, shown and written down epoch by epoch, and leave-one-out labels."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import jax
import numpy as np
from jaxtyping import Float, Int
from jraph import GraphsTuple

from experiments.progress import Progress, count_graphs
from jattn.evaluation import present, spread
from jattn.left_out import leave_one_out_seeds
from jattn.losses import Task
from jattn.metrics import accuracy, attention_auc
from jattn.model import Network
from jattn.runs import read_arrays, write_arrays, write_line
from jattn.seeds import train_seeds
from jattn.training import Params, Predictions, TrainConfig

AUC_POINTS = 30  # training lines of a stage that give the AUC: in scikit-learn it takes as long as a short epoch
AUC_NODES = 30_000_000  # nodes that these look at, in all; 10 seconds


class Stages:
    """Trains some networks, all at once, in stages.

    Attributes:
      graphs: what they train on.
      task: what they predict.
      seconds: how long each stage took.
    """

    def __init__(
        self,
        graphs: GraphsTuple,
        task: Task,
        lines: TextIO,
        seeds: Sequence[int],
        batch_size: int,
        members: Sequence[Int[np.ndarray, "_"]] | None = None,
    ):
        """Prepares them.

        Args:
          graphs: host-side.
          task: what is predicted.
          lines: where to write a metric line an epoch.
          seeds: of each network.
          batch_size: graphs a step.
          members: the graphs that each network trains on; all where not given.
        """
        self.graphs, self.task, self.lines, self.seeds, self.batch_size = graphs, task, lines, seeds, batch_size
        self.members = members
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Notes how long a stage takes."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start

    def train(
        self,
        stage: str,
        network: Network,
        config: TrainConfig,
        epochs: int,
        attention: Float[np.ndarray, "seeds nodes"] | None = None,
    ) -> Params:
        """The weights of all networks after training, with `attention` as its target where given."""
        start, nodes = time.perf_counter(), len(self.seeds) * int(self.graphs.n_node.sum())
        every = -(-epochs // int(np.clip(AUC_NODES // (nodes + 1), 3, AUC_POINTS)))
        has_truth = bool((self.graphs.nodes["attention"] > 0).any())
        training = train_seeds(
            network, config, self.graphs, self.seeds, epochs, self.batch_size, attention, self.members
        )
        with self.timed(stage), Progress(stage, epochs) as progress:
            for epoch in training:
                predictions = jax.device_get(epoch.predictions)
                line = {
                    "stage": stage,
                    "epoch": epoch.number,
                    "seconds": round(time.perf_counter() - start, 3),
                    "loss": spread(np.asarray(epoch.loss).tolist()),
                    "accuracy": self._accuracy(predictions),
                }
                measured = (epoch.number - 1) % every == 0 or epoch.number == epochs
                if predictions.attention and has_truth and measured:
                    line["attention_auc"] = self._auc(predictions)
                write_line(self.lines, line)
                progress.show(line)
        return jax.device_get(epoch.state.params)

    def _accuracy(self, predictions: Predictions) -> dict[str, Any]:
        """That of each network's own graphs."""
        label = self.graphs.globals["label"]
        members = self.members or [np.arange(len(label))] * len(self.seeds)
        said = zip(predictions.prediction, members, strict=True)
        return spread([accuracy(of_seed[own], label[own], self.task) for of_seed, own in said])

    def _auc(self, predictions: Predictions) -> list[dict[str, Any]]:
        """Against the true attention, also where a twin's labels are the target."""
        truth = self.graphs.nodes["attention"]
        layers = zip(predictions.attention, present(predictions), strict=True)
        return [spread([attention_auc(a, truth, p) for a, p in zip(*layer, strict=True)]) for layer in layers]

    def labels(self, file: Path, twin: Network, params: Params, least: float = 0.0) -> Float[np.ndarray, "seeds nodes"]:
        """The twin's leave-one-out labels: the file's, if they are of the same weights and graphs, or else new ones.

        Those under `least` are 0. The others need not be normalised again, as the loss does that.
        """
        key = hashlib.sha256(str(jax.tree.structure((params, self.graphs))).encode())
        for array in jax.tree.leaves((params, self.graphs)):
            key.update(np.ascontiguousarray(array).data)
        of = np.frombuffer(key.digest(), np.uint8)
        before = read_arrays(file) if file.exists() else {}
        if "of" in before and np.array_equal(before["of"], of):
            target = before["target"]
        else:
            with count_graphs("labels", len(self.graphs.n_node)) as done:
                target = np.asarray(leave_one_out_seeds(twin, params, self.graphs, self.task, done).target)
            write_arrays(file, {"of": of, "target": target})
        return np.where(target < least, 0, target)
