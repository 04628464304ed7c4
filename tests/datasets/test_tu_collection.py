"""Data sets of the TU collection by name or path: found, downloaded, and read from text only once."""

import subprocess
import sys

import numpy as np
import pytest
from mirror import Mirror
from tu_files import TOY, write, write_zip

from jattn.datasets import DownloadError, read_tu, tu_data
from jattn.datasets import _download as download
from jattn.datasets import _tu_collection as tu_collection


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tu_collection, "ADDRESS", "http://127.0.0.1:1/")
    monkeypatch.setattr(download, "_WAITS", (0,))
    return tmp_path / "cache" / "jattn" / "tu"


@pytest.fixture
def collection(monkeypatch, tmp_path):
    """A collection in which every name stands for TOY."""
    mirror = Mirror()
    mirror.content = write_zip(tmp_path / "served.zip", TOY, inside="TOY/").read_bytes()
    monkeypatch.setattr(tu_collection, "ADDRESS", mirror.address)
    yield mirror
    mirror.close()


@pytest.fixture
def readings(monkeypatch):
    """The paths whose text was read."""
    paths = []

    def counted(path, name):
        paths.append(path)
        return read_tu(path, name)

    monkeypatch.setattr(tu_collection, "read_tu", counted)
    return paths


def same(a, b):
    pairs = list(zip(a, b, strict=True))
    dtypes = all(x.dtype == y.dtype for x, y in pairs if isinstance(x, np.ndarray))
    return dtypes and all(np.array_equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("source", ["TOY.zip", "zips/any name.zip", "text", "zips"])
def test_a_path_is_read_as_it_stands(tmp_path, monkeypatch, source):
    write(tmp_path / "text", TOY)
    write_zip(tmp_path / "TOY.zip", TOY)
    write_zip(tmp_path / "zips" / "any name.zip", TOY)
    expected = read_tu(tmp_path / "text")
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / source, str(tmp_path / source), source if "." in source else f"./{source}"):
        assert same(tu_data(path), expected)


@pytest.mark.parametrize("layout", ["zip", "text", "text below", "text two below", "zip below"])
def test_a_name_is_found_in_a_folder(tmp_path, layout):
    folder = tmp_path / "folder"
    match layout:
        case "zip":
            write_zip(folder / "TOY.zip", TOY)
        case "text":
            write(folder, TOY)
        case "text below":
            write(folder / "TOY", TOY)
        case "text two below":
            write(folder / "TOY" / "raw", TOY)
        case _:
            write_zip(folder / "TOY" / "TOY.zip", TOY)
    write(folder / "another", TOY | {"A": ""}, "ANOTHER")
    assert same(tu_data("TOY", folder), read_tu(write(tmp_path / "expected", TOY)))
    assert same(tu_data("TOY", str(folder)), tu_data("TOY", folder))


def test_a_name_that_a_folder_lacks_is_an_error_that_says_what_was_looked_for(tmp_path):
    (tmp_path / "empty").mkdir()
    looked_for = r"empty has no TOY.zip, and no TOY_A.txt at its top or one folder deeper; TOY is at http.*/TOY.zip$"
    with pytest.raises(FileNotFoundError, match=looked_for):
        tu_data("TOY", tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist; TOY is at http.*/TOY.zip$"):
        tu_data("TOY", tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"nowhere.zip does not exist$"):
        tu_data(tmp_path / "nowhere.zip")


def test_a_name_is_downloaded_once(collection, cache, readings):
    first, second = tu_data("TOY"), tu_data("TOY")
    assert same(first, second)
    assert same(first, read_tu(cache / "TOY.zip"))
    assert collection.asked == [0]
    assert len(readings) == 1


def test_a_download_goes_on_where_it_stopped(collection, monkeypatch):
    monkeypatch.setattr(download, "_WAITS", (0, 0))
    monkeypatch.setattr(download, "_PIECE", 100)
    collection.answers = [300]
    assert tu_data("TOY").name == "TOY"
    assert collection.asked == [0, 300]


def test_what_is_no_whole_zip_is_not_taken(collection, cache):
    whole = collection.content
    for content in (b"<html>Please log in</html>", whole[:-100], whole.replace(b"2, 1", b"2, 9")):
        collection.content = content
        with pytest.raises(
            DownloadError, match=r"(?s)can't download TOY.zip.*(not a zip file|in the zip is damaged)"
        ) as caught:
            tu_data("TOY")
        assert "no data set" not in str(caught.value)
        assert [file.name for file in cache.iterdir()] == [".TOY.zip.lock"]
    collection.content = whole
    tu_data("TOY")


def test_a_name_that_the_collection_lacks_is_said_to_be(collection, cache, tmp_path, monkeypatch):
    collection.answers = [-404] * 2
    hint = r"NONE may not be in the collection, which is listed at http\S*/"
    with pytest.raises(DownloadError, match=rf"NONE.zip\n(.*\n)+{hint}$"):
        tu_data("NONE")
    monkeypatch.chdir(write(tmp_path / "NONE", TOY).parent)
    with pytest.raises(DownloadError, match=rf"{hint}\n{tmp_path}/NONE exists: give ./NONE to read it$"):
        tu_data("NONE")


@pytest.mark.parametrize(
    ("source", "name", "remedy"),
    [
        ("TOY", "TOY.zip", "give ./TOY.zip to read it"),
        ("TOY", "TOY.ZIP", "give ./TOY.ZIP to read it"),
        ("TOY", "toy.zip", "give ./toy.zip to read it"),
        ("TOY", "TOY.tar.gz", "unpack it and give the path of its folder"),
        ("TOY.tar.gz", "TOY.tar.gz", "unpack it and give the path of its folder"),
        ("TOY2", "TOY2.tgz", "unpack it and give the path of its folder"),
    ],
)
def test_offline_a_file_here_is_pointed_at(cache, tmp_path, monkeypatch, source, name, remedy):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).touch()
    (tmp_path / "TOY3.zip").touch()
    with pytest.raises(DownloadError, match=rf"\n{tmp_path}/{name} exists: {remedy}$") as error:
        tu_data(source)
    assert "TOY3" not in str(error.value)


