"""The study of initialization: its networks, trained in parts that are made once, then tables and pictures."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jraph import GraphsTuple

from jattn.datasets import generate_colors, published_colors

from ..run.folder import Run, RunConfig, RunError, is_finished, write_results
from ..run.groups import name_flag
from ..run.identity import fingerprint
from ..run.protocol import acquire_run
from ..run.signals import exit_on_signal
from ..run.tables import write_csv
from .drawing import DYNAMICS, POINTS, SHARES, draw_study
from .projections import (
    prob_good_init,
    prob_good_init_normal,
    projection_at,
    sample_projection,
)
from .settings import Initialization, StudyData
from .summary import Summary, read_summary, summarize
from .training import SUBSETS, Row, StudyCell, cached_table, curves, optimum, test, train

Splits = Mapping[str, GraphsTuple]

DIMENSIONS_OF_DRAWS = range(3, 65)  # numbers of colors whose fraction of good draws is shown


def read_splits(data: StudyData, dimension: int) -> Splits:
    """Published or generated COLORS with so many colors."""
    if data.data_dir is not None:
        return published_colors(data.data_dir)
    return generate_colors(dimension, data.train_graphs, data.test_graphs, data.test_graphs, data.data_seed)


def study(settings: Initialization, run: Run, data: Mapping[int, Splits]) -> list[Summary]:
    """Trains what is not in the folder yet, and writes tables and pictures.

    Args:
      settings: the settings of the study.
      run: its folder.
      data: COLORS by number of colors.

    Returns:
      The summary, as `summarize` makes it.
    """
    points: list[Row] = []
    (run.folder / "parts").mkdir(exist_ok=True)
    for n, splits in data.items():
        if settings.study.dynamics and n == settings.study.dimensions[0]:
            changes = dynamics(settings, run, splits, n)
            write_csv(run.folder / DYNAMICS, changes)
        for model in settings.study.models:
            for supervision in settings.study.supervision:
                colors = settings.colors(n, model, supervision, settings.study.epochs)
                cell = StudyCell(f"n{n} {model}", colors, splits)
                for distribution in settings.study.distributions:
                    key: dict[str, Any] = {"n": n, "model": model, "supervision": supervision}
                    points += run_grid_cell(settings, run, cell, {**key, "distribution": distribution})
    write_csv(run.folder / POINTS, points)
    write_csv(run.folder / SHARES, share_rows())
    summary = summarize(points)
    means = [asdict(row) for row in summary]
    write_csv(run.folder / "summary.csv", means)
    write_results(run.folder, {"summary": means})
    draw_study(run.folder)
    return summary


def run_grid_cell(settings: Initialization, run: Run, cell: StudyCell, key: Row) -> list[Row]:
    """A row for each sigma and seed of one distribution, all of which are trained in one program.

    Args:
      settings: the settings of the study.
      run: its folder.
      cell: the networks to train.
      key: the first columns of the rows; "distribution" is that of p.
    """
    networks = [(sigma, seed) for sigma in settings.study.sigmas for seed in cell.model_seeds]
    projections = np.stack(
        [sample_projection(key["distribution"], sigma, cell.dimension + 1, seed) for sigma, seed in networks]
    )

    def make(stage: str) -> list[Row]:
        trained = test(cell, train(run, cell, stage, projections), projections)
        return [
            {
                "sigma": sigma,
                "seed": seed,
                "cosine": trained.initial_cosine[i],
                "final_cosine": trained.final_cosine[i],
                "auc": trained.auc[i],
                **dict(zip(SUBSETS, trained.accuracies[i], strict=True)),
            }
            for i, (sigma, seed) in enumerate(networks)
        ]

    rows = cached_table(run, cell, f"{cell.name} {key['supervision']} {key['distribution']}", projections, make)
    return [{**key, **row} for row in rows]


def dynamics(settings: Initialization, run: Run, splits: Splits, n: int) -> list[Row]:
    """Cosine, AUC and training accuracy of GIN by epoch, from p's with given cosines and the mean length of N(0, 1)."""
    rows: list[Row] = []
    for supervision in settings.study.dynamics:
        colors = settings.colors(n, "gin", supervision, settings.study.dynamics_epochs)
        cell = StudyCell(f"n{n} gin", colors, splits)
        networks = [(cosine, seed) for cosine in settings.study.cosines for seed in cell.model_seeds]
        target, norm = optimum(cell.dimension), float(np.sqrt(cell.dimension))
        projections = np.stack(
            [np.append(projection_at(cosine, target, norm, seed), np.float32(0)) for cosine, seed in networks]
        )

        def make(stage: str, cell: StudyCell = cell, p: Any = projections, networks: Any = networks) -> list[Row]:
            train(run, cell, stage, p)
            lines = curves(run, stage)
            return [
                {
                    "cosine": cosine,
                    "seed": seed,
                    "epoch": line["epoch"],
                    "current_cosine": line["cosine"]["values"][i],
                    "accuracy": line["accuracy"]["values"][i],
                    "auc": float(np.nan if (auc := line["attention_auc"][0]["values"][i]) is None else auc),
                }
                for i, (cosine, seed) in enumerate(networks)
                for line in lines
            ]

        made = cached_table(run, cell, f"{cell.name} {supervision} epochs", projections, make)
        rows += [{"n": n, "model": "gin", "supervision": supervision, **row} for row in made]
    return rows


def share_rows() -> list[Row]:
    """The percentage of good draws by number of colors; a cosine does not depend on sigma."""
    return [
        {
            "n": n,
            "normal": 100 * prob_good_init("normal", n),
            "normal_formula": 100 * prob_good_init_normal(n),
            "uniform": 100 * prob_good_init("uniform", n),
        }
        for n in DIMENSIONS_OF_DRAWS
    ]


def _read(settings: Initialization) -> dict[int, Splits]:
    """COLORS by number of colors."""
    try:
        return {n: read_splits(settings.data, n) for n in settings.study.dimensions}
    except (ValueError, OSError) as error:
        raise RunError(name_flag(str(error), settings)) from error


def run_study(settings: Initialization) -> tuple[Path, list[Summary]]:
    """Runs the study, or reads it if it is finished, and returns its folder and summary.

    Raises:
      RunError: the data or the folder can't be used.
    """
    out = settings.run.out
    about = RunConfig("initialization", "", settings)
    with exit_on_signal():
        data = None if out is not None and is_finished(out, about) else _read(settings)
        if data is not None:
            digests = {f"{n}.{name}": fingerprint(split) for n in data for name, split in data[n].items()}
            about = about._replace(data=digests)
        with acquire_run(about, "initialization") as run:
            summary = read_summary(run.folder) if run.finished else study(settings, run, data or _read(settings))
            return run.folder, summary
