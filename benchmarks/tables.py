"""Tables of the benchmark and its picture, made of the CSV files in its folder alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.picture import FIT_FROM, draw, start_name
from benchmarks.workloads import SOURCES
from experiments.run.tables import as_markdown, as_text, read_csv
from jattn.io import write_atomically
from jattn.plots import save

Rows = Sequence[Mapping[str, Any]]
Table = list[list[str]]
UNITS = {"training": "step", "leave_one_out": "graph", "prediction": "graph"}
TITLES = {"training": "Training", "leave_one_out": "Leave-one-out", "prediction": "Prediction"}
KINDS = {"random": "random", "space": "in space"}


def write_tables(folder: Path) -> str:
    """Writes `benchmark.md`, `benchmark.txt` and `benchmark.png` of a folder's CSV files; returns the text."""
    parts = {name: read_csv(folder / f"{name}.csv") for name in ("pyg", "growth", "start", *UNITS)}
    tables = {TITLES[name]: work_table(name, parts[name], parts["pyg"]) for name in UNITS if parts[name]}
    if parts["growth"]:
        tables["Growth"] = growth_table(parts["growth"])
    if parts["start"]:
        tables["Start"] = start_table(parts["start"])
    text = "\n\n".join(f"{title}\n\n{as_text(rows)}" for title, rows in tables.items())
    markdown = "\n\n".join(f"## {title}\n\n{as_markdown(rows)}" for title, rows in tables.items())
    for name, content in (("benchmark.txt", text), ("benchmark.md", markdown)):
        _write(folder / name, content + "\n")
    if any(rows for name, rows in parts.items() if name != "pyg"):
        save(draw(parts, exponents(parts["growth"])), folder / "benchmark.png")
    return text


def work_table(part: str, rows: Rows, compared: Rows) -> Table:
    """Times of one part beside their floors and PyG's, a row a workload and number of seeds."""
    unit = UNITS[part]
    headings = ["data set", "seeds", f"ms a {unit} and seed", "floor, ms", "x floor", "PyG / ours"]
    headings += ["first, cold, s", "first, warm, s", "compiling, s", "peak, MiB"]
    ratios = {row["workload"]: row["ratio"] for row in compared if row["measurement"] == part}
    table = [headings]
    for row in sorted(rows, key=lambda row: (list(SOURCES).index(row["workload"]), row["seeds"])):
        ratio = ratios.get(row["workload"]) if row["seeds"] == 1 else None
        table.append(
            [
                SOURCES[row["workload"]].name,
                str(row["seeds"]),
                f"{row['each']:.3f}",
                f"{row['floor']:.3f}",
                f"{row['each'] / row['floor']:.1f}",
                "-" if ratio is None else f"{ratio:.1f}",
                f"{row['first_cold']:.1f}",
                f"{row['first_warm']:.1f}",
                f"{row['compiling']:.1f}",
                f"{row['memory']:.0f}",
            ]
        )
    return table


def growth_table(rows: Rows) -> Table:
    """Times by number of nodes, with the exponents of power laws in the last row."""
    curves = growth_curves(rows)
    nodes = sorted({n for curve in curves.values() for n in curve})
    columns = [f"{TITLES[part].lower()}, {KINDS[kind]}, ms a {UNITS[part]}" for part, kind in curves]
    table = [["nodes", *columns]]
    table += [[str(n), *(f"{curve[n]:.2f}" if n in curve else "-" for curve in curves.values())] for n in nodes]
    fits = exponents(rows)
    fitted = [n for n in nodes if n >= FIT_FROM]
    if fits:
        cells = (f"{fits[name][0]:.2f}" if name in fits else "-" for name in curves)
        table.append([f"exponent, {fitted[0]} to {fitted[-1]}", *cells])
    return table


def growth_curves(rows: Rows) -> dict[tuple[str, str], dict[int, float]]:
    """Milliseconds by number of nodes, for each measurement and kind of graphs."""
    curves: dict[tuple[str, str], dict[int, float]] = {}
    for row in sorted(rows, key=lambda row: (list(UNITS).index(row["measurement"]), row["kind"], row["nodes"])):
        curves.setdefault((row["measurement"], row["kind"]), {})[row["nodes"]] = row["each"]
    return curves


def exponents(rows: Rows) -> dict[tuple[str, str], tuple[float, float]]:
    """(exponent, factor) of the power law fitted to each curve from `FIT_FROM` nodes on, where it has two points."""
    fits = {}
    for name, curve in growth_curves(rows).items():
        points = [(n, each) for n, each in curve.items() if n >= FIT_FROM]
        if len(points) > 1:
            log_nodes, log_times = np.log(points).T
            exponent, intercept = np.polyfit(log_nodes, log_times, 1)
            fits[name] = float(exponent), float(np.exp(intercept))
    return fits


def start_table(rows: Rows) -> Table:
    """Seconds of CPU and of the clock that commands take to say their help."""
    lines = [[start_name(row["command"]), f"{row['cpu']:.2f}", f"{row['clock']:.2f}"] for row in rows]
    return [["command", "CPU, s", "clock, s"], *lines]


def _write(file: Path, text: str) -> None:
    write_atomically(file, lambda temporary: temporary.write_text(text, "utf-8"))
