"""Pictures of attention over superpixels: what is drawn is what was given, and odd input breaks nothing."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.image import imread

from jattn.plots import ATTENTION, ImageAttention, SegmentedImage, attention_on_images, save
from jattn.plots._images import WRONG

SQUARES = np.kron(np.arange(4).reshape(2, 2), np.ones((3, 4), int))  # four superpixels of 3 x 4 pixels


def view(count, channels=3, predicted=7, seed=0):
    rng = np.random.default_rng(seed)
    return ImageAttention(
        channels=rng.random((count, channels), np.float32),
        attention=rng.random(count, np.float32),
        node_mask=np.arange(count) % 3 > 0,
        predicted=predicted,
    )


def shown(segments=SQUARES, label=7, title="", **views):
    """An image with random target attention."""
    count = segments.max() + 1
    views = views or {"clean": view(count)}
    return SegmentedImage(segments, np.random.default_rng(9).random(count, np.float32), label, views, title)


def panels(figure):
    """The axes of each row, without the color bar."""
    axes = [axes for axes in figure.axes[:-1] if axes.images]
    assert axes == figure.axes[:-1]
    rows = sorted({one.get_subplotspec().rowspan.start for one in axes})
    return [[one for one in axes if one.get_subplotspec().rowspan.start == row] for row in rows]


def pixels(axes):
    """[height, width, channels]."""
    (image,) = axes.images
    return np.asarray(image.get_array())


def assert_only_picture(path):
    assert path.read_bytes().startswith(b"\x89PNG")
    assert min(imread(path).shape[:2]) > 200
    assert [other.name for other in path.parent.iterdir()] == [path.name]
    assert path.stat().st_size < 500_000


ONE = ImageAttention(np.full((1, 1), 0.5), np.ones(1), np.ones(1, bool), predicted=0)
ODD = {
    "one pixel": shown(np.zeros((1, 1), int), only=ONE),
    "one row": shown(np.arange(40)[None], wide=view(40)),
    "one column": shown(np.arange(40)[:, None], tall=view(40)),
    "NaN attention": shown(nan=view(4)._replace(attention=np.full(4, np.nan)))._replace(target=np.full(4, np.nan)),
    "some NaN": shown(nan=view(4)._replace(attention=np.array([np.nan, 1, 2, np.inf]))),
    "zero attention": shown(zero=view(4)._replace(attention=np.zeros(4))),
    "nothing kept": shown(dropped=view(4)._replace(node_mask=np.zeros(4, bool))),
    "NaN channels": shown(nan=view(4)._replace(channels=np.full((4, 3), np.nan))),
    "a number no pixel has": shown(SQUARES * 2, gaps=view(7)),
}


@pytest.mark.parametrize("image", ODD.values(), ids=ODD)
def test_odd_images_are_drawn(image, tmp_path):
    save(attention_on_images([image]), tmp_path / "digits.png")
    assert_only_picture(tmp_path / "digits.png")


def test_images_of_other_sizes_are_drawn_together(tmp_path):
    images = [shown(np.arange(12).reshape(size), noisy=view(12)) for size in [(3, 4), (12, 1), (1, 12)]]
    save(attention_on_images(images), tmp_path / "digits.png")
    assert_only_picture(tmp_path / "digits.png")


def test_a_row_for_each_image_with_its_target_and_its_views():
    views = {"clean": view(4), "noisy": view(4, predicted=3), "noisy color": view(4, predicted=7)}
    rows = panels(attention_on_images([shown(**views), shown(title="test 5", label=3, **views)]))
    assert [axes.get_title() for axes in rows[0]] == ["target"] + ["input", "attention"] * 3
    assert [text.get_text() for axes in rows[0] for text in axes.texts] == list(views)
    assert [row[0].get_ylabel() for row in rows] == ["label 7", "test 5\nlabel 3"]
    answers = [[axes.get_xlabel() for axes in row[2::2]] for row in rows]
    assert answers == [
        ["predicted 7", "predicted 3 ✗", "predicted 7"],
        ["predicted 7 ✗", "predicted 3", "predicted 7 ✗"],
    ]


def test_views_are_found_by_name_in_any_order():
    a, b = view(4, seed=1), view(4, seed=2)
    first, second = panels(attention_on_images([shown(a=a, b=b), shown(b=b, a=a)]))
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(pixels(one), pixels(other))


def test_a_superpixel_is_filled_with_its_channels_within_0_to_1():
    colored = view(4)._replace(channels=np.array([[0, 0.5, 1], [-1, 0.2, 3], [0, 0, 0], [1, 1, 1]]))
    gray = view(4)._replace(channels=np.array([[0.1], [0.2], [-0.3], [1.4]]))
    _, of_colored, _, of_gray, _ = panels(attention_on_images([shown(colored=colored, gray=gray)]))[0]
    assert np.array_equal(pixels(of_colored), np.array([[0, 0.5, 1], [0, 0.2, 1], [0, 0, 0], [1, 1, 1]])[SQUARES])
    assert np.array_equal(pixels(of_gray), np.array([[0.1] * 3, [0.2] * 3, [0] * 3, [1] * 3])[SQUARES])


def test_attention_and_target_are_colored_relative_to_the_largest_of_the_graph():
    clean = view(4)._replace(attention=np.array([0.01, 0.02, 0, 0.04]), node_mask=np.ones(4, bool))
    image = shown(clean=clean)._replace(target=np.array([0.5, 0, 0, 0.5]))
    target, _, attention = panels(attention_on_images([image]))[0]
    assert np.array_equal(pixels(attention), ATTENTION(np.array([0.25, 0.5, 0, 1.0]))[SQUARES])
    assert np.array_equal(pixels(target), ATTENTION(np.array([1.0, 0, 0, 1]))[SQUARES])


def test_attention_that_is_nan_is_colored_as_zero():
    nan = view(4)._replace(attention=np.array([np.nan, 1, 2, np.nan]), node_mask=np.ones(4, bool))
    attention = panels(attention_on_images([shown(nan=nan)]))[0][-1]
    assert np.array_equal(pixels(attention), ATTENTION(np.array([0, 0.5, 1, 0]))[SQUARES])


def test_dropped_superpixels_show_the_hatching_behind_them():
    kept = np.array([True, False, False, True])
    figure = attention_on_images([shown(clean=view(4)._replace(node_mask=kept))])
    target, channels, attention = panels(figure)[0]
    assert np.array_equal(pixels(attention)[..., 3] == 1, kept[SQUARES])
    assert set(pixels(attention)[..., 3].ravel()) == {0, 1}
    assert [axes.patch.get_hatch() is not None for axes in (target, channels, attention)] == [False, False, True]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["dropped", "wrong prediction"]
    assert [patch.get_hatch() for patch in legend.get_patches()] == [attention.patch.get_hatch(), None]


def test_the_picture_itself_has_the_colors_and_hatches():
    clean = view(4)._replace(node_mask=np.array([True, False, True, True]))
    image = shown(clean=clean)
    figure = attention_on_images([image])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = np.asarray(canvas.buffer_rgba()) / 255

    def inside(axes, superpixel):
        """Its pixels of the picture, without its borders; more than one color only where there is hatching."""
        row, column = divmod(superpixel, 2)
        corners = [[4 * column - 0.25, 3 * row - 0.25], [4 * column + 3.25, 3 * row + 2.25]]
        (left, top), (right, bottom) = axes.transData.transform(corners)
        rows = slice(round(len(picture) - top), round(len(picture) - bottom))
        return picture[rows, round(left) : round(right), :3].reshape(-1, 3)

    _, channels, attention = panels(figure)[0]
    for node in range(4):
        assert np.abs(inside(channels, node) - clean.channels[node]).max() < 0.01
    color = ATTENTION(clean.attention / clean.attention.max())[:, :3]
    for node in (0, 2, 3):
        assert np.abs(inside(attention, node) - color[node]).max() < 0.01
    assert inside(attention, 1).max() == 1  # white
    assert inside(attention, 1).min() < 0.85


def test_lines_part_superpixels_and_nothing_else():
    segments = np.array([[0, 0, 1], [0, 2, 2]])
    for axes in panels(attention_on_images([shown(segments, clean=view(3))]))[0]:
        (lines,) = axes.collections
        ends = sorted(tuple(map(tuple, line)) for line in lines.get_segments())
        assert ends == [
            ((0.5, 0.5), (0.5, 1.5)),
            ((0.5, 0.5), (1.5, 0.5)),
            ((1.5, -0.5), (1.5, 0.5)),
            ((1.5, 0.5), (2.5, 0.5)),
        ]


def test_wrong_predictions_have_a_cross_and_a_frame():
    image = shown(right=view(4, predicted=7), wrong=view(4, predicted=np.int32(1)))
    figure = attention_on_images([image])
    _, _, right, channels, wrong = panels(figure)[0]
    assert (right.get_xlabel(), wrong.get_xlabel()) == ("predicted 7", "predicted 1 ✗")
    assert wrong.xaxis.label.get_color() == WRONG != right.xaxis.label.get_color()
    framed = [axes for axes in (right, channels, wrong) if axes.spines["left"].get_edgecolor() == to_rgba(WRONG)]
    assert framed == [wrong]
    assert wrong.spines["top"].get_linewidth() > right.spines["top"].get_linewidth()


def test_targets_are_left_out_where_no_image_has_one():
    without = shown()._replace(target=np.zeros(4))
    assert [axes.get_title() for axes in panels(attention_on_images([without]))[0]] == ["input", "attention"]
    first, second = panels(attention_on_images([without, shown()]))
    assert len(first) == len(second) == 3
    assert np.array_equal(pixels(first[0]), ATTENTION(np.zeros(4))[SQUARES])


@pytest.mark.parametrize(("count", "names"), [(1, ["clean"]), (6, ["clean", "noisy", "noisy color"])])
def test_nothing_lies_outside_the_picture_or_over_another_panel(count, names):
    images = [shown(title=f"test {i}", **{name: view(4, predicted=8) for name in names}) for i in range(count)]
    figure = attention_on_images(images)
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes] + [figure.legends[0].get_window_extent(renderer)]
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_what_was_given_is_not_changed():
    clean = view(4)
    before = [np.array(array) for array in clean]
    attention_on_images([shown(clean=clean)])
    assert all(np.array_equal(one, other) for one, other in zip(clean, before, strict=True))


BAD = {
    r"images: expected at least one, got none": [],
    r"images\[0\].variants: expected at least one, got \[\]": [shown()._replace(variants={})],
    r"images\[1\].variants: expected \['clean'\], got \['noisy'\]": [shown(), shown(noisy=view(4))],
    r"images\[0\].segments: expected \[height, width\], got \[0, 3\]": [shown()._replace(segments=SQUARES[:0, :3])],
    r"images\[0\].segments: expected \[height, width\], got \[6\]": [shown()._replace(segments=SQUARES[:, 0])],
    r"images\[0\].segments: expected superpixels counted from 0, got -1": [shown()._replace(segments=SQUARES - 1)],
    r"images\[0\].target: expected \[4\] for 4 superpixels, got \[3\]": [shown()._replace(target=np.ones(3))],
    r"variants\['a'\].attention: expected \[4\]": [shown(a=view(4)._replace(attention=np.ones(5)))],
    r"variants\['a'\].node_mask: expected \[4\]": [shown(a=view(4)._replace(node_mask=np.ones((4, 1), bool)))],
    r"variants\['a'\].channels: expected \[4, 1\] or \[4, 3\].*got \[5, 3\]": [
        shown(a=view(4)._replace(channels=np.ones((5, 3))))
    ],
    r"variants\['b'\].channels: expected \[4, 1\] or \[4, 3\].*got \[4, 2\]": [shown(a=view(4), b=view(4, channels=2))],
}


@pytest.mark.parametrize(("message", "images"), BAD.items(), ids=range(len(BAD)))
def test_what_does_not_go_together_is_refused(message, images):
    with pytest.raises(ValueError, match=message):
        attention_on_images(images)


def test_failing_to_write_leaves_the_old_picture(tmp_path):
    (tmp_path / "digits.unknown").write_text("old")
    with pytest.raises(ValueError, match="unknown"):
        save(attention_on_images([shown()]), tmp_path / "digits.unknown")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
