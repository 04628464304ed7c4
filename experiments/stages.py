"""The stages of a run, timed: training, shown and written down epoch by epoch, and leave-one-out labels.

Every stage goes on from where an interrupted run had come to.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import jax
import numpy as np
from jaxtyping import Float, Int
from jraph import GraphsTuple

from experiments.progress import Progress, count_graphs
from experiments.settings import Settings
from experiments.termination import Terminated, can_wait
from experiments.watching import EventFile, resources
from jattn.checkpoints import Checkpoints
from jattn.evaluation import present, spread
from jattn.files import read_arrays, write_arrays
from jattn.left_out import leave_one_out_seeds
from jattn.losses import Task
from jattn.metrics import accuracy, attention_auc
from jattn.model import Network
from jattn.parallel import any_process, fetch, is_first, parts_of, share
from jattn.runs import Run, RunError, read_lines
from jattn.seeds import Epoch, predict_seeds, prepare_seeds
from jattn.training import Params, Predictions, State, TrainConfig

AUC_POINTS = 30  # training lines of a stage that give the AUC: in scikit-learn it takes as long as a short epoch
AUC_NODES = 10_000_000  # nodes that these look at, in all; 3 seconds


class Stages:
    """Trains some networks, all at once, in stages.

    Attributes:
      run: whose stages they are.
      graphs: what they train on.
      task: what they predict.
      seconds: how long each stage took.
    """

    def __init__(
        self,
        run: Run,
        settings: Settings,
        graphs: GraphsTuple,
        task: Task,
        seeds: Sequence[int],
        members: Sequence[Int[np.ndarray, " _"]] | None = None,
    ):
        """Prepares them.

        Args:
          run: where checkpoints, labels and metric lines go.
          settings: how many graphs a step has, how often to save, what to show.
          graphs: host-side.
          task: what is predicted.
          seeds: of each network.
          members: the graphs that each network trains on; all where not given.

        Raises:
          RunError: one of several processes would have nothing to do.
        """
        try:
            parts_of(len(seeds))
        except ValueError as error:
            raise RunError(str(error)) from error
        self.run, self.settings, self.graphs, self.task = run, settings, graphs, task
        self.seeds, self.members = seeds, members
        self.seconds: dict[str, float] = {}
        self._data = digest(graphs)

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
        start_from: Callable[[State], State] | None = None,
    ) -> Params:
        """The weights of all networks after training.

        Args:
          stage: its name.
          network: the architecture.
          config: how to train it.
          epochs: how many.
          attention: its target, where it is not that of the graphs.
          validation: where the weights are to be those of the checkpoint that does best on some graphs: those graphs.
          start_from: changes the state before the first epoch, where initial weights are to be others.
        """
        batch_size, began = self.settings.batch_size, time.perf_counter()
        training = prepare_seeds(network, config, self.graphs, self.seeds, epochs, batch_size, attention, self.members)
        what: tuple[Any, ...] = repr((network, config, epochs, batch_size, self.seeds)), attention, self.members
        if start_from is not None:
            training = training._replace(state=start_from(training.state))
            what = *what, fetch(training.state.params)
        of = digest((self._data, *what))
        events = self.run.folder / "tensorboard"
        with Checkpoints(self._checkpoints(stage), of) as checkpoints, can_wait() as asked:
            saved = checkpoints.last(training.state)
            if saved.epoch < epochs:  # or else there may be lines of later stages
                self.run.lines.cut(stage, saved.epoch)
            state, began = saved.state, began - saved.seconds  # as if all that was saved had just been trained
            with (
                Progress(stage, epochs, saved.epoch, self.settings.quiet) as progress,
                EventFile(events / stage if self.settings.tensorboard else None, saved.epoch) as event_file,
            ):
                before = saved.seconds
                for epoch in training.run(state, saved.epoch):
                    state = epoch.state
                    line = self._line(stage, epoch, epochs)
                    seconds = time.perf_counter() - began
                    line |= {"seconds": round(seconds, 3), **resources(self._trained() / (seconds - before))}
                    before = seconds
                    ends = any_process(asked())
                    due = epoch.number % self.settings.checkpoint_every == 0 or epoch.number == epochs
                    if due and validation is not None:  # others can't be the best: it would matter when a run was cut
                        line["validation_accuracy"] = self._validate(network, state.params, validation)
                    self.run.lines.write(line)
                    event_file.write(line)
                    progress.show(line)
                    if due or ends:
                        score = line["validation_accuracy"]["mean"] if due and validation is not None else None
                        checkpoints.save(epoch.number, state, seconds, score)
                    if ends:
                        break
            self.seconds[stage] = time.perf_counter() - began
            ended = any_process(asked())
            if validation is not None and not ended:
                state = checkpoints.best(state).state
        if ended:  # as another process was asked to
            raise Terminated
        return fetch(state.params)

    def last_loss(self, stage: str) -> Float[np.ndarray, " seeds"]:
        """The loss of every network in the last epoch of a stage."""
        lines = read_lines(self.run.folder / "metrics.jsonl") if is_first() else []
        values = [line["loss"]["values"] for line in lines if line["stage"] == stage]
        if is_first() and not values:
            where = f"{self.run.folder / 'metrics.jsonl'}: the lines of {stage} are gone"
            raise RunError(f"{where}; remove {self._checkpoints(stage)}, and the same command trains that stage again")
        return share(np.array(values[-1] if values else [0.0] * len(self.seeds), np.float32))  # null becomes NaN

    def _checkpoints(self, stage: str) -> Path:
        return self.run.folder / "checkpoints" / stage.replace(" ", "-")

    def _line(self, stage: str, epoch: Epoch, epochs: int) -> dict[str, Any]:
        """What an epoch's predictions say."""
        predictions, nodes = fetch(epoch.predictions), len(self.seeds) * int(self.graphs.n_node.sum())
        line = {
            "stage": stage,
            "epoch": epoch.number,
            "loss": spread(fetch(epoch.loss).tolist()),
            "accuracy": self._accuracy(predictions),
        }
        every = -(-epochs // int(np.clip(AUC_NODES // (nodes + 1), 3, AUC_POINTS)))
        measured = (epoch.number - 1) % every == 0 or epoch.number == epochs
        if predictions.attention and measured and (self.graphs.nodes["attention"] > 0).any():
            line["attention_auc"] = self._auc(predictions)
        return line

    def _trained(self) -> int:
        """Graphs that all networks together see in an epoch."""
        return len(self.seeds) * len(self.graphs.n_node) if self.members is None else sum(map(len, self.members))

    def _accuracy(self, predictions: Predictions) -> dict[str, Any]:
        """That of each network's own graphs."""
        label = self.graphs.globals["label"]
        members = self.members or [np.arange(len(label))] * len(self.seeds)
        said = zip(predictions.prediction, members, strict=True)
        return spread([accuracy(of_seed[own], label[own], self.task) for of_seed, own in said])

    def _validate(self, network: Network, params: Params, graphs: GraphsTuple) -> dict[str, Any]:
        said, label = predict_seeds(network, params, graphs).prediction, graphs.globals["label"]
        return spread([accuracy(of_seed, label, self.task) for of_seed in said])

    def _auc(self, predictions: Predictions) -> list[dict[str, Any]]:
        """Against the true attention, also where a twin's labels are the target."""
        truth = self.graphs.nodes["attention"]
        layers = zip(predictions.attention, present(predictions), strict=True)
        return [spread([attention_auc(a, truth, p) for a, p in zip(*layer, strict=True)]) for layer in layers]

    def labels(
        self, stage: str, file: Path, twin: Network, params: Params, least: float = 0.0
    ) -> Float[np.ndarray, "seeds nodes"]:
        """The twin's leave-one-out labels: the file's, if they are of the same weights and graphs, or else new ones.

        Those under `least` are 0. The others need not be normalised again, as the loss does that.
        """
        start, of = time.perf_counter(), np.frombuffer(bytes.fromhex(digest((self._data, params))), np.uint8)
        before: dict[str, np.ndarray] = {}
        if is_first() and file.exists():
            with suppress(ValueError, OSError, EOFError, BadZipFile):  # of a damaged file, which is made anew
                before = read_arrays(file)
        if any_process("of" in before and np.array_equal(before["of"], of)):
            nothing = np.zeros((len(self.seeds), int(self.graphs.n_node.sum())), np.float32)
            target, seconds = share((before.get("target", nothing), before.get("seconds", np.float32(0))))
        else:
            with count_graphs(stage, len(self.graphs.n_node), self.settings.quiet) as done:
                target = np.asarray(leave_one_out_seeds(twin, params, self.graphs, self.task, done).target)
            seconds = np.float32(time.perf_counter() - start)
            if is_first():
                write_arrays(file, {"of": of, "target": target, "seconds": seconds})
        self.seconds[stage] = float(seconds)
        return np.where(target < least, 0, target)


def digest(tree: Any) -> str:
    """A hash of arrays and strings, and of how they are nested."""
    key = hashlib.sha256(str(jax.tree.structure(tree)).encode())
    for leaf in jax.tree.leaves(tree):
        key.update(leaf.encode() if isinstance(leaf, str) else np.ascontiguousarray(leaf).data)
    return key.hexdigest()
