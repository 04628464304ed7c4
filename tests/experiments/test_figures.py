"""The paper's figures: panels and their data, what is left out, pictures from tables alone and from runs."""

import itertools
import math
import shutil

import jax
import matplotlib.colors
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jattn
from experiments.initialization.pictures import PALETTE, dynamics_figure
from experiments.paper import __main__ as paper
from experiments.paper.figure3 import figure_3, missing
from experiments.paper.plan import COMPARED, TABLE_3, TaskRuns
from experiments.paper.qualitative import RED_GREEN_BLUE, draw_qualitative, task_examples
from experiments.paper.qualitative_figure import cluster_colors, qualitative_figure
from experiments.run.folder import RunConfig, RunError, write_results
from experiments.run.groups import flat
from experiments.run.tables import read_csv, write_csv
from experiments.sweeps.grid import Grid, jobs_of
from experiments.sweeps.pool import JobPool
from jattn.evaluation import mean_std
from jattn.io import write_json

KINDS = ("unsupervised", "supervised", "weak")


def study_points(dimensions=(3, 16), models=("gin", "gcn")):
    """A network of each kind, with numbers that tell them apart."""
    key = {"distribution": "normal", "sigma": 0.5, "seed": 0}
    rows = []
    for i, (n, model, kind) in enumerate(itertools.product(dimensions, models, KINDS)):
        scores = {"auc": 94.0 + i, "orig": 30.0 + i, "large": 20.0, "largec": 10.0}
        rows.append(
            {"n": n, "model": model, "supervision": kind, **key, "cosine": i / 20, "final_cosine": 0.1, **scores}
        )
    return rows


SHARES = [{"n": n, "normal": 80.0 / n, "normal_formula": 80.0 / n, "uniform": 70.0 / n} for n in (3, 8, 16)]


def network(auc, accuracy, attention="weak", row="weak", **more):
    return {"row": row, "attention": attention, "auc": auc, "all": accuracy, **more}


def marks(axes):
    """The marks of a panel, and the color of each."""
    lines = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata()) == 1]
    return [(*map(float, line.get_xydata()[0]), line.get_color()) for line in lines]


def test_figure_3_has_the_panels_of_the_paper():
    points = study_points()
    networks = {
        "colors": [
            network(60.0, 20.0, "unsupervised"),
            network(99.0, 80.0),
            network(70.0, 95.0, "none", "global"),
            network(100.0, 100.0, "ground_truth", "upper-bound"),
            network(98.0, 50.0, "weak", "weak-h"),  # it has 32 colors
        ],
        "triangles": [network(90.0, 40.0, "supervised")],
    }
    figure = figure_3(points, SHARES, networks)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "(a) COLORS, n = 3", "(a) COLORS, n = 3", "(b) GIN, n = 16", "(b) GIN, n = 16",
        "(c) GIN, n = 3", "(d) good initialization", "(e) GIN, n = 3", "(f) TRIANGLES",
    ]  # fmt: skip
    a, a_zoom, b, b_zoom, c, d, e, f = figure.axes
    orange, blue, green = (PALETTE[kind] for kind in KINDS)
    assert marks(a) == [(60.0, 20.0, orange), (99.0, 80.0, green)]
    assert marks(a_zoom) == [(99.0, 80.0, green)]
    of_gin = [row for row in points if (row["n"], row["model"]) == (16, "gin")]
    expected = [(row["auc"], (row["orig"] + 30) / 3) for row in of_gin]
    assert [mark[:2] for mark in marks(b)] == expected
    assert [mark[:2] for mark in marks(b_zoom)] == expected
    assert a_zoom.get_xlim()[0] == b_zoom.get_xlim()[0] == 95
    few = points[:3]
    for axes, value in ((c, [row["auc"] for row in few]), (e, [(row["orig"] + 30) / 3 for row in few])):
        drawn = np.concatenate([collection.get_offsets() for collection in axes.collections])
        assert_allclose(drawn, np.stack([[row["cosine"] for row in few], value], 1))
    assert_allclose(d.lines[1].get_xydata(), [[row["n"], row["normal"]] for row in SHARES])
    assert marks(f) == [(90.0, 40.0, blue)]


def test_panels_without_data_are_left_out_and_named():
    networks = {"colors": [network(math.nan, 90.0, "none", "global")], "triangles": [network(90.0, 40.0)]}
    figure = figure_3([], SHARES, networks)
    assert [axes.get_title(loc="left")[:3] for axes in figure.axes] == ["(d)", "(f)"]
    assert missing([], SHARES, networks) == {
        "a": "networks-colors.csv",
        **dict.fromkeys("bce", "initialization/points.csv"),
    }
    assert [*missing(study_points(dimensions=(3,)), [], {})] == ["a", "b", "d", "f"]
    assert figure_3([], [], {}) is None


