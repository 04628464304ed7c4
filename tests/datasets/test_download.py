"""Downloads against a server of our own that cuts connections, ignores ranges or sends something else."""

import hashlib
import io
import subprocess
import sys
import threading
import zipfile

import pytest
from mirror import CONTENT, Mirror
from waiting import wait_until

from jattn.datasets import DownloadError
from jattn.datasets import _download as download
from jattn.datasets._cache_folder import cache_folder
from jattn.datasets._download import fetch

HASH = f"md5:{hashlib.md5(CONTENT).hexdigest()}"


@pytest.fixture
def mirrors(monkeypatch):
    monkeypatch.setattr(download, "_WAITS", (0, 0, 0))
    monkeypatch.setattr(download, "_PIECE", 1_000)  # of a cut connection's last piece nothing is kept
    started = [Mirror(), Mirror()]
    yield started
    for mirror in started:
        mirror.close()


def get(folder, *mirrors, name="a.bin"):
    (path,) = fetch({name: HASH}, [mirror.address for mirror in mirrors], folder)
    assert path == folder / name
    assert path.read_bytes() == CONTENT
    assert not list(folder.glob("*.partial"))


def test_no_files_need_no_mirror(tmp_path):
    assert fetch({}, [], tmp_path / "new") == []


def test_a_file_comes_from_the_first_mirror_once(tmp_path, mirrors):
    first, second = mirrors
    get(tmp_path / "new" / "folder", first, second)
    get(tmp_path / "new" / "folder", first, second)
    assert (first.asked, second.asked) == ([0], [])


def test_an_empty_file_can_be_downloaded(tmp_path, mirrors):
    mirrors[0].content = b""
    (path,) = fetch({"empty": f"md5:{hashlib.md5(b'').hexdigest()}"}, [mirrors[0].address], tmp_path)
    assert path.read_bytes() == b""


def test_a_cut_connection_goes_on_where_it_stopped(tmp_path, mirrors):
    mirrors[0].answers = [100_000, 50_000]
    get(tmp_path, mirrors[0])
    assert mirrors[0].asked == [0, 100_000, 150_000]


def test_another_mirror_goes_on_where_one_stopped(tmp_path, mirrors):
    first, second = mirrors
    first.answers = [100_000]
    get(tmp_path, first, second)
    assert (first.asked, second.asked) == ([0], [100_000])


def test_the_next_run_goes_on_where_the_last_stopped(tmp_path, mirrors, monkeypatch):
    monkeypatch.setattr(download, "_WAITS", (0,))
    mirrors[0].answers = [100_000]
    with pytest.raises(DownloadError):
        get(tmp_path, mirrors[0])
    assert not (tmp_path / "a.bin").exists()
    get(tmp_path, mirrors[0])
    assert mirrors[0].asked == [0, 100_000]


def test_a_server_that_ignores_ranges_starts_anew(tmp_path, mirrors):
    mirrors[0].ranges = False
    mirrors[0].answers = [100_000]
    get(tmp_path, mirrors[0])
    assert mirrors[0].asked == [0, 100_000]


@pytest.mark.parametrize("there", [CONTENT, CONTENT + b"more", b"other", CONTENT[:-1] + b"x"])
def test_any_partial_file_leads_to_the_right_one(tmp_path, mirrors, there):
    (tmp_path / ".a.bin.partial").write_bytes(there)
    get(tmp_path, mirrors[0])
    assert mirrors[0].asked[0] == len(there)


def test_a_wrong_file_under_the_final_name_is_replaced(tmp_path, mirrors):
    (tmp_path / "a.bin").write_bytes(CONTENT[:-1])
    get(tmp_path, mirrors[0])


def test_something_else_is_refused_and_another_mirror_asked(tmp_path, mirrors):
    first, second = mirrors
    first.content = b"<html>Please log in</html>"
    get(tmp_path, first, second)
    assert (first.asked, second.asked) == ([0], [0])


def test_an_error_now_and_then_is_tried_again(tmp_path, mirrors):
    mirrors[0].answers = [-503, -404]
    get(tmp_path, mirrors[0])


def test_without_mirrors_a_missing_file_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "_WAITS", (0,))
    with pytest.raises(DownloadError, match=r"can't download a\.bin"):
        fetch({"a.bin": HASH}, [], tmp_path)


