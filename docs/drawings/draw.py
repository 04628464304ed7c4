"""The drawings of the explanations, as SVG with the page's own text color, so that they fit light and dark pages.

python docs/drawings/draw.py      writes all of them again
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

COLORS = ("#3d8fd1", "#d9822b", "#3fa45b", "#a86cc1", "#cf5b5b")
ROW = 14  # height of a row


def text(x: float, y: float, words: str, anchor: str = "start", size: int = 13, weight: str = "normal") -> str:
    """Words at a point."""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="currentColor">{words}</text>'
    )


def box(
    x: float, y: float, width: float, height: float, fill: str = "none", opacity: float = 1, stroke: float = 0.5
) -> str:
    """A rectangle with a thin border."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" fill-opacity="{opacity:g}" '
        f'stroke="currentColor" stroke-width="{stroke:g}"/>'
    )


def circle(x: float, y: float, fill: str, radius: float = 8, dashed: bool = False) -> str:
    """A node."""
    style = 'stroke-dasharray="3 2"' if dashed else ""
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="currentColor" {style}/>'


def line(x1: float, y1: float, x2: float, y2: float, opacity: float = 0.7) -> str:
    """A line between two points."""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="currentColor" stroke-opacity="{opacity:g}"/>'


def drawing(width: int, height: int, about: str, parts: Iterator[str]) -> str:
    """A whole SVG file."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" class="drawing" '
        f'style="max-width: {width}px" role="img" aria-label="{about}" font-family="sans-serif">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


SIZES = (3, 5, 2, 4, 3)  # nodes of the graphs of the example on the page
BLOCKS = ((1,), (3, 2), (0, 4))  # as `jattn.pack` places them
BLOCK = 6


def batch() -> Iterator[str]:
    """A split of five graphs, and the batch of all of them in blocks of six rows."""
    yield text(0, 16, "A split: five graphs", weight="bold")
    x = 12
    for graph, size in enumerate(SIZES):
        yield text(x - 8, 40, f"graph {graph}", size=12)
        yield line(x, 58, x + 20 * (size - 1), 58)
        yield from (circle(x + 20 * node, 58, COLORS[graph]) for node in range(size))
        x += 20 * size + 26
    yield text(0, 104, "Their batch: ids 1, -1, 3, 2, -1, 0, 4, -1", weight="bold")
    top, table, matrix = 142, 62, 206
    yield text(table, 130, "rows: 18 nodes", size=12)
    yield text(matrix, 130, "A: 3 dense blocks on the diagonal", size=12)
    for block, members in enumerate(BLOCKS):
        y, row = top + block * BLOCK * ROW, 0
        yield text(0, y + BLOCK * ROW / 2 + 4, f"block {block}", size=12)
        corner = matrix + block * BLOCK * ROW
        for graph in members:
            first = row
            for _ in range(SIZES[graph]):
                yield box(table, y + row * ROW, 62, ROW, COLORS[graph], 0.75)
                row += 1
            yield text(table + 68, y + (first + row) / 2 * ROW + 4, f"graph {graph}", size=12)
            span = SIZES[graph] * ROW
            yield box(corner + first * ROW, y + first * ROW, span, span, COLORS[graph], 0.2, 0)
            for i in range(first, row - 1):
                yield box(corner + i * ROW, y + (i + 1) * ROW, ROW, ROW, COLORS[graph], 0.85)
                yield box(corner + (i + 1) * ROW, y + i * ROW, ROW, ROW, COLORS[graph], 0.85)
        if row < BLOCK:
            yield box(table, y + row * ROW, 62, (BLOCK - row) * ROW, "currentColor", 0.12)
            yield text(table + 68, y + (row + BLOCK) / 2 * ROW + 4, "padding", size=12)
        yield box(table, y, 62, BLOCK * ROW, stroke=1.5)
        yield box(corner, y, BLOCK * ROW, BLOCK * ROW, stroke=1.5)
    yield box(matrix, top, 3 * BLOCK * ROW, 3 * BLOCK * ROW, stroke=0.3)


STAR = {0: (1, 2, 3, 4), 1: (0, 2), 2: (0, 1), 3: (0,), 4: (0,)}
PLACES = ((60, 105), (20, 60), (100, 60), (25, 155), (100, 150))


def _graph(x: float, y: float, edges: dict[int, tuple[int, ...]], dropped: Sequence[int] = ()) -> Iterator[str]:
    for a, others in edges.items():
        for b in others:
            faint = 0.2 if {a, b} & set(dropped) else 0.7
            if a < b:
                yield line(x + PLACES[a][0], y + PLACES[a][1], x + PLACES[b][0], y + PLACES[b][1], faint)
    for node, (dx, dy) in enumerate(PLACES):
        gone = node in dropped
        yield circle(x + dx, y + dy, "var(--color-background-primary, white)" if gone else COLORS[0], 11, dashed=gone)
        yield text(x + dx, y + dy + 4, str(node), "middle", 12)


def _grid(x: float, y: float, title: str, rows: Sequence[Sequence[str]], colors: Sequence[Sequence[str]]) -> str:
    parts = [text(x, y - 8, title, size=12)]
    for i, (cells, fills) in enumerate(zip(rows, colors, strict=True)):
        for j, (cell, fill) in enumerate(zip(cells, fills, strict=True)):
            opacity = {"none": 0, "currentColor": 0.1}.get(fill, 0.6)
            parts.append(box(x + 26 * j, y + 24 * i, 26, 24, fill, opacity))
            parts.append(text(x + 26 * j + 13, y + 24 * i + 16, cell, "middle", 12))
    return "\n".join(parts)


def storage() -> Iterator[str]:
    """The adjacency of one graph as an ELL table of two columns and a COO list."""
    yield text(0, 16, "A graph", weight="bold")
    yield from _graph(0, 16, STAR)
    yield text(186, 16, "ELL table, width 2", weight="bold")
    yield text(325, 16, "COO list", weight="bold")
    table, listed = [], []
    for node, others in STAR.items():
        table.append([*map(str, others[:2]), *[""] * (2 - len(others))])
        listed += [(node, other) for other in others[2:]]
    fills = [[COLORS[0] if cell else "currentColor" for cell in row] for row in table]
    for node in STAR:
        yield text(182, 80 + 24 * node, f"node {node}", "end", 12)
    yield _grid(190, 64, "first two neighbors", table, fills)
    yield _grid(325, 64, "row", [[str(node)] for node, _ in listed], [[COLORS[1]]] * len(listed))
    yield _grid(360, 64, "column", [[str(other)] for _, other in listed], [[COLORS[1]]] * len(listed))


def mask() -> Iterator[str]:
    """Dropping a node by a mask: its row and column of the normalized adjacency become 0."""
    for y, title, dropped in ((0, "All nodes", ()), (196, "Node 2 dropped", (2,))):
        yield text(0, y + 16, title, weight="bold")
        yield from _graph(0, y, STAR, dropped)
        degrees = [0 if node in dropped else len(set(STAR[node]) - set(dropped)) for node in STAR]
        cells = [["1" if j in STAR[i] and not {i, j} & set(dropped) else "0" for j in STAR] for i in STAR]
        fills = [
            ["currentColor" if {i, j} & set(dropped) else COLORS[0] if j in STAR[i] else "none" for j in STAR]
            for i in STAR
        ]
        of_degrees = [["currentColor" if i in dropped else COLORS[2]] for i in STAR]
        yield _grid(145, y + 56, "A", cells, fills)
        yield _grid(295, y + 56, "degree", [[str(degree)] for degree in degrees], of_degrees)


def khop() -> Iterator[str]:
    """Which nodes of a path differ after each layer when its middle node is removed."""
    nodes, left, gap = range(-6, 7), 102, 26
    rows = (("input", 0), ("after layer 1", 2), ("after layer 2", 3))
    for node in nodes:
        yield text(left + gap * (node + 6), 16, str(abs(node)), "middle", 12)
    yield text(0, 16, "hops", size=12)
    for number, (name, changed) in enumerate(rows):
        y = 48 + 44 * number
        yield text(0, y + 4, name, size=12)
        yield line(left, y, left + gap * 5, y, 0.5)
        yield line(left + gap * 7, y, left + gap * 12, y, 0.5)
        for node in nodes:
            fill = COLORS[1] if abs(node) <= changed else COLORS[0]
            gone = node == 0
            yield circle(left + gap * (node + 6), y, "none" if gone else fill, 9, dashed=gone)
    yield box(left + gap * 2 - 13, 26, gap * 8 + 26, 132, stroke=1.5)
    yield text(left + gap * 6, 178, "the subgraph that is computed again: 4 hops", "middle", 12)
    yield circle(left, 204, COLORS[1], 7)
    yield text(left + 14, 208, "differs from the full graph", size=12)
    yield circle(left, 222, COLORS[0], 7)
    yield text(left + 14, 226, "does not differ: taken from it", size=12)


DRAWINGS: dict[str, tuple[int, int, Callable[[], Iterator[str]]]] = {
    "batch": (460, 398, batch),
    "storage": (410, 200, storage),
    "mask": (350, 380, mask),
    "khop": (430, 234, khop),
}


def drawings() -> dict[str, str]:
    """Every drawing by the name of its file."""
    return {
        f"{name}.svg": drawing(width, height, parts.__doc__ or "", parts())
        for name, (width, height, parts) in DRAWINGS.items()
    }


if __name__ == "__main__":
    for name, content in drawings().items():
        Path(__file__).with_name(name).write_text(content, encoding="utf-8")
