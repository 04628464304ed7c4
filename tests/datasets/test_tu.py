"""Reading TU files: facts of real data sets, every layout of zip and folder, and an error for every broken line."""

import zipfile

import numpy as np
import pytest
from tu_files import TOY, write, write_zip

from jattn.datasets import published_colors, published_triangles, read_tu
from jattn.datasets._tu import as_graphs, consecutive_splits, sources
from jattn.graphs import check


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.fixture(scope="module")
def triangles(shared):
    return published_triangles(shared / "data")


def test_arrays_hold_what_the_files_say(tmp_path):
    data = read_tu(write(tmp_path, TOY))
    assert data.name == "TOY"
    assert data.senders.tolist() == [0, 1, 1, 2, 4, 4, 5]
    assert data.receivers.tolist() == [1, 0, 2, 1, 4, 5, 4]
    assert data.n_node.tolist() == [3, 1, 2]
    assert data.graph_labels.tolist() == [1, -1, 1]
    assert data.graph_attributes.tolist() == [[0.5, 1], [1.5, 2], [-2, 30]]
    assert data.node_labels.tolist() == [[0], [4], [0], [1], [1], [2]]
    assert data.node_attributes.tolist() == [[1.5, 0], [2, 0], [3, 0], [4, 0], [5, 1], [6, 0]]
    integers = (data.senders, data.receivers, data.n_node, data.graph_labels, data.node_labels)
    assert {a.dtype for a in integers} == {np.dtype(np.int32)}
    assert {a.dtype for a in (data.graph_attributes, data.node_attributes)} == {np.dtype(np.float32)}


def test_absent_files_are_none_and_graphs_without_labels_are_counted(tmp_path):
    data = read_tu(write(tmp_path, {kind: TOY[kind] for kind in ("A", "graph_indicator")}))
    assert data[4:] == (None, None, None, None)
    assert data.n_node.tolist() == [3, 1, 2]


def test_graphs_may_lack_edges_or_nodes(tmp_path):
    data = read_tu(write(tmp_path, {"A": "", "graph_indicator": "2\n", "graph_labels": "1\n1\n0\n"}))
    assert data.n_node.tolist() == [0, 1, 0]
    assert data.senders.shape == data.receivers.shape == (0,)
    graphs = as_graphs(data, np.ones((1, 2), np.uint8), np.zeros(1), data.graph_labels)
    check(graphs)
    assert graphs.n_edge.tolist() == [0, 0, 0]


def on_a_mac(path):
    """A zip as macOS makes it."""
    write_zip(path, TOY, inside="TOY/")
    with zipfile.ZipFile(path, "a") as archive:
        for folder in ("__MACOSX/", "__MACOSX/TOY/", "TOY/", ""):
            archive.writestr(f"{folder}._TOY_A.txt", b"\0\5\x16\7 Mac OS X")
        archive.writestr("__MACOSX/TOY_A.txt", "")
    return path


def test_what_a_mac_adds_is_no_data(tmp_path):
    expected = read_tu(write(tmp_path / "expected", TOY))
    path = on_a_mac(tmp_path / "zips" / "TOY.zip")
    assert same(read_tu(path), expected)
    (path.parent / "._TOY.zip").write_bytes(b"\0\5\x16\7")
    assert same(read_tu(path.parent), expected)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "texts")
    assert same(read_tu(tmp_path / "texts"), expected)


def marked(path, place, value):
    """A zip whose members have another number at some place of their headers, counted from that of the version."""
    content = bytearray(path.read_bytes())
    for mark, version in ((b"PK\3\4", 4), (b"PK\1\2", 6)):
        start = content.find(mark)
        while start >= 0:
            content[start + version + place] = value
            start = content.find(mark, start + 4)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (4, 9, "That compression method is not supported"),
        (4, 19, "That compression method is not supported"),
        (2, 1, r"File '.*' is encrypted, password required for extraction"),
        (2, 1 << 6, "strong encryption"),
    ],
)
def test_members_that_python_can_not_unpack_are_an_error_of_a_line(tmp_path, place, value, why):
    path = marked(write_zip(tmp_path / "TOY.zip", TOY), place, value)
    with pytest.raises(ValueError, match=why) as error:
        read_tu(path)
    message = str(error.value)
    assert message.startswith(f"{path}/TOY_graph_indicator.txt can't be read (")
    assert message.endswith("): unpack the zip and give the folder")
    assert "\n" not in message


