"""The paper's protocol: train (a twin, its leave-one-out labels, the network), test, and write the run's folder."""

import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import jax
import numpy as np
from jaxtyping import Float
from jraph import GraphsTuple

from experiments.progress import Progress, count_graphs
from experiments.settings import Settings, fail
from jattn import figures
from jattn.evaluation import join, present, score, spread
from jattn.losses import Task
from jattn.metrics import accuracy, attention_auc
from jattn.model import Network
from jattn.runs import (
    RunError,
    open_run,
    read_arrays,
    read_lines,
    write_arrays,
    write_json,
    write_line,
    write_weights,
)
from jattn.seeds import leave_one_out_seeds, predict_seeds, train_seeds
from jattn.training import Params, Predictions, TrainConfig

AUC_POINTS = 30  # training lines of a stage that give the AUC: in scikit-learn it takes as long as a short epoch
AUC_NODES = 30_000_000  # nodes that these look at, in all; 10 seconds
DRAWN = 3  # graphs of each subset that a run draws

Draw = Callable[[Mapping[str, GraphsTuple], Predictions, Path], None]


def draw_examples(subsets: Mapping[str, GraphsTuple], predictions: Predictions, path: Path) -> None:
    """Draws the first seed's attention on graphs of every subset, evenly spaced in order of size.

    Args:
      subsets: host-side splits.
      predictions: of `join(subsets)`, arrays [seeds, ...].
      path: the picture.
    """
    ids, titles, start = [], [], 0
    for name, subset in subsets.items():
        by_size = np.argsort(subset.n_node, kind="stable")
        for i in by_size[np.unique(np.linspace(0, len(by_size) - 1, DRAWN + 2).astype(int)[1:-1])]:
            ids.append(start + int(i))
            titles.append(title(name))
        start += len(subset.n_node)
    output, attention, kept = (
        np.asarray(x[0]) for x in (predictions.prediction, predictions.attention[0], predictions.kept[0])
    )
    shown = output[:, 0] if output.shape[1] == 1 else output.argmax(-1)
    figures.attention_graphs(join(subsets), shown, attention, kept, ids, path, titles)


class Data(NamedTuple):
    """What an experiment trains and tests on.

    Attributes:
      splits: "train", "validation" where there is one, and the test subsets, host-side.
      draw: draws some graphs of the evaluated subsets with their attention.
    """

    splits: Mapping[str, GraphsTuple]
    draw: Draw = draw_examples


def run(settings: Settings, name: str, data: Data, task: Task, outputs: int) -> dict[str, Any]:
    """Runs one configuration: trains it for all seeds, tests it and writes its folder.

    Args:
      settings: the configuration.
      name: what the folder is called where `settings.out` does not say, a date added.
      data: what to train and test on.
      task: what is predicted.
      outputs: outputs a graph.

    Returns:
      What `results.json` holds, and under "folder" where.
    """
    folder, splits = settings.out or _new_folder(name), data.splits
    try:
        lines = open_run(folder, settings)
    except RunError as error:
        fail(str(error))
    with lines:
        stages = _Stages(settings, splits["train"], task, lines)
        network, params = _train(settings, stages, folder, outputs)
    write_weights(folder / "weights.npz", params)
    tested = ["validation"] if settings.validation else [key for key in splits if key not in ("train", "validation")]
    subsets = {key: splits[key] for key in tested}
    with stages.timed("test"):
        graphs = join(subsets)
        predictions = predict_seeds(network, params, graphs)
        if settings.attention == "none" and settings.leave_one_out_auc:
            with count_graphs("leave-one-out", len(graphs.n_node)) as done:
                left_out = leave_one_out_seeds(network, params, graphs, task, done).attention
            predictions = predictions._replace(attention=(left_out,), kept=(np.ones(left_out.shape, bool),))
        scores = score(predictions, subsets, task)
    results = {"subsets": scores, "seconds": stages.seconds}
    write_json(folder / "results.json", results)
    with stages.timed("pictures"):
        figures.training_curves(read_lines(folder / "metrics.jsonl"), folder / "training.png")
        sizes, named = splits["train"].n_node, {title(key): of_subset for key, of_subset in scores.items()}
        figures.accuracy_curves(named, (int(sizes.min()), int(sizes.max())), folder / "accuracy.png")
        if predictions.attention:
            data.draw(subsets, predictions, folder / "graphs.png")
    write_json(folder / "results.json", results)  # again, with the time that pictures took
    return {**results, "folder": str(folder)}


