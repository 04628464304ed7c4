"""Plots of `jattn.plots` as inline SVG, whose colors follow the page's."""

import html
import io
import re
from collections.abc import Callable, Sequence

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jattn.plots._colors import CURVES

SIZE = (3.5, 2.6)  # inches
MARGINS = {"left": 0.19, "right": 0.98, "bottom": 0.17, "top": 0.97}  # a layout engine takes as long as the drawing
THEME = {"#000000": "currentColor", "#ebebeb": "var(--grid)"} | {
    color: f"var(--c{i})" for i, color in enumerate(CURVES, 1)
}
SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "jattn", "text.parse_math": False, "path.simplify_threshold": 0.5}


def inline_plot(label: str, draw: Callable[[Axes], Axes]) -> str:
    """Returns a plot of one panel as a figure of HTML.

    Args:
      label: what it shows, for readers of screens.
      draw: draws on the axes, such as one of `jattn.plots`.
    """
    with style.context(["default", SETTINGS]):
        figure = Figure(figsize=SIZE)
        draw(figure.subplots(gridspec_kw=MARGINS))
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[a-zA-Z]+\d*_\d+">', "<g>", svg)  # would be the same in each plot of a page
    svg = re.sub(r'<svg[^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 role="img" aria-label="{html.escape(label)}">', svg)
    svg = re.sub("|".join(THEME), lambda match: THEME[match[0]], svg)
    return f"<figure>{svg}</figure>"


def legend(names: Sequence[str]) -> str:
    """Returns a legend of the curves of plots, by name."""
    colors = [f"var(--c{i % len(CURVES) + 1})" for i in range(len(names))]
    marks = (f'<i style="background:{color}"></i>' for color in colors)
    items = (f"<li>{mark}{html.escape(name)}</li>" for mark, name in zip(marks, names, strict=True))
    return f'<ul class="legend">{"".join(items)}</ul>'


def grid(plots: Sequence[str]) -> str:
    """Returns plots beside each other."""
    return f'<div class="plots">{"".join(plots)}</div>'
