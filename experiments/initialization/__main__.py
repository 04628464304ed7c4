"""Initialisation of attention on COLORS: what is learnt from the p that training begins with.

    python -m experiments.initialization --out runs/initialization                 all; the same again goes on with it
    python -m experiments.initialization --dimensions 3 --models gcn --seeds 10    a part of it

The projection p of linear attention is drawn from N(0, sigma) or U(-sigma, sigma). The folder gets:

    points.csv      a row a network: cosine of its initial and final p with the optimum [0, 1, 0, ...], AUC, accuracies
    summary.csv     means of these over networks that began with a cosine above 0.5, and over the others
    good_share.csv  share of draws whose cosine is above 0.5, by the number of colours n
    dynamics.csv    training accuracy and AUC by epoch, from p's of given cosines
    *.png           pictures of these, like Figures 3, 4, 6, 8 and 9 of the paper

All are in per cent but cosines, which leave out the last column of p: COLORS has n + 1 input columns, of which the last
is 0 in training. The AUC is that of attention on all test graphs together.

All of it took 2 h 20 min, half of that time on one CPU core and the rest on two; GIN's networks are most of it. What it
found for n = 3 and GIN, first for p's with a cosine above 0.5, then for the others: unsupervised, 97 and 79 % on Orig,
AUC 87 and 65 %; supervised, 100 and 84 %, AUC 99 and 87 %; weakly supervised, 99 and 83 %, AUC 99 and 85 %.

Knyazev et al. 2019, section 4.2 and appendix.
"""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro
from jraph import GraphsTuple
from matplotlib.figure import Figure

from jattn._cost_model import cost_model
from jattn._options import expect_at_least, expect_seeds, setting
from jattn.datasets.colors import generate_colors, published_colors
from jattn.nn import Precision
from jattn.plots import save

from ..colors import GIN, PRESETS, Colors
from ..run.command import expect_no_other_data
from ..run.devices import RunOptions, configure_jax
from ..run.drawing import try_to_draw
from ..run.errors import expect_no_empty, fail
from ..run.figures import CURVES
from ..run.folder import Run, RunConfig, RunError, is_finished, read_results, write_results
from ..run.identity import fingerprint
from ..run.program import as_typed, program
from ..run.protocol import acquire_run
from ..run.signals import exit_on_signal
from ..run.tables import as_text, write_csv
from . import figures as pictures
from .projections import (
    COSINE_THRESHOLD,
    Distribution,
    prob_good_init,
    prob_good_init_normal,
    projection_at,
    sample_projection,
)
from .training import SUBSETS, Row, StudyCell, cached_table, curves, optimum, test, train

Model = Literal["gin", "gcn"]
Supervision = Literal["unsupervised", "supervised", "weak"]
Splits = Mapping[str, GraphsTuple]

MODELS: dict[str, dict[str, Any]] = {"gin": GIN, "gcn": {"order": 1}}
DYNAMICS: tuple[Supervision, ...] = ("unsupervised", "supervised")
DIMENSIONS_OF_DRAWS = range(3, 65)  # numbers of colours whose share of good draws is shown


