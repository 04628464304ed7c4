"""Downloads of files into a folder, with checks that they are complete.

pooch checks hashes. What it lacks is here: mirrors, since those of MNIST come and go; resumed transfers, since zips of
the TU collection have up to hundreds of megabytes and a single, slow server; and zips of unknown hash.
"""

import functools
import os
import sys
import time
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
_PIECE = 1 << 16  # bytes per write


class DownloadError(OSError):
    """Files could not be downloaded; the message names them, their folder and all addresses.

    Attributes:
      not_found: whether a server answered that it does not have the file.
    """

    not_found = False


def fetch(hashes: Mapping[str, str | None], mirrors: Sequence[str], folder: Path) -> list[Path]:
    """Downloads the files that are missing in a folder, with a progress bar if standard error is a terminal.

    A file gets its name when it is complete. Until then it is `.NAME.partial`, which the next attempt, the next mirror
    and the next run resume. If several processes need a file, one of them downloads it.

    Args:
      hashes: for each file name "md5:" or "sha256:" and the digest; None for a zip of unknown hash, for which the
        checksums inside are checked.
      mirrors: addresses of folders that have the files, in the order to try them.
      folder: created if it does not exist.

    Returns:
      Paths of the files, in order.

    Raises:
      DownloadError: no mirror had a file.
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
    """Tries all mirrors in rounds until one has the file; returns the error of each, by address."""
    failures: dict[str, requests.RequestException | ValueError] = {}
    if _is_whole(folder / name, known_hash):
        return failures  # another process has downloaded it
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
            except (requests.RequestException, ValueError) as error:  # ValueError: a wrong hash, or not a zip
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
        raise ValueError(f"the downloaded file is not a zip file, or is incomplete or damaged ({error})") from error
    finally:
        unchecked.unlink(missing_ok=True)


def _resume(partial: Path, address: str, output: str, _: object) -> None:
    """Completes a partial file and moves it to `output`, so that a wrong file is not resumed."""
    start = partial.stat().st_size if partial.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with requests.get(address, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        if response.status_code != requests.codes.requested_range_not_satisfiable:
            response.raise_for_status()
            is_resumed = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            _append(response, partial, start if is_resumed else 0)
    # If the server has no bytes after those of the partial file, it may be complete.
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
        os.fsync(file.fileno())  # before the file gets its final name


def _is_whole(file: Path, known_hash: str | None) -> bool:
    if known_hash is None:
        # Fast: this looks for the list of contents at the end. The contents were checked after the download.
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
    request = f"can't download {', '.join(missing)}; download by hand and put into {folder}:"
    errors = [f"{address}: {error}" for address, error in failures.items()]
    return "\n  ".join([request, *addresses, "errors:", *errors])
