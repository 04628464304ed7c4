"""Data sets of the TU collection (Morris et al. 2020) by name, or others in its format; cached as arrays."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jattn.datasets._array_cache import cached_arrays
from jattn.datasets._cache_folder import cache_folder
from jattn.datasets._download import DownloadError, fetch
from jattn.datasets._tu import TUData, read_tu, sources

ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets/"
NAMES = "https://chrsmrrs.github.io/datasets/"  # where they are listed
VERSION = 1  # of cached files: raise it when the same text gives other arrays


def tu_data(source: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None = None) -> TUData:
    """Reads a data set of the TU collection, or one in its format.

    The arrays are cached in the user's cache folder, under a hash of the source, and read from there the next time.
    Warnings about the text are given the first time only.

    Args:
      source: a name in the collection, such as "PROTEINS", "COLLAB" or "DD"; or the path of a zip or folder, as for
        `read_tu`. A source that ends in `.zip` or has a separator is a path: write `./NAME` for a folder NAME here.
      data_dir: folder in which to look for a name: it holds `NAME.zip`, the text files, or a folder NAME with either.
        Default: the zip is downloaded once, into the user's cache folder.

    Raises:
      FileNotFoundError: the file does not exist, or `data_dir` has no such data set.
      DownloadError: the zip can't be downloaded.
      ValueError: a file breaks the format; the message names the file and the line.

    >>> len(tu_data("PROTEINS").n_node)  # doctest: +SKIP
    1113
    """
    if not isinstance(source, str) or not _is_name(source):
        return _cached(Path(source))
    if data_dir is None:
        return _cached(_downloaded(source), source)
    folder = Path(data_dir)
    try:
        inside = [place for place in (folder / f"{source}.zip", folder / source) if place.exists()]
        return _cached(inside[0] if inside else folder, source)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; {source} is at {ADDRESS}{source}.zip") from error


def _is_name(source: str) -> bool:
    return re.fullmatch(r"\w[\w.+-]*", source) is not None and not source.lower().endswith(".zip")


def _downloaded(name: str) -> Path:
    try:
        (archive,) = fetch({f"{name}.zip": None}, [ADDRESS], _folder())
    except DownloadError as error:
        hints = [f"{name} may not be in the collection, which is listed at {NAMES}"] if error.not_found else []
        hints += _files_here(name)
        if not hints:
            raise
        raise DownloadError("\n".join([str(error), *hints])) from error
    return archive


def _files_here(name: str) -> list[str]:
    """How to read files and folders of the current folder that seem to be the data set."""
    hints = []
    for path in sorted(Path.cwd().iterdir()):
        if path.name.lower() == name.lower() or path.name.lower().startswith(f"{name.lower()}."):
            readable = path.is_dir() or path.suffix.lower() == ".zip"
            remedy = f"give ./{path.name} to read it" if readable else "unpack it and give the path of its folder"
            hints.append(f"{path} exists: {remedy}")
    return hints


def _cached(path: Path, name: str | None = None) -> TUData:
    """The data set that `read_tu` reads, from cached arrays if the same source was read before."""
    stem, files = sources(path, name)

    def make() -> dict[str, np.ndarray]:
        arrays = read_tu(path, name)._asdict()
        return {field: array for field, array in arrays.items() if isinstance(array, np.ndarray)}

    arrays = cached_arrays(_folder() / f"{stem}-{_key(stem, files)}.npz", "its arrays", make, _check)
    return TUData._make([stem, *(arrays.get(field) for field in TUData._fields[1:])])


def _folder() -> Path:
    return cache_folder() / "tu"


def _key(name: str, files: list[Path]) -> str:
    """A hash of the version and of all files that are read."""
    key = hashlib.sha256(f"{VERSION} {name}".encode())
    for file in files:
        with file.open("rb") as stream:
            key.update(file.name.encode() + hashlib.file_digest(stream, "sha256").digest())
    return key.hexdigest()[:32]


def _check(arrays: Mapping[str, np.ndarray]) -> None:
    edges, graphs, nodes = len(arrays["senders"]), len(arrays["n_node"]), int(arrays["n_node"].sum())
    rows = {
        "senders": edges,
        "receivers": edges,
        "n_node": graphs,
        "graph_labels": graphs,
        "graph_attributes": graphs,
        "node_labels": nodes,
        "node_attributes": nodes,
    }
    shapes = {name: array.shape for name, array in arrays.items()}
    if "receivers" not in arrays or any(shape[:1] != (rows[name],) for name, shape in shapes.items()):
        raise ValueError(f"its arrays have shapes {shapes}")
