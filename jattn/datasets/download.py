"""Downloading files into a folder: from one of several mirrors, resumed where it was cut, checked to be whole."""

import functools
import os
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pooch
import requests
from filelock import FileLock
from tqdm import tqdm

_WAITS = (0, 1, 4)  # seconds before each round of attempts
_TIMEOUT = (10, 30)  # seconds until a server answers a connection, and until it sends more
_PIECE = 1 << 16  # bytes


class DownloadError(OSError):
    """Files could not be downloaded; the message names them, the folder they belong in and all addresses.

    Attributes:
      not_found: whether a server said that it has no such file.
    """

    not_found = False


def cache_folder() -> Path:
    """The user's cache folder of jattn: `$XDG_CACHE_HOME/jattn`, or `~/.cache/jattn`. It need not exist.

    For a user who has no home, or can't write there, as many in containers: a folder of that user alone in the
    temporary folder, with a warning.

    Raises:
      PermissionError: that is another user's.
    """
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "jattn"
    try:
        folder = Path.home() / ".cache" / "jattn"
        if folder.exists() or os.access(next(path for path in folder.parents if path.exists()), os.W_OK):
            return folder
        why = f"{folder} can't be made"
    except (RuntimeError, OSError) as error:  # HOME is not set and the user has no name, or is nobody's to look into
        why = f"there is no home folder ({error})"
    return _temporary_folder(why)


def _temporary_folder(why: str) -> Path:
    user = os.getuid() if hasattr(os, "getuid") else 0  # elsewhere each user has another temporary folder
    folder = Path(tempfile.gettempdir()) / f"jattn-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != user:  # who could put programs there that this one would run
        raise PermissionError(f"{folder} belongs to another user; set XDG_CACHE_HOME to a folder for downloads")
    warnings.warn(f"{why}: what is kept goes to {folder}; set XDG_CACHE_HOME to choose a folder", stacklevel=1)
    return folder


def fetch(hashes: Mapping[str, str | None], mirrors: Sequence[str], folder: Path) -> list[Path]:
    """Downloads those files that a folder lacks, with a progress bar where standard error is a terminal.

    A file appears under its name only when it is whole. Until then it grows as `.NAME.partial`, which the next attempt,
    the next mirror and the next run go on with. Of several processes that want it, one downloads it.

    Args:
      hashes: the files' names, and of each "md5:" or "sha256:" and the digest; None for a zip whose hash isn't known,
        which is taken where the sums in it are right.
      mirrors: addresses of folders that hold them, in the order in which to try them.
      folder: made where it does not exist.

    Returns:
      The files' paths, in order.

    Raises:
      DownloadError: no mirror gave a file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, known_hash in hashes.items():
        if _is_whole(folder / name, known_hash):
            continue
        with FileLock(folder / f".{name}.lock"):
            failures = _fetch_one(name, known_hash, mirrors, folder)
        if not _is_whole(folder / name, known_hash):
            missing = [name for name, known_hash in hashes.items() if not _is_whole(folder / name, known_hash)]
            error = DownloadError(_help(missing, mirrors, folder, failures))
            error.not_found = any(_is_not_found(failure) for failure in failures.values())
            raise error
    return [folder / name for name in hashes]


def _fetch_one(
    name: str, known_hash: str | None, mirrors: Sequence[str], folder: Path
) -> dict[str, requests.RequestException | ValueError]:
    """Tries the mirrors in rounds until one gives the file; returns what was wrong with each of them, by address."""
    failures: dict[str, requests.RequestException | ValueError] = {}
    if _is_whole(folder / name, known_hash):
        return failures  # another process was quicker
    resume = functools.partial(_resume, folder / f".{name}.partial")
    for wait in _WAITS:
        time.sleep(wait)
        for mirror in mirrors:
            address = _address(mirror, name)
            try:
                if known_hash is None:
                    _retrieve_zip(address, folder / name, resume)
                else:
                    pooch.retrieve(address, known_hash=known_hash, fname=name, path=folder, downloader=resume)
                return {}
            except (requests.RequestException, ValueError) as error:  # a ValueError is a wrong hash or no zip
                failures[address] = error
    return failures


def _retrieve_zip(address: str, file: Path, resume: Callable[[str, str, None], None]) -> None:
    unchecked = file.with_name(f".{file.name}.unchecked")
    try:
        resume(address, str(unchecked), None)
        with zipfile.ZipFile(unchecked) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"{damaged} in the zip is damaged")
        unchecked.replace(file)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"what came is not a zip file, or not all of one, or damaged ({error})") from error
    finally:
        unchecked.unlink(missing_ok=True)


def _resume(partial: Path, address: str, output: str, _: object) -> None:
    """Completes a partial file and moves it to `output`, which is checked there; a wrong one is gone then."""
    start = partial.stat().st_size if partial.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with requests.get(address, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        if response.status_code != requests.codes.requested_range_not_satisfiable:
            response.raise_for_status()
            goes_on = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            _append(response, partial, start if goes_on else 0)
    # Where there are no bytes after those of the partial file, it may be whole already.
    partial.replace(output)


def _append(response: requests.Response, partial: Path, start: int) -> None:
    length = response.headers.get("Content-Length")
    with (
        partial.open("ab" if start else "wb") as file,
        tqdm(
            total=start + int(length) if length else None,
            initial=start,
            desc=partial.name.removeprefix(".").removesuffix(".partial"),
            unit="B",
            unit_scale=True,
            disable=not sys.stderr.isatty(),
        ) as bar,
    ):
        for piece in response.iter_content(_PIECE):
            file.write(piece)
            bar.update(len(piece))
        file.flush()
        os.fsync(file.fileno())  # before it has the name of a whole file


def _is_whole(file: Path, known_hash: str | None) -> bool:
    if known_hash is None:
        # Its list of contents stands at its end, so this is quick. Its contents were checked as it came.
        return zipfile.is_zipfile(file)
    algorithm, _, digest = known_hash.partition(":")
    return file.is_file() and pooch.file_hash(file, algorithm) == digest


def _address(mirror: str, name: str) -> str:
    return f"{mirror.rstrip('/')}/{name}"


def _is_not_found(error: Exception) -> bool:
    response = error.response if isinstance(error, requests.HTTPError) else None
    return response is not None and response.status_code == requests.codes.not_found


def _help(missing: Sequence[str], mirrors: Sequence[str], folder: Path, failures: Mapping[str, Exception]) -> str:
    addresses = [" or ".join(_address(mirror, name) for mirror in mirrors) for name in missing]
    asked = f"can't download {', '.join(missing)}; fetch by hand and put into {folder}:"
    wrong = [f"{address}: {error}" for address, error in failures.items()]
    return "\n  ".join([asked, *addresses, "what went wrong:", *wrong])