def test_the_mark_of_utf8_is_no_number_and_utf16_is_said_to_be(tmp_path):
    expected = read_tu(write(tmp_path / "expected", TOY))
    folder = write(tmp_path / "marked", TOY)
    for file in folder.iterdir():
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert same(read_tu(folder), expected)
    assert same(
        read_tu(write_zip(tmp_path / "TOY.zip", {kind: f"\ufeff{text}" for kind, text in TOY.items()})), expected
    )
    file = folder / "TOY_node_labels.txt"
    file.write_text(TOY["node_labels"], "utf-16")
    with pytest.raises(ValueError, match=rf"{file} is UTF-16: save it as UTF-8"):
        read_tu(folder)


@pytest.mark.parametrize("layout", ["text", "text below", "zip", "zip below", "zip in folder", "windows lines"])
def test_zips_and_folders_read_the_same(tmp_path, layout):
    expected = read_tu(write(tmp_path / "expected", TOY))
    place = tmp_path / "place"
    place.mkdir()
    match layout:
        case "text":
            path = write(place, TOY)
        case "text below":
            path = write(place / "TOY", TOY).parent
        case "zip":
            path = write_zip(place / "any name.zip", TOY)
        case "zip below":
            path = write_zip(place / "TOY.zip", TOY, inside="TOY/")
        case "zip in folder":
            path = write_zip(place / "TOY.zip", TOY, inside="TOY/").parent
        case _:
            path = write(place, {kind: text.replace("\n", "\r\n").rstrip() for kind, text in TOY.items()})
    assert same(read_tu(path), expected)
    assert same(read_tu(str(path), "TOY"), expected)


def test_a_name_says_which_of_several_data_sets(tmp_path):
    write(tmp_path / "texts", TOY, "ONE")
    write(tmp_path / "texts" / "deeper", TOY, "TWO")
    assert read_tu(tmp_path / "texts", "TWO").name == "TWO"
    with pytest.raises(ValueError, match=r"several data sets \(.*ONE_A.txt, .*TWO_A.txt\): give the `name` of one"):
        read_tu(tmp_path / "texts")
    (tmp_path / "zips").mkdir()
    write_zip(tmp_path / "zips" / "ONE.zip", TOY, "ONE")
    write_zip(tmp_path / "zips" / "TWO.zip", TOY, "TWO")
    assert read_tu(tmp_path / "zips", "ONE").name == "ONE"
    with pytest.raises(ValueError, match=r"several zips \(ONE.zip, TWO.zip\): give the `name` of one"):
        read_tu(tmp_path / "zips")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        read_tu(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"has no NAME.zip, and no NAME_A.txt at its top or one folder deeper"):
        read_tu(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"has no TOY.zip, and no TOY_A.txt"):
        read_tu(tmp_path, "TOY")
    with pytest.raises(FileNotFoundError, match=r"X.zip has no OTHER_A.txt, at its top or one folder deeper"):
        read_tu(write_zip(tmp_path / "X.zip", TOY), "OTHER")
    with pytest.raises(FileNotFoundError, match=r"TOY_graph_indicator.txt is missing"):
        read_tu(write(tmp_path / "lone", {"A": "1, 2\n2, 1\n"}))


def test_what_is_no_zip_is_refused(tmp_path):
    path = tmp_path / "TOY.zip"
    path.write_bytes(write_zip(path, TOY).read_bytes()[:100])
    with pytest.raises(ValueError, match=r"TOY.zip is not a zip file, or is incomplete or damaged"):
        read_tu(path)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("A", "2, 1\n1; 2\n", "line 2: expected 2 integers with commas between, got '1; 2'"),
        ("A", "2, 1\n1, 2, 3\n", "line 2: expected 2 integers with commas between, got '1, 2, 3'"),
        ("A", "1\n", "line 1: expected 2 integers with commas between, got '1'"),
        ("A", "1, 2\n\n2, 1\n", "line 2: expected 2 integers with commas between, got ''"),
        ("A", "\n", "line 1: expected 2 integers with commas between, got ''"),
        ("A", "1, 2\n2, 1.5\n", "line 2: expected 2 integers with commas between, got '2, 1.5'"),
        ("A", "1, 2\n2, 99999999999\n", "line 2: expected 2 integers with commas between, got '2, 99999999999'"),
        ("A", "1, 2\n2, 1\n# 3\n", "line 3: expected 2 integers with commas between, got '# 3'"),
        ("A", "1, 2\n2, \xe9\n", "line 2: expected 2 integers with commas between, got '2, \xe9'"),
        ("A", "1, 2\n2, 1\n0, 1\n", "line 3: edge 0, 1 is out of range: nodes are 1-6"),
        ("A", "1, 2\n2, 1\n6, 7\n", "line 3: edge 6, 7 is out of range: nodes are 1-6"),
        ("A", "1, 2\n3, 4\n", "line 2: edge 3, 4 joins two graphs"),
        ("A", "1, 2\n2, 1\n2, 3\n1, 2\n3, 2\n", "line 4: edge 1, 2 is listed twice"),
        ("A", "1, 2\n2, 1\n2, 3\n", "line 3: edge 2, 3 has no reverse: list every edge in both directions"),
        ("graph_indicator", "", "is empty: expected the graph of each node"),
        ("graph_indicator", "1\nx\n", "line 2: expected one integer, got 'x'"),
        ("graph_indicator", "0\n1\n", "line 1: graph 0, but graphs count from 1"),
        ("graph_indicator", "1\n2\n1\n", "line 3: graph 1, but line 2 has graph 2, and graphs must follow in order"),
        ("graph_indicator", "1\n1\n1\n2\n3\n4\n", "line 6: graph 4, but only 3 graphs have a label"),
        ("graph_labels", "1\n0.5\n1\n", "line 2: expected one integer, got '0.5'"),
        ("graph_attributes", "1\n2\n", "expected 3 lines, one for each graph, got 2"),
        ("graph_attributes", "1\n2, 3\n3\n", "line 2: expected one number, got '2, 3'"),
        ("node_labels", "1\n2\n", "expected 6 lines, one for each node, got 2"),
        ("node_attributes", "1, 2\n3, nan\n", "line 2: expected 2 numbers with commas between, got '3, nan'"),
        ("node_attributes", "1, 2\n3,\n", "line 2: expected 2 numbers with commas between, got '3,'"),
    ],
)
def test_a_broken_line_is_named(tmp_path, kind, text, message):
    write(tmp_path, TOY | {kind: text})
    with pytest.raises(ValueError) as error:
        read_tu(tmp_path)
    assert str(error.value).startswith(str(tmp_path / f"TOY_{kind}.txt"))
    assert str(error.value).endswith(message)