@dataclass(frozen=True)
class Initialization(RunOptions):
    """The study's settings."""

    # It runs in one process.
    coordinator: tyro.conf.Suppress[str | None] = setting(None, "nothing")
    coordinator_timeout: tyro.conf.Suppress[int] = setting(300, "nothing")
    processes: tyro.conf.Suppress[int | None] = setting(None, "nothing")
    process: tyro.conf.Suppress[int | None] = setting(None, "nothing")

    data_dir: Path | None = setting(None, "location")
    """Folder (or zip) of the published COLORS-3, for --dimensions 3; sets are generated where not given."""
    dimensions: tuple[int, ...] = setting((3, 16), "training")
    """Numbers of colours n."""
    models: tuple[Model, ...] = setting(("gin", "gcn"), "training")
    """Networks to train."""
    supervision: tuple[Supervision, ...] = setting(("unsupervised", "supervised", "weak"), "training")
    """Kinds of supervision of attention."""
    distributions: tuple[Distribution, ...] = setting(("normal", "uniform"), "training")
    """N(0, sigma), U(-sigma, sigma)."""
    sigmas: tuple[float, ...] = setting((0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), "training")
    """Scales of p."""
    seeds: int = setting(20, "evaluation")
    """Networks of each sigma. Those of all sigmas are trained at once."""
    seed: int = setting(0, "training")
    """The first of the seeds."""
    epochs: int = setting(100, "training")
    """Epochs to train, a third of the paper's. The learning rate is divided by 10 after 14 of 15 parts of them. A large
    p needs many to turn: an epoch of 500 graphs moves none of its entries by more than about 0.016."""
    cosines: tuple[float, ...] = setting((-0.75, 0.75, 1.0), "evaluation")
    """Of p's whose training dynamics are shown, with GIN."""
    dynamics_epochs: int = setting(300, "evaluation")
    """Epochs of the training dynamics, which are GIN's, unsupervised and supervised, where these are among --models and
    --supervision; 0 leaves them out."""
    train_graphs: int = setting(500, "data")
    """Training graphs of a generated set."""
    test_graphs: int = setting(500, "data")
    """Graphs of each test subset of a generated set."""
    data_seed: int = setting(0, "data")
    """Seed of a generated set."""
    precision: Precision = setting("highest", "training")
    """How convolutions compute in training, as in other experiments."""

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_at_least(1, seeds=self.seeds, epochs=self.epochs)
        expect_at_least(1, train_graphs=self.train_graphs, test_graphs=self.test_graphs)
        expect_seeds(self.seed, self.seeds)
        expect_at_least(0, dynamics_epochs=self.dynamics_epochs)
        for name in ("dimensions", "models", "supervision", "distributions", "sigmas", "cosines"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name}: {values} is not allowed, expected at least one, and none twice")
        expect_at_least(3, dimensions=min(self.dimensions))
        if not 0 < min(self.sigmas) <= max(self.sigmas) < np.inf:
            raise ValueError(f"sigmas: {self.sigmas} is not allowed, expected positive numbers")
        if not max(map(abs, self.cosines)) <= 1 or len(self.cosines) > len(CURVES):
            raise ValueError(f"cosines: {self.cosines} is not allowed, expected {len(CURVES)} at most, from -1 to 1")
        if self.data_dir is not None and self.dimensions != (3,):
            raise ValueError("data_dir: the published set has three colours; say --dimensions 3")
        expect_no_other_data(self)

    @property
    def of_dynamics(self) -> list[Supervision]:
        """Kinds of supervision whose training dynamics are shown."""
        wanted = self.dynamics_epochs and "gin" in self.models
        return [of for of in DYNAMICS if of in self.supervision] if wanted else []

    def colors(self, dimension: int, model: Model, supervision: Supervision, epochs: int) -> Colors:
        """How to train one of its networks."""
        own = ("seeds", "seed", "precision", "checkpoint_every", "tensorboard", "quiet")
        return replace(
            PRESETS[supervision],
            **MODELS[model],
            **{name: getattr(self, name) for name in own},
            dimension=dimension,
            compact=model == "gin" and cost_model().compact_wide_layers,
            epochs=epochs,
            decay_epochs=_decay(epochs),
            teacher_epochs=self.epochs,
            teacher_decay_epochs=_decay(self.epochs),
        )

    def data(self, dimension: int) -> Splits:
        """COLORS of so many dimensions."""
        if self.data_dir is not None:
            return published_colors(self.data_dir)
        return generate_colors(dimension, self.train_graphs, self.test_graphs, self.test_graphs, self.data_seed)


def _decay(epochs: int) -> tuple[int, ...]:
    return (round(epochs * 14 / 15),) if epochs > 1 else ()


def study(settings: Initialization, run: Run, data: Mapping[int, Splits]) -> list[Row]:
    """Trains what a study needs and is not there yet, and writes its tables and pictures.

    Args:
      settings: the study's.
      run: its folder.
      data: COLORS of each dimension.

    Returns:
      Its summary, as `summarize` makes it.
    """
    points: list[Row] = []
    (run.folder / "parts").mkdir(exist_ok=True)
    for n, splits in data.items():
        if settings.of_dynamics and n == settings.dimensions[0]:
            changes = dynamics(settings, run, splits, n)
            write_csv(run.folder / "dynamics.csv", changes)
            _draw(run, "dynamics", functools.partial(pictures.dynamics_figure, changes))
        for model in settings.models:
            for supervision in settings.supervision:
                colors = settings.colors(n, model, supervision, settings.epochs)
                setting = StudyCell(f"n{n} {model}", colors, splits)
                for distribution in settings.distributions:
                    key: dict[str, Any] = {"n": n, "model": model, "supervision": supervision}
                    points += run_grid_cell(settings, run, setting, {**key, "distribution": distribution})
    write_csv(run.folder / "points.csv", points)
    shares = share_rows()
    write_csv(run.folder / "good_share.csv", shares)
    summary = summarize(points)
    write_csv(run.folder / "summary.csv", summary)
    write_results(run.folder, {"summary": summary})
    _draw(run, "good_share", lambda: pictures.share_figure(shares, settings.dimensions))
    for n in settings.dimensions:
        of_n = [row for row in points if row["n"] == n]
        _draw(run, f"sigma-n{n}", functools.partial(pictures.sigma_figure, of_n))
        _draw(run, f"cosine-n{n}", functools.partial(pictures.cosine_figure, of_n))
        _draw(run, f"auc-n{n}", functools.partial(pictures.auc_figure, of_n))
    return summary


def _draw(run: Run, name: str, make: Callable[[], Figure]) -> None:
    try_to_draw(run.folder / f"{name}.png", lambda path: save(make(), path))


