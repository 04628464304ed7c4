"""The stages of a run, timed: training, shown and written down epoch by epoch, and leave-one-out labels.

Every stage goes on from where an interrupted run had come to.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from jaxtyping import Float, Int
from jraph import GraphsTuple

from jattn.attribution import leave_one_out_seeds
from jattn.evaluation import accuracy, attention_auc, entered_masks, mean_std
from jattn.io import read_arrays, write_arrays
from jattn.io._files import expect_format
from jattn.nn import Network
from jattn.training import Epoch, Params, Predictions, Task, TrainConfig, TrainState, predict_seeds, prepare_seeds
from jattn.training._devices import (
    any_process,
    broadcast_from_main,
    devices_per_seed,
    fail_together,
    is_main_process,
    to_host,
)

from .checkpoints import Best, Checkpoints
from .folder import Run, RunError, read_lines
from .identity import differences, fingerprint, training_identity
from .monitoring import EventFile, resources
from .progress import Progress, count_graphs
from .settings import Settings
from .signals import Terminated, defer_signals

AUC_POINTS = 30  # training lines of a stage that give the AUC: in scikit-learn it takes as long as a short epoch
AUC_NODES = 10_000_000  # nodes that these look at, in all; 3 seconds
LABELS_FORMAT = 2


class InitialWeights(NamedTuple):
    """Initial weights other than a seed's own.

    Attributes:
      change: gives a state before training those weights.
      described: where they come from, in words, numbers and digests.
    """

    change: Callable[[TrainState], TrainState]
    described: Mapping[str, Any]


class StageTrainer:
    """Trains some networks, all at once, in stages.

    Attributes:
      run: whose stages they are.
      graphs: what they train on.
      task: what they predict.
      seconds: how long each stage took.
      chosen: what a study chose, as a word; where it chooses something else later, stages that follow from that have
        checkpoints of their own.
    """

    def __init__(
        self,
        run: Run,
        settings: Settings,
        graphs: GraphsTuple,
        task: Task,
        seeds: Sequence[int],
        train_ids: Sequence[Int[np.ndarray, " _"]] | None = None,
    ):
        """Prepares them.

        Args:
          run: where checkpoints, labels and metric lines go.
          settings: how many graphs a step has, how often to save, what to show.
          graphs: host-side.
          task: what is predicted.
          seeds: of each network.
          train_ids: the graphs that each network trains on; all where not given.

        Raises:
          RunError: one of several processes would have nothing to do.
        """
        try:
            devices_per_seed(len(seeds))
        except ValueError as error:
            raise RunError(str(error)) from error
        self.run, self.settings, self.graphs, self.task = run, settings, graphs, task
        self.seeds, self.train_ids = seeds, train_ids
        self.seconds: dict[str, float] = {}
        self.chosen = ""
        self._digest = fingerprint(graphs)

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
        validation: GraphsTuple | None = None,
        start: InitialWeights | None = None,
    ) -> Params:
        """The weights of all networks after training.

        Args:
          stage: its name.
          network: the architecture.
          config: how to train it.
          epochs: how many.
          attention: its target, where it is not that of the graphs.
          validation: where the weights of each network are to be those of its checkpoint that does best on some graphs:
            those graphs.
          start: initial weights, where they are to be others.
        """
        batch_size, began = self.settings.batch_size, time.perf_counter()
        training = prepare_seeds(
            network, config, self.graphs, self.seeds, epochs, batch_size, attention, self.train_ids
        )
        if start is not None:
            training = training._replace(state=start.change(training.state))
        of = self._identity(network, config, epochs, attention, start)
        events = self.run.folder / "tensorboard"
        with defer_signals() as asked, Checkpoints(self._checkpoints(stage), of) as checkpoints:
            saved = checkpoints.restore_latest(
                training.state, None if validation is None else Best.none(training.state.params)
            )
            with fail_together():
                if saved.epoch < epochs:  # or else there may be lines of later stages
                    self.run.lines.truncate(stage, saved.epoch)
            state, best = saved.state, saved.best
            began -= saved.seconds  # as if all that was saved had just been trained
            with (
                Progress(stage, epochs, saved.epoch, self.settings.quiet) as progress,
                EventFile(events / stage if self.settings.tensorboard else None, saved.epoch) as event_file,
            ):
                before = saved.seconds
                for epoch in training.run(state, saved.epoch):
                    state = epoch.state
                    line = self._line(stage, epoch, epochs)
                    seconds = time.perf_counter() - began
                    line |= {"seconds": round(seconds, 3), **resources(self._graphs_per_epoch() / (seconds - before))}
                    before = seconds
                    ends = any_process(asked())
                    due = epoch.number % self.settings.checkpoint_every == 0 or epoch.number == epochs
                    if due and validation is not None and best is not None:  # others can't be: a cut would matter
                        params = to_host(state.params)
                        line["validation_accuracy"] = self._validate(network, params, validation)
                        best = best.or_better(epoch.number, params, line["validation_accuracy"]["values"])
                    with fail_together():
                        self.run.lines.write(line)
                        event_file.write(line)
                        progress.show(line)
                    if due or ends:
                        checkpoints.save(epoch.number, state, seconds, best)
                    if ends:
                        break
            self.seconds[stage] = time.perf_counter() - began
            ended = any_process(asked())
        if ended:  # as another process was asked to
            raise Terminated
        return to_host(state.params) if best is None else best.params

    def final_loss(self, stage: str) -> Float[np.ndarray, " seeds"]:
        """The loss of every network in the last epoch of a stage."""
        values = [[0.0] * len(self.seeds)]
        with fail_together():
            if is_main_process():
                lines = read_lines(self.run.folder / "metrics.jsonl")
                values = [line["loss"]["values"] for line in lines if line["stage"] == stage]
                if not values:
                    where = f"{self.run.folder / 'metrics.jsonl'}: the lines of {stage} are gone"
                    remedy = f"remove {self._checkpoints(stage)}, and the same command trains that stage again"
                    raise RunError(f"{where}; {remedy}")
        return broadcast_from_main(np.array(values[-1], np.float32))  # null becomes NaN

    def _identity(
        self,
        network: Network,
        config: TrainConfig,
        epochs: int,
        attention: Float[np.ndarray, "seeds nodes"] | None,
        start: InitialWeights | None,
    ) -> dict[str, Any]:
        """That of the weights that `train` gives; its arguments."""
        return training_identity(
            network,
            config,
            epochs=epochs,
            batch_size=self.settings.batch_size,
            seeds=self.seeds,
            start={} if start is None else start.described,
            data=self._fingerprints(attention=attention, train_ids=self.train_ids),
        )

    def _checkpoints(self, stage: str) -> Path:
        return self.run.folder / "checkpoints" / "-".join(filter(None, [stage.replace(" ", "-"), self.chosen]))

    def _fingerprints(self, **others: Any) -> dict[str, str]:
        """Digests of the graphs and of what else something depends on, by name."""
        return {"graphs": self._digest} | {name: fingerprint(of) for name, of in others.items() if of is not None}

    def _line(self, stage: str, epoch: Epoch, epochs: int) -> dict[str, Any]:
        """What an epoch's predictions say."""
        predictions, nodes = to_host(epoch.predictions), len(self.seeds) * int(self.graphs.n_node.sum())
        line = {
            "stage": stage,
            "epoch": epoch.number,
            "loss": mean_std(to_host(epoch.loss).tolist()),
            "accuracy": self._accuracy(predictions),
        }
        every = -(-epochs // int(np.clip(AUC_NODES // (nodes + 1), 3, AUC_POINTS)))
        measured = (epoch.number - 1) % every == 0 or epoch.number == epochs
        if predictions.attention and measured and (self.graphs.nodes["attention"] > 0).any():
            line["attention_auc"] = self._auc(predictions)
        return line

    def _graphs_per_epoch(self) -> int:
        """Graphs that all networks together see in an epoch."""
        return len(self.seeds) * len(self.graphs.n_node) if self.train_ids is None else sum(map(len, self.train_ids))

    def _accuracy(self, predictions: Predictions) -> dict[str, Any]:
        """That of each network's own graphs."""
        label = self.graphs.globals["label"]
        train_ids = self.train_ids or [np.arange(len(label))] * len(self.seeds)
        said = zip(predictions.prediction, train_ids, strict=True)
        return mean_std([accuracy(of_seed[own], label[own], self.task) for of_seed, own in said])

    def _validate(self, network: Network, params: Params, graphs: GraphsTuple) -> dict[str, Any]:
        predictions = predict_seeds(network, params, graphs, compact=self.settings.compact)
        label = graphs.globals["label"]
        return mean_std([accuracy(prediction, label, self.task) for prediction in predictions.prediction])

    def _auc(self, predictions: Predictions) -> list[dict[str, Any]]:
        """Against the true attention, also where a teacher's labels are the target."""
        truth = self.graphs.nodes["attention"]
        layers = zip(predictions.attention, entered_masks(predictions), strict=True)
        return [mean_std([attention_auc(a, truth, p) for a, p in zip(*layer, strict=True)]) for layer in layers]

    def leave_one_out_labels(
        self, stage: str, file: Path, teacher: Network, params: Params, least: float = 0.0
    ) -> Float[np.ndarray, "seeds nodes"]:
        """The teacher's leave-one-out labels: the file's, where there is one, or else new ones.

        Those under `least` are 0. The others need not be normalised again, as the loss does that.

        Raises:
          RunError: the file's are of other weights or graphs, or of another format.
        """
        start, of = time.perf_counter(), training_identity(teacher, data=self._fingerprints(weights=params))
        before = None
        with fail_together():
            if is_main_process():
                before = self._read_labels(file, of)
        if any_process(before is not None):
            nothing = np.zeros((len(self.seeds), int(self.graphs.n_node.sum())), np.float32), np.float32(0)
            target, seconds = broadcast_from_main(before or nothing)
        else:
            with count_graphs(stage, len(self.graphs.n_node), self.settings.quiet) as done:
                target = np.asarray(leave_one_out_seeds(teacher, params, self.graphs, self.task, done).target)
            seconds = np.float32(time.perf_counter() - start)
            with fail_together():
                if is_main_process():
                    described = {"format": LABELS_FORMAT, "of": json.dumps(of)}
                    write_arrays(file, {**described, "target": target, "seconds": seconds})
        self.seconds[stage] = float(seconds)
        return np.where(target < least, 0, target)

    def _read_labels(self, file: Path, of: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
        """The labels in a file and the seconds that they took; None where there are none, or they are damaged."""
        try:
            found = read_arrays(file)
        except (ValueError, OSError, EOFError, BadZipFile):  # which are made anew
            return None
        remedy, number = "remove it, and the same command makes it again", found.get("format")
        expect_format(file, None if number is None else int(number), LABELS_FORMAT, remedy, RunError)
        changed = differences(json.loads(str(found["of"])), of)
        if changed:
            why = f"{file} has labels of another teacher or other graphs; {remedy}"
            raise RunError("\n  ".join([why, *map(str, changed)]))
        return found["target"], found["seconds"]
