"""Attention on the sample graphs of runs: data as JSON, and the elements in which `graphs.js` draws them."""

import html
from collections.abc import Mapping
from typing import Any

import numpy as np

from jattn.plots._colors import ATTENTION_COLORS, DROPPED, TARGET
from jattn.plots._graphs import EDGE

from ..run.samples import MAX_EDGES, MAX_NODES
from ..run.tables import title
from .page import embedded_json

EXTENT = 1000  # positions are whole numbers from 0 to this
LEVELS = 255  # as are attention, relative to the largest of the graph, and channels to this
CONTROLS = """
<form class="controls" id="filters">
<label data-for="run">Run <select name="run"></select></label>
<label data-for="subset">Subset <select name="subset"></select></label>
<label data-for="label">Label <select name="label"></select></label>
<label>Prediction <select name="answer">
<option value="">right or wrong<option value="right">right<option value="wrong">wrong</select></label>
<label>Order <select name="order">
<option value="size">smallest first<option value="-size">largest first<option value="label">by label
<option value="-error">largest error first</select></label>
<label data-for="layer">Pooling <select name="layer"></select></label>
</form>
<div class="stepper" role="group" aria-label="Step through graphs">
<button type="button" id="previous" aria-label="Previous graph">←</button>
<input type="range" id="place" min="0" value="0" aria-label="Graph">
<button type="button" id="next" aria-label="Next graph">→</button>
<output id="count"></output>
</div>
<figure id="graph" tabindex="0" aria-label="Graph" aria-describedby="caption">
<figcaption id="caption" aria-live="polite"></figcaption>
<div id="drawing"></div><div id="key"></div></figure>
<noscript><p>Graphs are drawn by JavaScript, which this browser does not run.</p></noscript>
"""
LEFT_OUT = (
    '<p class="muted">Right and wrong graphs are shown in equal numbers where there are enough of both, evenly spaced '
    f"by size. Graphs of more than {MAX_NODES} nodes or {MAX_EDGES:,} edges are left out.</p>"
)


def graphs_section(samples: Mapping[str, Mapping[str, np.ndarray] | None]) -> str:
    """Returns a section in which one steps through the sample graphs of runs.

    Args:
      samples: by the name of a run, what `read_samples` gives.
    """
    missing = [name for name, arrays in samples.items() if arrays is None]
    notes = [
        f"<p>{html.escape(', '.join(missing))}: no graphs to show, since the folder has no <code>samples.npz</code>. "
        "A version of jattn that did not write it made this run; run its command again with another "
        "<code>--out</code>.</p>"
    ] * bool(missing)
    there = {name: arrays for name, arrays in samples.items() if arrays is not None}
    heading = '<section id="graphs" aria-labelledby="graphs-heading"><h2 id="graphs-heading">Attention on graphs</h2>'
    if not there:
        return f"{heading}{''.join(notes)}</section>"
    colors = {"attention": ATTENTION_COLORS, "target": TARGET, "dropped": DROPPED, "edge": EDGE}
    data = {"colors": colors, "runs": [{"name": name, **_run(arrays)} for name, arrays in there.items()]}
    of_nodes = (
        "and attention of the first network. A node's color is its attention, relative to the largest of its graph; a "
        "ring marks target attention, and dropped nodes are small and hollow. "
        if any(arrays["attention"].shape[1] for arrays in there.values())
        else "of the first network, which has no attention. "
    )
    keys = "Buttons, slider and the keys ← and → step through the graphs."
    about = f"<p>Predictions {of_nodes}{keys}</p>"
    notes += [f'<p class="muted">{_shown(name, arrays, len(there) > 1)}</p>' for name, arrays in there.items()]
    return "\n".join([heading, about, CONTROLS, *notes, LEFT_OUT, embedded_json("graphs-data", data), "</section>"])


def _shown(name: str, arrays: Mapping[str, np.ndarray], named: bool) -> str:
    """How many graphs of each subset of a run are shown."""
    parts = []
    for i, subset in enumerate(arrays["subsets"]):
        shown, tested = int((arrays["subset"] == i).sum()), int(arrays["tested"][i])
        share = f" ({100 * arrays['correct_of_tested'][i] / tested:.1f} % of all are right)" if tested else ""
        parts.append(f"{shown:,} of {tested:,} graphs of {title(str(subset))}{share}")
    return html.escape(f"{name}: " * named + "; ".join(parts) + ".")


def _run(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The graphs of a run, as JSON has them."""
    node, edge = (np.cumsum(arrays[name]) for name in ("n_node", "n_edge"))
    graphs = []
    for i in range(len(node)):
        nodes = slice(node[i] - arrays["n_node"][i], node[i])
        edges = slice(edge[i] - arrays["n_edge"][i], edge[i])
        attention, kept = arrays["attention"][nodes], arrays["node_mask"][nodes]
        graph = {
            "subset": arrays["subset"][i],
            "number": arrays["number"][i],
            "label": _short(arrays["label"][i], 6),
            "prediction": _short(arrays["prediction"][i], 4),
            "error": _short(arrays["error"][i]),
            "correct": arrays["correct"][i],
            "position": _positions(arrays["position"][nodes]).ravel(),
            "edges": arrays["edges"][edges].ravel(),
            "target": np.flatnonzero(arrays["target"][nodes] > 0),
            "largest": [_short(layer.max(initial=0), 4) for layer in np.nan_to_num(attention).T],
            "attention": [_relative(layer) for layer in attention.T],
            "dropped": [np.flatnonzero(~layer) for layer in kept.T],
        }
        if arrays["channels"].shape[1]:
            channels = np.clip(np.nan_to_num(arrays["channels"][nodes]), 0, 1)
            rgb = np.broadcast_to(channels, (len(channels), 3))
            graph["channels"] = np.round(rgb * LEVELS).astype(int).ravel()
        graphs.append(graph)
    classes = str(arrays["task"]) == "classification"
    return {"subsets": [title(str(name)) for name in arrays["subsets"]], "classification": classes, "graphs": graphs}


def _positions(position: np.ndarray) -> np.ndarray:
    """Positions as whole numbers, x to the right and y downwards, the longer side of the box being `EXTENT`."""
    if not len(position):
        return position.astype(int)
    low, high = position.min(0), position.max(0)
    scale = EXTENT / max((high - low).max(), 1e-9)
    x, y = ((position - low) * scale)[:, 0], ((high - position) * scale)[:, 1]
    return np.stack([x, y], 1).round().astype(int)


def _relative(attention: np.ndarray) -> np.ndarray:
    attention = np.nan_to_num(attention)
    return np.round(LEVELS * attention / max(attention.max(initial=0), 1e-30)).astype(int)


def _short(value: Any, digits: int = 3) -> float:
    """A number with few digits."""
    return float(f"{float(value):.{digits}g}") if np.issubdtype(np.asarray(value).dtype, np.floating) else int(value)