def test_edge_labels_and_attributes_are_left_unread_with_a_warning(tmp_path):
    expected = read_tu(write(tmp_path / "expected", TOY))
    write(tmp_path / "one", TOY | {"edge_labels": "not even numbers"})
    with pytest.warns(UserWarning, match=r"one: TOY_edge_labels.txt not read; edges have weight 1"):
        assert same(read_tu(tmp_path / "one"), expected)
    path = write_zip(tmp_path / "both.zip", TOY | {"edge_labels": "1\n", "edge_attributes": "1\n"})
    with pytest.warns(UserWarning, match=r"both.zip.*: TOY_edge_labels.txt and TOY_edge_attributes.txt not read"):
        assert same(read_tu(path), expected)


def test_the_sources_are_the_files_that_are_read(tmp_path):
    files = {f"TOY_{kind}.txt" for kind in TOY}
    path = write(tmp_path / "TOY", TOY | {"edge_labels": "1\n", "notes": "left alone"})
    for found in (sources(path), sources(tmp_path, "TOY")):
        assert found[0] == "TOY"
        assert {str(file.relative_to(path)) for file in found[1]} == files
    path = write_zip(tmp_path / "zips" / "TOY.zip", TOY, inside="TOY/")
    assert sources(path) == sources(path.parent) == ("TOY", [path])
    with pytest.raises(FileNotFoundError, match=r"has no OTHER_A.txt"):
        sources(path, "OTHER")


def test_a_broken_line_far_down_is_named(tmp_path):
    nodes = 400_000
    lines = ["1"] * nodes
    lines[-2] = "one"
    write_zip(tmp_path / "TOY.zip", TOY | {"graph_indicator": "\n".join(lines)}, inside="TOY/")
    with pytest.raises(ValueError, match=r"TOY.zip/TOY/TOY_graph_indicator.txt, line 399999: .* got 'one'"):
        read_tu(tmp_path)


def test_splits_follow_one_another(tmp_path):
    data = read_tu(write(tmp_path, TOY))
    graphs = as_graphs(data, data.node_attributes, np.arange(6.0), data.graph_attributes[:, 0])
    check(graphs)
    assert graphs.globals["label"].dtype == np.float32
    assert as_graphs(data, data.node_attributes, np.zeros(6), np.ones(3)).globals["label"].dtype == np.int32
    splits = consecutive_splits(graphs, {"first": 1, "none": 0, "rest": 2})
    for split in splits.values():
        check(split)
    assert [split.n_node.tolist() for split in splits.values()] == [[3], [], [1, 2]]
    rest = splits["rest"]
    assert rest.nodes["attention"].tolist() == [3, 4, 5]
    assert rest.globals["label"].tolist() == [1.5, -2]
    assert (rest.senders.tolist(), rest.receivers.tolist(), rest.n_edge.tolist()) == ([1, 1, 2], [1, 2, 1], [0, 3])
    with pytest.raises(ValueError, match=r"expected 4 graphs \(a 1, b 3\), got 3"):
        consecutive_splits(graphs, {"a": 1, "b": 3})


