"""What three networks do with the same test graphs, from their runs: the content of the paper's qualitative figure.

Its columns are the input, DiffPool's clusters, the leave-one-out attention of global pooling, and the attention of the
weakly supervised model, as in Knyazev et al. 2019.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int
from jraph import GraphsTuple

from jattn.attribution import leave_one_out_seeds
from jattn.batching import pad
from jattn.evaluation import join
from jattn.evaluation._metrics import is_correct
from jattn.graphs import Proximity, list_edges, select_graphs
from jattn.io import load_network
from jattn.nn import Network, cluster_assignment
from jattn.plots import save
from jattn.plots._layout import stress_layout
from jattn.plots._style import attention_colors
from jattn.training import predict_seeds
from jattn.types import Params

from ..reports.runs import TITLES
from ..run.data import Data
from ..run.folder import RunConfig, RunError, differences
from ..run.groups import with_changes
from ..run.output import note
from ..run.pictures import try_to_write
from ..run.tables import title
from ..sweeps.grid import Job
from ..sweeps.summary import Finished, read_finished
from .plan import COMPARED, QUALITATIVE, TaskRuns, first_jobs
from .qualitative_figure import Example, Panel, cluster_colors, qualitative_figure

SUBSETS = {"mnist75sp": ("orig", "noisy", "noisyc"), "triangles": ("orig", "large"), "colors": ("orig", "large")}
SIZES = {"orig": 16, "large": 32}  # nodes of the graphs that are shown, about
MIN_LABEL = 2  # of theirs: triangles or green nodes
DIGIT = 2  # whose first test image is shown
RED_GREEN_BLUE = np.array([[0.82, 0.29, 0.36], [0.25, 0.64, 0.36], [0.27, 0.47, 0.75]])
PLAIN = np.array([0.78, 0.81, 0.85])  # of nodes without a color of their own


class Column(NamedTuple):
    """A column of the figure.

    Attributes:
      values: what is drawn of every node, [nodes, ...].
      paint: the colors of the nodes of one graph, from their values.
      prediction: outputs for every graph, [graphs, outputs]; None for the input.
      node_mask: the nodes that are not dropped; None for all.
    """

    values: np.ndarray
    paint: Callable[[Any], Float[np.ndarray, "nodes channels"]]
    prediction: Float[np.ndarray, "graphs outputs"] | None = None
    node_mask: Bool[np.ndarray, " nodes"] | None = None

    def panel(self, i: int, nodes: slice, label: Any) -> Panel:
        """Returns the panel of graph i, which has some of the nodes."""
        colors = self.paint(self.values[nodes])
        node_mask = np.ones(len(colors), bool) if self.node_mask is None else self.node_mask[nodes]
        if self.prediction is None:
            return Panel(colors, node_mask)
        output = self.prediction[i : i + 1]
        is_class = output.shape[1] > 1
        correct = is_correct(output, np.array([label]), "classification" if is_class else "regression")[0]
        predicted = f"{output.argmax()}" if is_class else f"{round(output.item(), 1) + 0.0:.1f}"  # + 0.0: no "-0.0"
        return Panel(colors, node_mask, predicted, bool(correct))


def draw_qualitative(runs: Sequence[TaskRuns], out: Path, quiet: bool = False) -> None:
    """Draws the figure from finished runs, and says which tasks are left out.

    Args:
      runs: runs of every task; those with the first seed are shown.
      out: the folder of their folders.
      quiet: say nothing.
    """
    examples = []
    for task in SUBSETS:
        jobs = next((first_jobs(found.jobs) for found in runs if found.task == task), {})
        if jobs.keys() >= set(COMPARED):  # otherwise the task was not asked for
            try:
                examples += task_examples([jobs[preset] for preset in COMPARED], out / task)
            except (RunError, OSError, ValueError) as error:
                note(f"{QUALITATIVE}: {TITLES[task]} is left out, {error}", quiet)
    if examples:
        try_to_write(out / QUALITATIVE, lambda path: save(qualitative_figure(examples), path))


def task_examples(jobs: Sequence[Job], out: Path) -> list[Example]:
    """Returns the examples of one task.

    Args:
      jobs: one of each preset of `COMPARED`, in that order.
      out: the folder of their folders.

    Raises:
      RunError: a run is missing or damaged, or its data are others now.
      OSError, ValueError: its data can't be read.
    """
    *_, weak = runs = [_finished(job, out) for job in jobs]
    data, task = _data(weak), weak.job.experiment.name
    ids = {name: _choose(data.splits[name], None if data.segments else SIZES[name]) for name in SUBSETS[task]}
    graphs = join({name: select_graphs(data.splits[name], np.array([i])) for name, i in ids.items()})
    columns = _columns(runs, out, graphs, _input_colors(task, data, graphs))
    listed = list_edges(graphs) if isinstance(graphs.edges, Proximity) else graphs
    node, edge = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in (graphs.n_node, listed.n_edge))
    label, examples = graphs.globals["label"], []
    for i, (name, index) in enumerate(ids.items()):
        nodes, edges = slice(node[i], node[i + 1]), slice(edge[i], edge[i + 1])
        ends = np.stack([listed.senders[edges], listed.receivers[edges]], 1) - node[i]
        examples.append(
            Example(
                title=f"{TITLES[task]}\n{title(name)}",
                label=f"{label[i]:g}",
                panels={heading: column.panel(i, nodes, label[i]) for heading, column in columns.items()},
                target=graphs.nodes["attention"][nodes] > 0,
                ends=ends,
                weights=listed.edges[edges],
                position=stress_layout(int(graphs.n_node[i]), ends),
                segments=data.segments(index) if data.segments else None,
            )
        )
    return examples


def _finished(job: Job, out: Path) -> Finished:
    """The finished run of a job. Raises `RunError` if there is none."""
    finished, others = read_finished([job], out)
    if not finished:
        raise RunError(f"{out / job.name}: {others.get(job.name, 'there is no finished run')}")
    return finished[0]


def _data(run: Finished) -> Data:
    """The data of a run, which may have moved. Raises `RunError` if they are others now."""
    experiment, stored = run.job.experiment, run.config.settings.get("data_dir")
    settings = with_changes(run.job.settings, data_dir=None if stored is None else Path(stored))
    data = experiment.data(settings)
    if differences(run.config, RunConfig(experiment.name, run.job.preset, settings, data.fingerprints())):
        raise RunError(f"the data of {run.job.name} are not those that are there now")
    return data


def _choose(subset: GraphsTuple, size: int | None) -> int:
    """The graph of a test subset to show: one of about so many nodes; without a size, the first image of a digit."""
    label = subset.globals["label"]
    if size is None:
        return int(np.argmax(label == DIGIT))
    return int(np.argmin(np.abs(subset.n_node - size) + 1000 * (label < MIN_LABEL)))


def _input_colors(task: str, data: Data, graphs: GraphsTuple) -> Float[np.ndarray, "nodes channels"]:
    """The colors of nodes as they enter the networks: those of COLORS or of an image; TRIANGLES has none."""
    if data.view is not None:
        channels = data.view(graphs).channels
        return np.broadcast_to(np.clip(np.nan_to_num(channels), 0, 1), (len(channels), 3))
    if task == "colors":
        return RED_GREEN_BLUE[np.asarray(graphs.nodes["features"])[:, :3].argmax(1)]
    return np.tile(PLAIN, (int(graphs.n_node.sum()), 1))


def _columns(
    runs: Sequence[Finished], out: Path, graphs: GraphsTuple, colors: Float[np.ndarray, "nodes channels"]
) -> dict[str, Column]:
    """The columns of some graphs by heading, from the first network of each run of `COMPARED`."""
    networks = [_first_network(out / run.job.name) for run in runs]
    diffpool, without, _ = networks
    left_out = leave_one_out_seeds(*without, graphs, runs[0].job.experiment.task).attention[0]
    *_, weak = found = [predict_seeds(*network, graphs) for network in networks]
    outputs = [np.asarray(predictions.prediction[0]) for predictions in found]
    attention, node_mask = np.asarray(weak.attention[0][0]), np.asarray(weak.node_masks[0][0])
    return {
        "input": Column(colors, lambda colors: colors),
        "clusters of DiffPool\n(a color each)": Column(_clusters(*diffpool, graphs), cluster_colors, outputs[0]),
        "leave-one-out attention\nof global pooling": Column(np.asarray(left_out), attention_colors, outputs[1]),
        "attention of the weakly\nsupervised network": Column(attention, attention_colors, outputs[2], node_mask),
    }


def _clusters(network: Network, params: Params, graphs: GraphsTuple) -> Int[np.ndarray, " nodes"]:
    """The most probable cluster of each node."""
    listed = list_edges(graphs) if isinstance(graphs.edges, Proximity) else graphs
    weights = jax.tree.map(lambda array: array[0], params)
    assignment = cluster_assignment(network, weights, jax.device_put(pad(listed)))
    return np.asarray(assignment.argmax(1))[: int(graphs.n_node.sum())]


def _first_network(folder: Path) -> tuple[Network, Params]:
    """The network with the first seed of a run, with an axis of one seed."""
    network, params = load_network(folder / "weights.npz")
    return network, jax.tree.map(lambda weights: weights[:1], params)