def _new_folder(name: str) -> Path:
    """Makes a folder of its own for a run: two that start in the same second get two."""
    stem = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    for folder in itertools.chain([stem], (stem.with_name(f"{stem.name}-{i}") for i in itertools.count(2))):
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            fail(f"{folder}: can't be made ({error.strerror}); name another folder with --out")
        return folder
    raise AssertionError("the numbers ran out")


def table(results: Mapping[str, Any], paper: Mapping[str, str]) -> str:
    """Accuracy of each subset and attention AUC, mean and standard deviation over seeds, beside the paper's figures.

    Args:
      results: what `run` returns.
      paper: the paper's figures by subset, and "auc"; "" or absent where it gives none.
    """
    subsets = dict(results["subsets"])
    aucs = subsets.pop("all")["attention_auc"]
    columns = [(key, subset["accuracy"]) for key, subset in subsets.items()]
    columns += [("auc" if i == 0 else f"auc {i + 1}", auc) for i, auc in enumerate(aucs)]
    seeds = len(columns[0][1]["values"])
    rows = [
        ["%", *(key.upper() if key.startswith("auc") else title(key) for key, _ in columns)],
        [f"{seeds} seed{'s' * (seeds > 1)}", *(f"{of['mean']:.1f} ± {of['std']:.1f}" for _, of in columns)],
        ["paper", *(paper.get(key) or "-" for key, _ in columns)],
    ]
    return "\n".join("".join(f"{cell:<10}" if i == 0 else f"{cell:>14}" for i, cell in enumerate(row)) for row in rows)


def title(subset: str) -> str:
    """A subset's name as tables and pictures show it."""
    return {"largec": "LargeC", "noisyc": "NoisyC"}.get(subset, subset.capitalize())


class _Stages:
    """The timed parts of a run; training stages show their progress and write a metric line an epoch."""

    def __init__(self, settings: Settings, graphs: GraphsTuple, task: Task, lines: TextIO):
        self.settings, self.graphs, self.task, self.lines = settings, graphs, task, lines
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
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
        """The weights of all seeds after training, with `attention` as its target where given."""
        settings, start = self.settings, time.perf_counter()
        seeds = range(settings.seed, settings.seed + settings.seeds)
        points = np.clip(AUC_NODES // (len(seeds) * int(self.graphs.n_node.sum()) + 1), 3, AUC_POINTS)
        every = -(-epochs // int(points))
        training = train_seeds(network, config, self.graphs, seeds, epochs, settings.batch_size, attention)
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
                if predictions.attention and measured:
                    line["attention_auc"] = self._auc(predictions)
                write_line(self.lines, line)
                progress.show(line)
        return jax.device_get(epoch.state.params)

    def _accuracy(self, predictions: Predictions) -> dict[str, Any]:
        return spread(
            [accuracy(of_seed, self.graphs.globals["label"], self.task) for of_seed in predictions.prediction]
        )

    def _auc(self, predictions: Predictions) -> list[dict[str, Any]]:
        """Against the true attention, also where a twin's labels are the target."""
        truth = self.graphs.nodes["attention"]
        layers = zip(predictions.attention, present(predictions), strict=True)
        return [spread([attention_auc(a, truth, p) for a, p in zip(*layer, strict=True)]) for layer in layers]


def _train(settings: Settings, stages: _Stages, folder: Path, outputs: int) -> tuple[Network, Params]:
    """All training stages of a run, up to the network that is tested."""
    network, labels = settings.network(outputs), None
    if settings.attention == "weak":
        twin = settings.twin(outputs)
        twin_params = stages.train("twin", twin, settings.twin_training(stages.task), settings.twin_epochs)
        with stages.timed("labels"):
            labels = _labels(folder / "labels.npz", twin, twin_params, stages.graphs, stages.task)
    stage = "global" if settings.attention == "none" else "attention"
    return network, stages.train(stage, network, settings.training(stages.task), settings.epochs, labels)


def _labels(
    file: Path, twin: Network, params: Params, graphs: GraphsTuple, task: Task
) -> Float[np.ndarray, "seeds nodes"]:
    """The twin's leave-one-out labels: the file's, if they are of the same weights and graphs, or else new ones."""
    key = hashlib.sha256(str(jax.tree.structure((params, graphs))).encode())
    for array in jax.tree.leaves((params, graphs)):
        key.update(np.ascontiguousarray(array).data)
    of = np.frombuffer(key.digest(), np.uint8)
    if file.exists():
        before = read_arrays(file)
        if "of" in before and np.array_equal(before["of"], of):
            return before["target"]
    with count_graphs("labels", len(graphs.n_node)) as done:
        target = np.asarray(leave_one_out_seeds(twin, params, graphs, task, done).target)
    write_arrays(file, {"of": of, "target": target})
    return target