def dynamics(kinds=KINDS):
    return [
        {"n": 3, "model": "gin", "supervision": kind, "cosine": cosine, "seed": seed, "epoch": epoch}
        | {"current_cosine": cosine + 0.01 * epoch, "accuracy": 10.0 * epoch, "auc": 50.0 + seed}
        for kind, cosine, seed, epoch in itertools.product(kinds, (-0.75, 0.75), (0, 1), (1, 2))
    ]


def test_dynamics_have_a_row_for_each_kind_of_supervision():
    figure = dynamics_figure(dynamics())
    assert len(figure.axes) == 9
    cosine, auc, accuracy = figure.axes[6:]
    assert cosine.get_title(loc="left") == "weak, GIN, n = 3"
    assert_allclose([line.get_ydata() for line in cosine.lines], [[-0.74, -0.73], [0.76, 0.77]])
    assert_allclose(auc.lines[0].get_ydata(), [50.5, 50.5])
    assert_allclose(accuracy.lines[0].get_ydata(), [10, 20])
    assert cosine.get_ylim()[0] < -1


@pytest.mark.slow
def test_figures_are_drawn_again_from_tables_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(JobPool, "run", lambda pool: pytest.fail("something was run"))
    study = tmp_path / "initialization"
    study.mkdir()
    write_csv(study / "points.csv", study_points((3,), ("gin",)))
    write_csv(study / "dynamics.csv", dynamics(("weak",)))
    write_csv(tmp_path / "networks-colors.csv", [{"task": "colors", "seed": 0, **network(99.0, 80.0)}])
    tables = {file: file.read_bytes() for file in tmp_path.rglob("*.csv")}
    paper.main(["figures", "--no-run", "--out", str(tmp_path)])
    drawn = {f"{file.relative_to(tmp_path)}" for file in tmp_path.rglob("*.png")}
    of_study = {f"initialization/{name}.png" for name in ("dynamics", "sigma-n3", "cosine-n3", "auc-n3")}
    assert drawn == {"figure3.png", "networks.png", *of_study}
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.csv")} == tables
    told = capsys.readouterr().err
    for letter, file in (("b", "points"), ("d", "good_share"), ("f", "networks-triangles")):
        assert f"figure3.png: panel {letter} is left out, " in told and f"{file}.csv has no such networks" in told
    assert "panel a" not in told
    assert "qualitative.png: COLORS is left out, " in told and "there is no finished run" in told
    assert "warning" not in told


def test_a_damaged_table_is_named(tmp_path, capsys):
    file = tmp_path / "networks-colors.csv"
    file.write_text("task,auc\ncolors,99\ncolors\n")
    with pytest.raises(SystemExit):
        paper.main(["figures", "--no-run", "--out", str(tmp_path)])
    assert f"{file}: line 3 has 1 cells, expected 2; " in capsys.readouterr().err


def test_a_table_is_read_as_it_was_written(tmp_path):
    rows = [{"name": "weak", "n": 3, "auc": 99.5}, {"name": "a, b", "n": 16, "auc": math.inf}]
    write_csv(tmp_path / "table.csv", rows)
    assert read_csv(tmp_path / "table.csv") == rows
    assert read_csv(tmp_path / "none.csv") == []


def test_the_qualitative_figure_asks_for_one_run_of_each_row(tmp_path):
    asked = paper.Paper("figures", out=tmp_path)
    names = {runs.task: [job.name for job in runs.jobs] for runs in paper.runs_of(asked, "figures")}
    assert sorted(names["mnist75sp"]) == ["diffpool-gin_seed=0", "global_seed=0", "weak_seed=0"]
    for task, first, jobs in (("colors", "seeds=0-9", 10), ("triangles", "seed=0", 2)):
        others = [name for name in names[task] if name.startswith(("diffpool", "global"))]
        assert sorted(others) == [f"diffpool-gin_{first}", f"global_{first}"]
        assert len(names[task]) == 2 + jobs * len(KINDS)