def test_one_error_names_all_files_addresses_and_reasons(tmp_path, mirrors):
    first, second = mirrors
    get(tmp_path, first, name="there.bin")
    first.content = b"something else"
    second.answers = [-404] * 3
    third = "http://127.0.0.1:1"
    names = ["one.bin", "there.bin", "two.bin"]
    with pytest.raises(DownloadError) as caught:
        fetch(dict.fromkeys(names, HASH), [first.address, second.address, third], tmp_path)
    message = str(caught.value)
    assert "\n" in message
    asked, *lines = message.splitlines()
    assert asked == f"can't download one.bin, two.bin; download by hand and put into {tmp_path}:"
    for line, name in zip(lines, ("one.bin", "two.bin"), strict=False):
        assert line.split() == [f"{first.address}{name}", "or", f"{second.address}{name}", "or", f"{third}/{name}"]
    assert "MD5 hash of downloaded file" in message
    assert "404" in message
    assert "refused" in message
    assert isinstance(caught.value, OSError)
    assert not [path for path in tmp_path.iterdir() if path.name in ("one.bin", "two.bin")]


def zipped():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a.bin", CONTENT)
    return content.getvalue()


ZIP = zipped()


def get_zip(folder, *mirrors):
    (path,) = fetch({"a.zip": None}, [mirror.address for mirror in mirrors], folder)
    assert path.read_bytes() == ZIP
    assert sorted(file.name for file in folder.iterdir()) == [".a.zip.lock", "a.zip"]


def test_a_zip_of_unknown_hash_comes_once(tmp_path, mirrors):
    mirrors[0].content = ZIP
    get_zip(tmp_path, mirrors[0])
    get_zip(tmp_path, mirrors[0])
    assert mirrors[0].asked == [0]


@pytest.mark.parametrize("content", [CONTENT, ZIP[:-1], ZIP[:1_000] + b"x" + ZIP[1_001:], b""])
def test_what_is_no_whole_zip_is_refused_and_another_mirror_asked(tmp_path, mirrors, content):
    first, second = mirrors
    first.content, second.content = content, ZIP
    get_zip(tmp_path, first, second)
    assert (first.asked, second.asked) == ([0], [0])


@pytest.mark.parametrize("there", [ZIP, ZIP[:1_000], ZIP[:1_000] + b"x", b"other"])
def test_any_partial_zip_leads_to_the_right_one(tmp_path, mirrors, there):
    mirrors[0].content = ZIP
    (tmp_path / ".a.zip.partial").write_bytes(there)
    get_zip(tmp_path, mirrors[0])
    assert mirrors[0].asked[0] == len(there)


def test_what_is_no_zip_under_the_final_name_is_replaced_once_there_is_one(tmp_path, mirrors):
    (tmp_path / "a.zip").write_bytes(b"something else")
    mirrors[0].answers, mirrors[0].content = [-404] * 3, ZIP
    with pytest.raises(DownloadError) as caught:
        get_zip(tmp_path, mirrors[0])
    assert caught.value.not_found
    assert (tmp_path / "a.zip").read_bytes() == b"something else"
    get_zip(tmp_path, mirrors[0])


def program(folder, mirror):
    call = f"fetch({{'a.bin': {HASH!r}}}, [{mirror.address!r}], Path({str(folder)!r}))"
    code = f"from pathlib import Path; from jattn.datasets._download import fetch; {call}"
    return subprocess.Popen([sys.executable, "-c", code])


@pytest.mark.slow
def test_of_two_processes_at_once_one_downloads(tmp_path, mirrors):
    mirrors[0].pause = threading.Event()
    both = [program(tmp_path, mirrors[0]) for _ in range(2)]
    assert mirrors[0].halfway.wait(20)
    threading.Timer(1.0, mirrors[0].pause.set).start()  # time for the second to come along
    assert [process.wait(20) for process in both] == [0, 0]
    assert mirrors[0].asked == [0]
    get(tmp_path, mirrors[0])


def test_a_killed_process_leaves_what_the_next_goes_on_with(tmp_path, mirrors):
    mirrors[0].pause = threading.Event()
    process = program(tmp_path, mirrors[0])
    assert mirrors[0].halfway.wait(20)
    partial = tmp_path / ".a.bin.partial"
    wait_until(lambda: process.poll() is not None or (partial.exists() and partial.stat().st_size > 0))
    assert process.poll() is None
    process.kill()
    process.wait(timeout=60)
    mirrors[0].pause.set()
    get(tmp_path, mirrors[0])
    assert mirrors[0].asked[1] > 0


def test_the_cache_folder_is_the_user_s(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "jattn"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "jattn"
