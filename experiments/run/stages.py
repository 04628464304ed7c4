"""The stages of a run: training, with a metric line per epoch and checkpoints, and leave-one-out labels.

A stage continues where an interrupted run stopped.
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
from jattn.training import Epoch, Predictions, TrainConfig, TrainState, predict_seeds, prepare_seeds
from jattn.training._devices import (
    any_process,
    broadcast_from_main,
    devices_per_seed,
    fail_together,
    is_main_process,
    to_host,
)
from jattn.training._seeds import Trainer
from jattn.types import Params, Task

from .attention_settings import AttentionSettings
from .checkpoints import Best, Checkpoints, Saved
from .devices import RunSettings
from .folder import MADE_AGAIN, Run, RunError, read_lines
from .identity import differences, fingerprint, training_identity
from .labels import Labels, noise_mask
from .monitoring import EventFile, resources
from .output import Progress, count_graphs, note
from .results import MeanStd, as_mean_std
from .signals import Terminated, defer_signals

AUC_POINTS = 30  # training lines per stage with an AUC: scikit-learn takes as long for it as a short epoch
AUC_NODES = 10_000_000  # nodes that these AUCs are computed from in all; 3 seconds
LABELS_FORMAT = 3


class InitialWeights(NamedTuple):
    """Initial weights other than those that a seed draws.

    Attributes:
      change: replaces the weights of a state before training.
      identity: where they come from, as JSON.
    """

    change: Callable[[TrainState], TrainState]
    identity: Mapping[str, Any]


class _Stage(NamedTuple):
    """A stage that is about to train.

    Attributes:
      name: its name.
      network: the architecture.
      config: how it is trained.
      epochs: the epochs to train.
      training: the compiled epoch and the initial state.
      validation: graphs that choose the best weights of each network; None to return the last ones.
      began: the time at which it would have begun without an interruption.
    """

    name: str
    network: Network
    config: TrainConfig
    epochs: int
    training: Trainer
    validation: GraphsTuple | None
    began: float


class StageTrainer:
    """Trains several networks at once, in stages.

    Attributes:
      run: the run's folder.
      options: how often to save, and what to show.
      batch_size: graphs per training step.
      graphs: the training graphs.
      task: what is predicted.
      seeds: the seed of each network.
      train_ids: the graphs that each network trains on; None for all.
      seconds: the time that each stage took.
      labels_removed: percentage of leave-one-out labels above 0 that were set to 0 as noise; None if none could be.
      chosen: the name of the trial that a study chose, or "". It is part of the names of checkpoints, so that another
        choice has checkpoints of its own.
    """

    def __init__(
        self,
        run: Run,
        options: RunSettings,
        batch_size: int,
        graphs: GraphsTuple,
        task: Task,
        seeds: Sequence[int],
        train_ids: Sequence[Int[np.ndarray, " _"]] | None = None,
    ):
        """Prepares stages.

        Args:
          run: keeps checkpoints, labels and metric lines.
          options: how often to save, and what to show.
          batch_size: graphs per training step.
          graphs: the host-side training graphs.
          task: what is predicted.
          seeds: the seed of each network.
          train_ids: the graphs that each network trains on; None for all.

        Raises:
          RunError: one of several processes would have no network to train.
        """
        try:
            devices_per_seed(len(seeds))
        except ValueError as error:
            raise RunError(f"--{error}") from error
        self.run, self.options, self.batch_size = run, options, batch_size
        self.graphs, self.task, self.seeds, self.train_ids = graphs, task, seeds, train_ids
        self.seconds: dict[str, float] = {}
        self.labels_removed: MeanStd | None = None
        self.chosen = ""
        self._graphs_fingerprint = fingerprint(graphs)

    def with_networks(
        self, graphs: GraphsTuple, seeds: Sequence[int], train_ids: Sequence[Int[np.ndarray, " _"]] | None
    ) -> "StageTrainer":
        """A trainer of other networks in the same run.

        Args:
          graphs: the host-side training graphs.
          seeds: the seed of each network.
          train_ids: the graphs that each network trains on; None for all.
        """
        return StageTrainer(self.run, self.options, self.batch_size, graphs, self.task, seeds, train_ids)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Records the time that a stage takes."""
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
        """Trains all networks, from the last checkpoint if there is one, and returns their weights.

        Args:
          stage: its name.
          network: the architecture.
          config: how to train it.
          epochs: the epochs to train.
          attention: target attention of each network, if it is not that of the graphs.
          validation: to return, for each network, the weights of the checkpoint with the highest accuracy on these
            graphs in place of the last weights.
          start: initial weights other than those that the seeds draw.

        Raises:
          RunError: the stage's checkpoints are of something else, or can't be written.
          Terminated: the program was asked to end.
        """
        began = time.perf_counter()
        training = prepare_seeds(
            network, config, self.graphs, self.seeds, epochs, self.batch_size, attention, self.train_ids
        )
        if start is not None:
            training = training._replace(state=start.change(training.state))
        identity = self._identity(network, config, epochs, attention, start)
        with defer_signals() as stop_requested, Checkpoints(self._checkpoints(stage), identity) as checkpoints:
            no_best = None if validation is None else Best.none(training.state.params)
            saved = checkpoints.restore_latest(training.state, no_best)
            with fail_together():
                if saved.epoch < epochs:  # otherwise lines of later stages may follow
                    self.run.lines.truncate(stage, saved.epoch)
            began -= saved.seconds
            prepared = _Stage(stage, network, config, epochs, training, validation, began)
            last = self._train_epochs(prepared, saved, checkpoints, stop_requested)
            self.seconds[stage] = time.perf_counter() - began
            stopped = any_process(stop_requested())
        if stopped:  # another process was asked to end
            raise Terminated
        return to_host(last.state.params) if last.best is None else last.best.params

    def _train_epochs(
        self, stage: _Stage, saved: Saved, checkpoints: Checkpoints, stop_requested: Callable[[], bool]
    ) -> Saved:
        """Trains from a checkpoint to the last epoch, or until the program is asked to end, and returns the last state.

        Writes a metric line for each epoch, and checkpoints.
        """
        event_folder = self.run.folder / "tensorboard" / stage.name if self.options.tensorboard else None
        last = saved
        with (
            Progress(stage.name, stage.epochs, saved.epoch, self.options.quiet) as progress,
            EventFile(event_folder, saved.epoch) as event_file,
        ):
            for epoch in stage.training.run(saved.state, saved.epoch):
                line = self._line(stage.name, epoch, stage.epochs)
                seconds = time.perf_counter() - stage.began
                speed = self._graphs_per_epoch() / (seconds - last.seconds)
                line |= {"seconds": round(seconds, 3), **resources(speed)}
                last = Saved(epoch.number, epoch.state, seconds, last.best)
                stopping = any_process(stop_requested())
                due = epoch.number % self.options.checkpoint_every == 0 or epoch.number == stage.epochs
                # An epoch at which training is only stopped is no candidate, or a resumed run would differ.
                if due and stage.validation is not None and last.best is not None:
                    params = to_host(epoch.state.params)
                    accuracies = self._validation_accuracy(stage, params, stage.validation)
                    line["validation_accuracy"] = accuracies
                    last = last._replace(best=last.best.or_better(epoch.number, params, accuracies["values"]))
                with fail_together():
                    self.run.lines.write(line)
                    event_file.write(line)
                    progress.show(line)
                if due or stopping:
                    checkpoints.save(*last)
                if stopping:
                    break
        return last

    def final_loss(self, stage: str) -> Float[np.ndarray, " seeds"]:
        """The loss of each network in the last epoch of a stage.

        Raises:
          RunError: the stage has no metric lines.
        """
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
        """The identity of the weights that `train` returns for the same arguments."""
        return training_identity(
            network,
            config,
            epochs=epochs,
            batch_size=self.batch_size,
            seeds=self.seeds,
            start={} if start is None else start.identity,
            data=self._fingerprints(attention=attention, train_ids=self.train_ids),
        )

    def _checkpoints(self, stage: str) -> Path:
        return self.run.folder / "checkpoints" / "-".join(filter(None, [stage.replace(" ", "-"), self.chosen]))

    def _fingerprints(self, **others: Any) -> dict[str, str]:
        """Fingerprints of the training graphs and of other arrays, by name."""
        arrays = {name: value for name, value in others.items() if value is not None}
        return {"graphs": self._graphs_fingerprint} | {name: fingerprint(value) for name, value in arrays.items()}

    def _line(self, stage: str, epoch: Epoch, epochs: int) -> dict[str, Any]:
        """The metrics of an epoch: loss, accuracy and, in some epochs, attention AUC."""
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
        """The number of graphs that all networks together see in an epoch."""
        return len(self.seeds) * len(self.graphs.n_node) if self.train_ids is None else sum(map(len, self.train_ids))

    def _accuracy(self, predictions: Predictions) -> dict[str, Any]:
        """The accuracy of each network on the graphs that it trains on."""
        label = self.graphs.globals["label"]
        train_ids = self.train_ids or [np.arange(len(label))] * len(self.seeds)
        pairs = zip(predictions.prediction, train_ids, strict=True)
        return mean_std([accuracy(prediction[ids], label[ids], self.task) for prediction, ids in pairs])

    def _validation_accuracy(self, stage: _Stage, params: Params, graphs: GraphsTuple) -> dict[str, Any]:
        """The accuracy of each network on validation graphs."""
        predictions = predict_seeds(stage.network, params, graphs, compact=stage.config.compact)
        label = graphs.globals["label"]
        return mean_std([accuracy(prediction, label, self.task) for prediction in predictions.prediction])

    def _auc(self, predictions: Predictions) -> list[dict[str, Any]]:
        """The AUC of each pooling layer against the true attention, even if a teacher's labels are the target."""
        truth = self.graphs.nodes["attention"]
        layers = zip(predictions.attention, entered_masks(predictions), strict=True)
        return [
            mean_std([attention_auc(alpha, truth, mask) for alpha, mask in zip(*layer, strict=True)])
            for layer in layers
        ]

    def leave_one_out_labels(
        self, stage: str, file: Path, teacher: Network, params: Params, attention: AttentionSettings
    ) -> Float[np.ndarray, "seeds nodes"]:
        """The teachers' leave-one-out labels: those in the file, or else new ones, which are written to it.

        Labels that the settings call noise are 0; the loss renormalizes the others.

        Raises:
          RunError: the file has labels of other weights or graphs, or another format.
        """
        start, change = time.perf_counter(), attention.label_change
        identity = training_identity(teacher, change=change, data=self._fingerprints(weights=params))
        kept = None
        with fail_together():
            if is_main_process():
                kept = self._read_labels(file, identity)
        if any_process(kept is not None):
            seeds, n_node = len(self.seeds), self.graphs.n_node
            shapes = (np.zeros((seeds, size), np.float32) for size in (int(n_node.sum()), len(n_node)))
            labels, seconds = broadcast_from_main(kept or (Labels(*shapes), np.float32(0)))
        else:
            with count_graphs(stage, len(self.graphs.n_node), self.options.quiet) as report:
                result = leave_one_out_seeds(teacher, params, self.graphs, self.task, report, change)
            labels = Labels(np.asarray(result.target), np.asarray(result.total_change))
            seconds = np.float32(time.perf_counter() - start)
            with fail_together():
                if is_main_process():
                    described = {"format": LABELS_FORMAT, "of": json.dumps(identity)}
                    write_arrays(file, {**described, **labels._asdict(), "seconds": seconds})
        self.seconds[stage] = float(seconds)
        noise = labels.target < attention.label_threshold
        if attention.label_fraction:
            noise |= noise_mask(labels, self.graphs.n_node, attention.label_fraction, self.train_ids)
        if attention.label_threshold or attention.label_fraction:
            positive = labels.target > 0
            share = 100 * (noise & positive).sum(1) / np.maximum(positive.sum(1), 1)
            self.labels_removed = as_mean_std(mean_std(share.tolist()))
            note(f"{stage}: {self.labels_removed} % of those above 0 are noise, set to 0", self.options.quiet)
        return np.where(noise, 0, labels.target)

    def _read_labels(self, file: Path, identity: Mapping[str, Any]) -> tuple[Labels, np.ndarray] | None:
        """The labels in a file and the seconds that they took; None if there are none, or they are damaged."""
        try:
            found = read_arrays(file)
        except (ValueError, OSError, EOFError, BadZipFile):  # they are made again
            return None
        number = found.get("format")
        expect_format(file, None if number is None else int(number), LABELS_FORMAT, MADE_AGAIN, RunError)
        changed = differences(json.loads(str(found["of"])), identity)
        if changed:
            why = f"{file} has labels of another teacher or other graphs; {MADE_AGAIN}"
            raise RunError("\n  ".join([why, *map(str, changed)]))
        return Labels(found["target"], found["total_change"]), found["seconds"]