SMALL = ("--train-graphs", "8", "--test-graphs", "30", "--epochs", "1")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Finished runs of COLORS, whose networks were not trained."""
    out = tmp_path_factory.mktemp("paper")
    jobs = jobs_of(Grid("colors", COMPARED, 0, 2, 2, (), {}, SMALL))
    graphs = jax.device_put(jattn.pad(jattn.from_arrays(np.eye(4)[:2], [0, 1], [1, 0])))
    for job in jobs:
        folder = out / "colors" / job.name
        folder.mkdir(parents=True)
        network = job.settings.network(1)
        params = [network.init(jax.random.key(seed), graphs)["params"] for seed in (5, 6)]
        jattn.save_network(folder / "weights.npz", network, jax.tree.map(lambda *seeds: np.stack(seeds), *params))
        subset = {"accuracy": mean_std([50.0, 60.0]), "attention_auc": []}
        write_results(folder, {"subsets": {"orig": subset, "all": subset}, "seconds": {}})
        data = job.experiment.data(job.settings).fingerprints()
        config = RunConfig("colors", job.preset, flat(job.settings), data)
        write_json(folder / "config.json", {"format": 2, **config._asdict()})
    return jobs, out


@pytest.mark.slow
def test_the_qualitative_figure_shows_three_networks_on_the_same_graphs(finished):
    jobs, out = finished
    examples = task_examples(jobs, out / "colors")
    assert [example.title for example in examples] == ["COLORS\nOrig", "COLORS\nLarge"]
    subset = jobs[0].experiment.data(jobs[0].settings).splits["large"]
    example = examples[1]
    count = len(example.position)
    assert int(example.label) >= 2 and count >= 26
    assert {len(panel.colors) for panel in example.panels.values()} == {count}
    before, clusters, left_out, attention = example.panels.values()
    green = (before.colors == RED_GREEN_BLUE[1]).all(1)
    assert green.sum() == int(example.label) and np.array_equal(green, example.target)
    assert before.predicted == "" and before.node_mask.all()

    (index,) = [
        i
        for i in np.flatnonzero((subset.n_node == count) & (subset.globals["label"] == int(example.label)))
        if np.array_equal(jattn.select_graphs(subset, np.array([i])).nodes["attention"] > 0, example.target)
    ]
    graph = jattn.select_graphs(subset, np.array([index]))
    networks = [jattn.load_network(out / "colors" / job.name / "weights.npz") for job in jobs]
    first = [(network, jax.tree.map(lambda array: array[:1], params)) for network, params in networks]
    found = jattn.predict_seeds(*first[2], graph)
    assert float(attention.predicted) == pytest.approx(found.prediction[0, 0, 0], abs=0.051)
    assert np.array_equal(attention.node_mask, found.node_masks[0][0])
    assert_allclose(attention.colors, jattn.plots._style.attention_colors(found.attention[0][0]))
    expected = jattn.leave_one_out_seeds(*first[1], graph, "regression").attention[0]
    assert_allclose(left_out.colors, jattn.plots._style.attention_colors(expected), atol=0.02)
    weights = jax.tree.map(lambda array: array[0], first[0][1])
    s = jattn.cluster_assignment(first[0][0], weights, jax.device_put(jattn.pad(graph)))
    assert_allclose(clusters.colors, cluster_colors(np.asarray(s.argmax(1))[:count]))


@pytest.mark.slow
def test_the_qualitative_figure_marks_wrong_predictions_and_leaves_out_what_is_missing(finished, capsys):
    jobs, out = finished
    runs = [TaskRuns("colors", TABLE_3, jobs), TaskRuns("mnist75sp", TABLE_3, jobs_of(mnist()))]
    draw_qualitative(runs, out)
    assert (out / "qualitative.png").read_bytes().startswith(b"\x89PNG")
    weights = out / "mnist75sp/diffpool-gin_seed=0"
    assert capsys.readouterr().err == (
        f"qualitative.png: MNIST-75sp is left out, {weights}: there is no finished run\n"
    )
    example = task_examples(jobs, out / "colors")[0]
    panels = {
        heading: panel._replace(correct=heading == "input", predicted="7") for heading, panel in example.panels.items()
    }
    axes, wrong = qualitative_figure([example._replace(panels=panels)]).axes[:2]
    assert (axes.get_xlabel(), wrong.get_xlabel()) == ("predicted 7", "predicted 7 ✗")
    assert axes.get_ylabel().endswith(f"Orig\nlabel {example.label}")
    assert wrong.xaxis.label.get_color() != axes.xaxis.label.get_color()


@pytest.mark.slow
def test_runs_of_other_settings_are_not_shown(finished, tmp_path):
    jobs, out = finished
    copy = shutil.copytree(out / "colors", tmp_path / "colors")
    config = copy / jobs[0].name / "config.json"
    config.write_text(config.read_text().replace('"epochs": 1', '"epochs": 2'))
    with pytest.raises(RunError, match="its epochs is 2, not 1"):
        task_examples(jobs, copy)


def mnist():
    return Grid("mnist75sp", COMPARED, 0, 1, 1, (), {}, ())


@pytest.mark.slow
def test_images_are_drawn_as_superpixels_with_dropped_ones_hatched(finished):
    jobs, out = finished
    example = task_examples(jobs, out / "colors")[0]
    count = len(example.position)
    segments = np.arange(count)[None]
    colors = np.tile([[0.2, 0.4, 0.6]], (count, 1))
    panel = example.panels["input"]._replace(colors=colors, node_mask=np.arange(count) > 0)
    figure = qualitative_figure([example._replace(segments=segments, panels={"input": panel})])
    (image,) = figure.axes[0].images
    assert_allclose(image.get_array()[0, :2], [[0.2, 0.4, 0.6, 0], [0.2, 0.4, 0.6, 1]])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["dropped superpixel", "wrong prediction"]


def test_clusters_have_different_colors():
    colors = cluster_colors(np.arange(25))
    assert len({matplotlib.colors.to_hex(color) for color in colors}) == 25
