"""Paths on the command line: ~ is replaced; addresses and folders that can't hold a run are refused at once."""

import re
from contextlib import suppress
from pathlib import Path

ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:")  # such as gs:, to which pathlib shortens gs://
UNFIT = re.compile(r"[\[\\]|^//")  # characters that orbax does not allow in a path


def local_path(name: str, path: Path) -> Path:
    """A path on a disk, with ~ replaced.

    Args:
      name: the name of the setting, for errors.
      path: the path from the command line.

    Raises:
      ValueError: it is an address, as of a bucket, or the home of a user without one.
    """
    if len(path.parts) > 1 and ADDRESS.fullmatch(path.parts[0]):
        raise ValueError(f"{name}: {path} is an address, expected a path; copy the files to a disk, or mount it")
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{name}: {path}: {error}") from error


def run_folder(name: str, path: Path) -> Path:
    """`local_path` of a folder that can hold runs; it is not created.

    Raises:
      ValueError: as `local_path`, or it or a folder above it is a file, or its path has characters that checkpoints
        can't have.
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
        with suppress(OSError):  # such as a folder that may not be read
            if part.exists() and not part.is_dir():
                raise ValueError(f"{name}: {part} is a file, expected a folder; choose another one")
    return path
