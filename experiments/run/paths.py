"""Paths that a command is given: ~ is the home; an address, or a folder that can't hold a run, is refused at once."""

import re
from contextlib import suppress
from pathlib import Path

ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:")  # as gs:, which pathlib leaves of gs://
UNFIT = re.compile(r"[\[\\]|^//")  # what orbax does not take as a part of a name


def local_path(name: str, path: Path) -> Path:
    """A path on a disk, with ~ in it replaced.

    Args:
      name: of the setting, for errors.
      path: as it was given.

    Raises:
      ValueError: it is an address, as of a bucket, or the home of a user who has none.
    """
    if len(path.parts) > 1 and ADDRESS.fullmatch(path.parts[0]):
        raise ValueError(f"{name}: {path} is an address, expected a path; copy the files to a disk, or mount it")
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{name}: {path}: {error}") from error


def run_folder(name: str, path: Path) -> Path:
    """`local_path` of a folder that can hold runs; nothing is made there.

    Raises:
      ValueError: also if it or a folder above it is a file, or its path has characters that checkpoints can't have.
    """
    path = local_path(name, path)
    whole = str(path.absolute())
    try:
        whole.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: {whole!a} is not UTF-8; choose another folder, or set PYTHONUTF8=1") from error
    if found := UNFIT.search(whole):
        raise ValueError(f"{name}: {found[0]} is not allowed in the path of a run, {whole}; choose another folder")
    for part in (path, *path.parents):
        with suppress(OSError):  # as of a folder that may not be read
            if part.exists() and not part.is_dir():
                raise ValueError(f"{name}: {part} is a file, expected a folder; choose another one")
    return path
