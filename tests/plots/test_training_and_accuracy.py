"""Plots of training and accuracy: the artists have the numbers that were given, on the axes that were given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from jattn.plots import accuracy_by_label, accuracy_by_size, training_curves
from jattn.plots._colors import CURVES


@pytest.fixture
def ax():
    return Figure().subplots()


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_curves_of_several_seeds_have_their_mean_on_top(ax):
    values = [[4.0, 2.0, 3.0], [2.0, 1.0, 3.0]]
    assert training_curves({"seeds": ([1, 5], values)}, ax=ax) is ax
    assert [line.get_ydata().tolist() for line in ax.lines] == [[4, 2], [2, 1], [3, 3], [3, 2]]
    assert ax.lines[-1].get_linewidth() > ax.lines[0].get_linewidth()
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_yscale()) == ("epoch", "loss", "log")


def test_curves_by_name_have_a_color_and_a_line_of_the_legend_each(ax):
    training_curves({"a": ([1, 2], [50, 60]), "b": ([1], [20])}, "accuracy", ax=ax)
    assert [line.get_color() for line in ax.lines] == list(CURVES[:2])
    assert (legend(ax), ax.get_ylim(), ax.get_ylabel()) == (["a", "b"], (20, 101), "accuracy (%)")


def test_of_many_seeds_the_first_are_drawn_and_the_mean_is_of_all(ax):
    values = np.arange(200.0).reshape(2, 100)
    training_curves({"": ([1, 2], values)}, ax=ax)
    assert len(ax.lines) == 20 + 1
    assert ax.lines[-1].get_ydata().tolist() == [49.5, 149.5]


def test_an_epoch_without_a_finite_value_is_a_gap(ax):
    training_curves({"": ([1, 2, 3], [1.0, None, np.nan])}, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1, np.nan, np.nan])


def test_losses_of_a_narrow_range_have_labels_that_differ(ax):
    training_curves({"": ([1, 2, 3], [0.72, 0.66, 0.61])}, ax=ax)
    FigureCanvasAgg(ax.figure).draw()
    labels = [text.get_text() for text in ax.get_yticklabels(which="both")]
    shown = [label for label in labels if label]
    assert len(shown) == len(set(shown)) >= 2
    assert sum(0.6 < float(label) < 0.73 for label in shown) >= 2
    assert not any("e" in label for label in shown)


def test_accuracy_by_size_has_means_bands_and_the_span_of_training(ax):
    scores = {"Orig": ([4, 10], [[100.0, 90.0], [80.0, 60.0]]), "Large": ([[20, 40], [60, 400]], [50.0, 30.0])}
    assert accuracy_by_size(scores, (4, 25), ax=ax) is ax
    orig, large = ax.lines
    assert (orig.get_xdata().tolist(), orig.get_ydata().tolist()) == ([4, 10], [95, 70])
    assert (large.get_xdata().tolist(), large.get_ydata().tolist()) == ([30, 230], [50, 30])
    band = ax.collections[0].get_paths()[0].vertices
    assert {(10, 60), (10, 80), (4, 90), (4, 100)} <= set(map(tuple, band))
    assert legend(ax) == ["Orig", "Large", "trained on 4-25 nodes"]
    assert ax.get_xscale() == "log"


def test_accuracy_by_label_has_the_labels_on_a_whole_numbered_axis(ax):
    accuracy_by_label({"test": ([0, 1, 2], [10.0, 20.0, 30.0])}, ax=ax, legend=False)
    assert ax.lines[0].get_ydata().tolist() == [10, 20, 30]
    assert (ax.get_xlabel(), ax.get_ylim(), ax.get_legend()) == ("label", (-2, 102), None)


@pytest.mark.parametrize("draw", [accuracy_by_size, accuracy_by_label])
def test_nothing_to_draw_is_drawn(draw, ax):
    draw({}, ax=ax, legend=False)
    draw({"none": ([], [])}, ax=ax)
    assert [len(line.get_xdata()) for line in ax.lines] == [0]


def test_without_axes_the_current_ones_of_pyplot_are_used():
    figure, axes = plt.subplots()
    try:
        assert training_curves({"": ([1], [1.0])}, "accuracy") is axes
        assert accuracy_by_size({"a": ([1], [1.0])}) is axes
    finally:
        plt.close(figure)


def test_shapes_that_do_not_fit_are_named(ax, unchecked_types):
    with pytest.raises(ValueError, match=r"curves\['a'\]\[1\]: expected \[3\] or \[3, seeds\], got \[2\]"):
        training_curves({"a": ([1, 2, 3], [1.0, 2.0])}, ax=ax)
    with pytest.raises(ValueError, match=r"curves\['a'\]\[1\]: expected \[1\] or \[1, seeds\], got \[1, 2, 3\]"):
        training_curves({"a": ([1], np.zeros((1, 2, 3)))}, ax=ax)
    with pytest.raises(ValueError, match=r"accuracy\['a'\]\[1\]: expected \[2\]"):
        accuracy_by_size({"a": ([1, 2], [1.0])}, ax=ax)
    with pytest.raises(ValueError, match="quantity: expected one of loss, accuracy, attention_auc, got 'speed'"):
        training_curves({"": ([1], [1.0])}, "speed", ax=ax)