def run_grid_cell(settings: Initialization, run: Run, setting: StudyCell, key: Row) -> list[Row]:
    """A row for every sigma and seed of one distribution: all of them are trained in one program.

    Args:
      settings: the study's.
      run: its folder.
      setting: what to train.
      key: what the rows begin with; its "distribution" is that of p.
    """
    of = [(sigma, seed) for sigma in settings.sigmas for seed in setting.model_seeds]
    projections = np.stack(
        [sample_projection(key["distribution"], sigma, setting.dimension + 1, seed) for sigma, seed in of]
    )

    def make(stage: str) -> list[Row]:
        trained = test(setting, train(run, setting, stage, projections), projections)
        return [
            {
                "sigma": sigma,
                "seed": seed,
                "cosine": trained.initial_cosine[i],
                "final_cosine": trained.final_cosine[i],
                "auc": trained.auc[i],
                **dict(zip(SUBSETS, trained.accuracies[i], strict=True)),
            }
            for i, (sigma, seed) in enumerate(of)
        ]

    rows = cached_table(run, setting, f"{setting.name} {key['supervision']} {key['distribution']}", projections, make)
    return [{**key, **row} for row in rows]


def dynamics(settings: Initialization, run: Run, splits: Splits, n: int) -> list[Row]:
    """Training accuracy and AUC of GIN by epoch, from p's of given cosines with the optimum, as long as N(0, 1) has."""
    rows: list[Row] = []
    for supervision in settings.of_dynamics:
        colors = settings.colors(n, "gin", supervision, settings.dynamics_epochs)
        setting = StudyCell(f"n{n} gin", colors, splits)
        of = [(cosine, seed) for cosine in settings.cosines for seed in setting.model_seeds]
        target, norm = optimum(setting.dimension), float(np.sqrt(setting.dimension))
        projections = np.stack(
            [np.append(projection_at(cosine, target, norm, seed), np.float32(0)) for cosine, seed in of]
        )

        def make(stage: str, setting: StudyCell = setting, p: Any = projections, of: Any = of) -> list[Row]:
            train(run, setting, stage, p)
            lines = curves(run, stage)
            return [
                {
                    "cosine": cosine,
                    "seed": seed,
                    "epoch": line["epoch"],
                    "accuracy": line["accuracy"]["values"][i],
                    "auc": float(np.nan if (auc := line["attention_auc"][0]["values"][i]) is None else auc),
                }
                for i, (cosine, seed) in enumerate(of)
                for line in lines
            ]

        made = cached_table(run, setting, f"{setting.name} {supervision} dynamics", projections, make)
        rows += [{"n": n, "model": "gin", "supervision": supervision, **row} for row in made]
    return rows


def share_rows() -> list[Row]:
    """The share of good draws, in per cent, by number of colours; a cosine does not depend on sigma."""
    return [
        {
            "n": n,
            "normal": 100 * prob_good_init("normal", n),
            "normal_formula": 100 * prob_good_init_normal(n),
            "uniform": 100 * prob_good_init("uniform", n),
        }
        for n in DIMENSIONS_OF_DRAWS
    ]


def summarize(points: Sequence[Row]) -> list[Row]:
    """Means over networks that began with a good p (cosine above 0.5) and over the others, for each kind of network."""
    summary: list[Row] = []
    for n, model, supervision in dict.fromkeys((row["n"], row["model"], row["supervision"]) for row in points):
        for good in (True, False):
            rows = [
                row
                for row in points
                if (row["n"], row["model"], row["supervision"], row["cosine"] > COSINE_THRESHOLD)
                == (n, model, supervision, good)
            ]
            means = {
                name: float(np.mean([row[name] for row in rows])) if rows else np.nan for name in (*SUBSETS, "auc")
            }
            key = {"n": n, "model": model, "supervision": supervision, "initial_p": "good" if good else "other"}
            summary.append({**key, "networks": len(rows), **means})
    return summary


def table(summary: Sequence[Row]) -> str:
    """The summary as text."""
    rows = [["n", "model", "supervision", "initial p", "networks", "Orig", "Large", "LargeC", "AUC"]]
    for row in summary:
        rows.append([("-" if np.isnan(x) else f"{x:.1f}") if isinstance(x, float) else str(x) for x in row.values()])
    return as_text(rows, left=range(4))


def _read(settings: Initialization) -> dict[int, Splits]:
    """COLORS of every dimension."""
    try:
        return {n: settings.data(n) for n in settings.dimensions}
    except (ValueError, OSError) as error:
        raise RunError(str(error)) from error


def main(arguments: Sequence[str]) -> None:
    """Runs the study that a command line asks for."""
    expect_no_empty(arguments)
    try:
        settings = tyro.cli(
            Initialization, args=list(arguments), prog=program("initialization"), description=as_typed(__doc__ or "")
        )
    except ValueError as error:
        fail(str(error))
    configure_jax(settings)
    about = RunConfig("initialization", "", settings)
    with exit_on_signal():
        data = None if settings.out is not None and is_finished(settings.out, about) else _read(settings)
        if data is not None:
            about = about._replace(data={f"{n}.{name}": fingerprint(of) for n in data for name, of in data[n].items()})
        with acquire_run(about, "initialization") as run:
            if run.finished:
                summary = read_results(run.folder, ["summary"])["summary"]
            else:
                summary = study(settings, run, data or _read(settings))
    print(table(summary))
    print(f"the study is in {run.folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
