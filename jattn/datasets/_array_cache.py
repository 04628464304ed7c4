"""Files of arrays that take long to compute; a damaged file is replaced."""

import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from jattn.io import write_arrays


def cached_arrays(
    file: Path,
    what: str,
    make: Callable[[], Mapping[str, np.ndarray]],
    check: Callable[[Mapping[str, np.ndarray]], None],
) -> Mapping[str, np.ndarray]:
    """The arrays in an npz file; if there is no such file, they are made and written to it.

    Runs that start at once all make the arrays, and the last file stays. A warning says why a file can't be used.

    Args:
      file: the file; its name has a hash of everything that determines the arrays.
      what: name of the arrays, in the plural, for warnings.
      make: makes the arrays.
      check: raises `ValueError` or `KeyError` if the arrays of a file are not valid.
    """
    if file.exists():
        try:
            arrays = _read(file)
            check(arrays)
            return arrays
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            warnings.warn(f"{file} is damaged ({error}); it is made again", stacklevel=3)
    made = make()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(file, made)
    except OSError as error:
        warnings.warn(f"{file} can't be written ({error.strerror}); {what} are not kept", stacklevel=3)
    return made


def _read(file: Path) -> dict[str, np.ndarray]:
    # If numpy opens a damaged file itself, it leaves it open.
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return dict(arrays)