def test_a_zip_may_be_called_so_in_capitals(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_zip(tmp_path / "TOY.ZIP", TOY)
    assert same(tu_data("TOY.ZIP"), tu_data("TOY", tmp_path))


def test_another_kind_of_archive_is_to_be_unpacked(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("B.tar.gz", "B.7z"):
        (tmp_path / name).touch()
        with pytest.raises(
            ValueError, match=rf"{name} is not a zip file, .*: unpack it and give the path of its folder$"
        ):
            tu_data(f"./{name}")


def test_offline_one_error_says_what_to_put_where(cache, readings):
    with pytest.raises(DownloadError) as caught:
        tu_data("TOY")
    asked, address, *_ = str(caught.value).splitlines()
    assert asked == f"can't download TOY.zip; download by hand and put into {cache}:"
    assert address.strip() == "http://127.0.0.1:1/TOY.zip"
    assert "no data set" not in str(caught.value)
    write_zip(cache / "TOY.zip", TOY)
    assert tu_data("TOY").name == "TOY"


def test_what_was_read_once_is_read_from_arrays(tmp_path, cache, readings):
    bare = {kind: TOY[kind] for kind in ("A", "graph_indicator")}
    for name, files in (("FULL", TOY), ("BARE", bare)):
        path = write_zip(tmp_path / f"{name}.zip", files, name)
        first, second = tu_data(path), tu_data(path)
        assert same(first, second)
        assert second.name == name
        assert [x is None for x in first] == [x is None for x in second]
    assert len(readings) == 2
    assert sorted(file.name.partition("-")[0] for file in cache.iterdir()) == ["BARE", "FULL"]


def test_other_sources_or_versions_are_read_again(tmp_path, monkeypatch, readings):
    folder = tmp_path / "TOY"
    changes = [
        {},
        {"A": ""},
        {"graph_labels": "1\n0\n1\n"},
        {"node_attributes": TOY["node_attributes"].replace("5", "6")},
    ]
    for i, change in enumerate(changes, 1):
        assert same(tu_data(write(folder, TOY | change)), read_tu(folder))
        assert len(readings) == i
    write(folder, TOY | {"notes": "are not part of it"})
    tu_data(folder)
    assert len(readings) == len(changes)
    (folder / "TOY_node_labels.txt").unlink()
    assert tu_data(folder).node_labels is None
    assert tu_data(write(tmp_path / "OTHER", TOY, "OTHER")).name == "OTHER"
    assert len(readings) == len(changes) + 2
    monkeypatch.setattr(tu_collection, "VERSION", 0)
    tu_data(folder)
    assert len(readings) == len(changes) + 3


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "lacking", "shorter", "unknown"])
def test_a_damaged_file_of_arrays_is_made_again(tmp_path, cache, damage):
    source = write_zip(tmp_path / "TOY.zip", TOY)
    expected = tu_data(source)
    (path,) = cache.iterdir()
    content = bytearray(path.read_bytes())
    arrays = {name: array for name, array in expected._asdict().items() if name != "name"}
    match damage:
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "flipped":
            content[content.index(expected.senders.tobytes())] ^= 1
            path.write_bytes(content)
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("text")
        case "lacking":
            np.savez(path, **{name: array for name, array in arrays.items() if name != "receivers"})
        case "shorter":
            np.savez(path, **arrays | {"node_labels": expected.node_labels[1:]})
        case _:
            np.savez(path, **arrays, more=expected.senders)
    with pytest.warns(UserWarning, match=f"{path} is damaged .*; it is made again"):
        assert same(tu_data(source), expected)
    assert same(tu_data(source), expected)
    assert list(cache.iterdir()) == [path]


def test_a_cache_folder_that_cannot_be_written_is_done_without(tmp_path, cache):
    cache.parent.parent.mkdir()
    cache.parent.write_text("")
    source = write(tmp_path / "TOY", TOY)
    with pytest.warns(UserWarning, match=r"TOY-\w+.npz can't be written \(.*\); its arrays are not kept"):
        assert same(tu_data(source), read_tu(source))


@pytest.mark.slow
def test_runs_that_start_at_once_share_what_is_kept(tmp_path, cache, collection):
    code = (
        "import sys\n"
        "from jattn.datasets import _tu_collection as tu_collection\n"
        "tu_collection.ADDRESS = sys.argv[1]\n"
        "print(tu_collection.tu_data('TOY').n_node)\n"
    )
    run = [sys.executable, "-W", "error", "-c", code, collection.address]
    both = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0] for process in both] == ["[3 1 2]\n"] * 2
    assert collection.asked == [0]
    assert sorted(path.suffix for path in cache.iterdir() if not path.name.startswith(".")) == [".npz", ".zip"]


def test_published_data_sets_read_the_same_from_arrays(shared):
    for name in ("PROTEINS", "DD"):
        first = tu_data(name, shared / "data")
        assert same(first, read_tu(shared / "data", name))
        assert same(tu_data(name, shared / "data"), first)