def test_proteins_and_dd_have_the_known_numbers(shared):
    proteins, dd = (read_tu(shared / "data", name) for name in ("PROTEINS", "DD"))
    for data, classes, n_node, n_edge, smallest, largest in (
        (proteins, [663, 450], 43_471, 81_044, 4, 620),
        (dd, [691, 487], 334_925, 843_046, 30, 5_748),
    ):
        assert np.bincount(data.graph_labels)[1:].tolist() == classes
        assert (data.n_node.sum(), data.n_node.min(), data.n_node.max()) == (n_node, smallest, largest)
        assert len(data.senders) == 2 * n_edge
        assert (data.senders != data.receivers).all()
        assert data.graph_attributes is None
        assert data.node_labels.shape == (n_node, 1)
    assert np.unique(proteins.node_labels).tolist() == [0, 1, 2]
    assert proteins.node_attributes.shape == (43_471, 1)
    assert (dd.node_labels.min(), dd.node_labels.max(), len(np.unique(dd.node_labels))) == (1, 89, 82)
    assert dd.node_attributes is None


def test_published_triangles_have_the_known_numbers(triangles):
    assert list(triangles) == ["train", "validation", "orig", "large"]
    assert [len(split.n_node) for split in triangles.values()] == [30_000, 5_000, 5_000, 5_000]
    for name, split in triangles.items():
        x, attention = split.nodes["features"], split.nodes["attention"]
        assert (x.dtype, x.shape[1]) == (np.uint8, 15)
        assert (x.sum(axis=1) == 1).all()
        degrees = np.bincount(split.senders, minlength=len(x))
        np.testing.assert_array_equal(x.argmax(axis=1), degrees)
        assert (split.senders != split.receivers).all()
        assert split.n_edge.sum() == len(split.senders)
        graph = np.repeat(np.arange(len(split.n_node)), split.n_node)
        assert (graph[split.senders] == graph[split.receivers]).all()
        label = split.globals["label"]
        assert (label.dtype, label.min(), label.max()) == (np.int32, 1, 10)
        np.testing.assert_array_equal(np.bincount(graph, attention), 3 * label)
        assert split.n_node.max() <= (100 if name == "large" else 25)


def test_published_attention_is_the_number_of_triangles_of_a_node(triangles):
    split = triangles["validation"]
    check(split)
    graph = np.repeat(np.arange(5_000), split.n_node)
    place = np.arange(len(graph)) - (np.cumsum(split.n_node) - split.n_node)[graph]
    adjacency = np.zeros((5_000, 25, 25), np.float32)
    adjacency[graph[split.senders], place[split.senders], place[split.receivers]] = 1
    counted = np.einsum("gij,gji->gi", adjacency @ adjacency, adjacency) / 2
    np.testing.assert_array_equal(split.nodes["attention"], counted[graph, place])


def test_a_degree_beyond_the_columns_reads_as_zeros(tmp_path):
    sizes = {"train": 30_000, "validation": 5_000, "orig": 5_000, "large": 5_000}
    graphs = np.arange(1, sum(sizes.values()) + 1)
    files = {
        "A": "1, 2\n2, 1\n2, 3\n3, 2\n",
        "graph_indicator": "".join(f"{graph}\n" for graph in [1, 1, *graphs]),
        "graph_attributes": "1\n" * len(graphs),
        "node_attributes": "0\n1\n" + "0\n" * len(graphs),
    }
    write(tmp_path, files, "TRIANGLES")
    train = published_triangles(tmp_path)["train"]
    assert train.nodes["features"][:4].tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert train.nodes["attention"][:4].tolist() == [0, 1, 0, 0]
    for split in published_triangles(tmp_path, degree_columns=2).values():
        assert split.nodes["features"].shape[1] == 2
        check(split)
    narrow = published_triangles(tmp_path, degree_columns=2)["train"]
    assert narrow.nodes["features"][:4].tolist() == [[0, 1], [0, 0], [0, 1], [1, 0]]
    with pytest.raises(ValueError, match="degree_columns=0: expected at least 1"):
        published_triangles(tmp_path, degree_columns=0)


def test_another_data_set_under_a_published_name_is_refused(tmp_path):
    write(tmp_path, TOY, "TRIANGLES")
    write(tmp_path, TOY, "COLORS-3")
    with pytest.raises(ValueError, match=r"expected graph attributes \(triangles\) and one node attribute"):
        published_triangles(tmp_path)
    with pytest.raises(ValueError, match=r"expected graph attributes \(labels\) and five node attributes"):
        published_colors(tmp_path)
    write(tmp_path, TOY | {"node_attributes": "1\n" * 6}, "TRIANGLES")
    with pytest.raises(ValueError, match=r"expected 45000 graphs \(train 30000, .*\), got 3"):
        published_triangles(tmp_path)
