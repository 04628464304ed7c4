"""Pictures of a run hold the panels they should, and odd input breaks none of them."""

import numpy as np
import pytest
from matplotlib.image import imread
from pictures import assert_only_picture

from experiments.run.pictures import accuracy_figure, study_figure, training_figure
from experiments.run.results import LabelScores, MeanStd, SizeScores, SubsetScores
from jattn.evaluation import mean_std
from jattn.plots import save


def curve(*values):
    known = [value for value in values if value is not None]
    return {"mean": sum(known) / len(known) if len(known) == len(values) else None, "values": list(values)}


def line(stage, epoch, loss=(1.0, 2.0), auc=None):
    return {
        "stage": stage,
        "epoch": epoch,
        "seconds": 0.1,
        "loss": curve(*loss),
        "accuracy": curve(50.0, 60.0 + epoch),
    } | ({} if auc is None else {"attention_auc": auc})


def scores(sizes, labels=(), values=(50.0, 70.0)):
    """Of a subset, every part with the same accuracies."""
    accuracy = MeanStd(**mean_std(list(values)))
    by_label = tuple(LabelScores(label, accuracy, 5) for label in labels)
    return SubsetScores(accuracy, by_label=by_label, by_nodes=tuple(SizeScores(nodes, accuracy, 5) for nodes in sizes))


def labels(figure):
    return [axes.get_ylabel() for axes in figure.axes]


def test_one_row_a_stage_and_auc_only_where_it_was_measured(tmp_path):
    auc = [curve(70.0, 80.0), curve(60.0, 65.0)]
    lines = [line("teacher", e) for e in (1, 2, 3)] + [
        line("attention", e, auc=auc if e % 2 else None) for e in (1, 2, 3)
    ]
    figure = training_figure(lines)
    assert labels(figure) == ["loss", "accuracy (%)"] * 2 + ["attention AUC (%)"]
    poolings = figure.axes[-1].get_legend().get_texts()
    assert [text.get_text() for text in poolings] == ["pooling 1", "pooling 2"]
    assert figure.axes[-1].lines[0].get_xdata().tolist() == [1, 3]
    save(training_figure(lines), tmp_path / "curves.png")
    assert_only_picture(tmp_path / "curves.png")


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [line("train", 1)],
        [line("train", 1, loss=(None, None)), line("train", 2, loss=(None, 1.0))],
        [line("train", 1, loss=(0.0, 0.0))],
        [line("train", 1, auc=[curve(None, None)]), line("train", 2, auc=[])],
        [line("train", e, loss=(1.1 - 0.01 * e,)) for e in range(1, 30)],
    ],
    ids=["none", "one epoch", "NaN", "zero loss", "NaN AUC", "narrow range"],
)
def test_odd_training_lines_are_drawn(lines, tmp_path):
    save(training_figure(lines), tmp_path / "curves.png")
    assert_only_picture(tmp_path / "curves.png")


def test_a_curve_for_each_subset_by_size_and_by_label():
    subsets = {
        "Orig": scores([(4, 10), (11, 25)], range(11)),
        "Large": scores([(26, 60), (61, 100), (101, 200)], [1, 3]),
    }
    figure = accuracy_figure(subsets | {"All": SubsetScores(MeanStd(**mean_std([1.0, 2.0])))}, trained=(4, 25))
    by_nodes, by_label = figure.axes
    assert [axes.get_xlabel() for axes in figure.axes] == ["number of nodes", "label"]
    assert [line.get_xdata().tolist() for line in by_nodes.lines] == [[7, 18], [43, 80.5, 150.5]]
    assert [line.get_xdata().tolist() for line in by_label.lines] == [list(range(11)), [1, 3]]
    assert by_nodes.lines[0].get_ydata() == pytest.approx(60)
    assert by_nodes.lines[0].get_color() == by_label.lines[0].get_color() != by_nodes.lines[1].get_color()
    assert (by_nodes.get_xscale(), by_label.get_xscale()) == ("log", "linear")
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["Orig", "Large", "± std of 2 seeds", "trained on 4-25 nodes"]


def test_the_band_is_a_standard_deviation_within_0_to_100():
    figure = accuracy_figure({"Orig": scores([(4, 10), (11, 25)], values=(80.0, 100.0, 120.0))}, trained=(4, 25))
    (band,) = figure.axes[0].collections
    y = band.get_paths()[0].vertices[:, 1]
    assert (y.min(), y.max()) == pytest.approx((100 - np.std([80, 100, 120]), 100))


@pytest.mark.parametrize(
    ("subsets", "trained"),
    [
        ({}, (4, 25)),
        ({"Orig": scores([], [])}, (4, 25)),
        ({"Orig": scores([(9, 9)], [3])}, (9, 9)),
        ({"Orig": scores([(1, 2), (3, 9)], [0, 1], values=(50.0,))}, (1, 1)),
        ({"Orig": scores([(1, 2), (3, 9)], [0, 1], values=(np.nan, 50.0))}, (1, 9)),
        ({"Orig": scores([(0, 2), (3, 90)])}, (0, 9)),
        ({f"Subset {i}": scores([(i + 1, 9), (10, 9000)], range(20)) for i in range(6)}, (4, 25)),
    ],
    ids=["none", "no graphs", "one size and label", "one seed", "NaN", "no nodes", "many"],
)
def test_odd_accuracies_are_drawn(subsets, trained, tmp_path):
    save(accuracy_figure(subsets, trained), tmp_path / "accuracy.png")
    assert_only_picture(tmp_path / "accuracy.png")


def test_failing_to_write_leaves_the_old_picture(tmp_path):
    (tmp_path / "curves.unknown").write_text("old")
    with pytest.raises(ValueError, match="unknown"):
        save(training_figure([line("train", 1)]), tmp_path / "curves.unknown")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def trials(count, **settings):
    score, measured = np.random.default_rng(0).random(count), {"mean": 70.0, "std": 2.0, "seconds": 3.0}
    chosen = [{name: values[i] for name, values in settings.items()} for i in range(count)]
    return [{"trial": i, "score": score[i], **measured, **chosen[i]} for i in range(count)]


def test_a_study_has_a_panel_for_every_setting(tmp_path):
    rows = trials(4, threshold=[1e-4, 1e-3, 1e-2, 1e-1], scorer=["mlp", "linear"] * 2, init_scale=[0.5, 1, 1.5, 2])
    figure = study_figure(rows)
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_xlabel() for axes in panels] == ["trial", "threshold", "scorer", "init scale"]
    assert [axes.get_xscale() for axes in panels] == ["linear", "log", "linear", "linear"]
    best = np.maximum.accumulate([row["score"] for row in rows])
    np.testing.assert_array_equal(panels[0].lines[0].get_ydata(), best)
    save(study_figure(rows), tmp_path / "study.png")
    assert imread(tmp_path / "study.png").ndim == 3


def test_one_trial_is_enough_of_a_study(tmp_path):
    figure = study_figure(trials(1, threshold=[0.01], scorer=["mlp"]))
    assert [axes.get_xlabel() for axes in figure.axes if axes.axison] == ["trial", "threshold", "scorer"]
    save(figure, tmp_path / "study.png")
    assert imread(tmp_path / "study.png").ndim == 3
