"""Arrays that take long to make, kept in files: never half-written, and made again where a file is damaged."""

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
    """The arrays in an npz file, which are made and written where it does not exist.

    Of runs that start at once each makes them, and the file of the last one stays. Where the file can't be used a
    warning says why.

    Args:
      file: its name says, by a hash, all that the arrays follow from.
      what: what the arrays are, in the plural, for a warning.
      make: makes the arrays.
      check: raises a ValueError or KeyError for arrays that were read and can't be those.
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
    # numpy leaves a damaged file open where it opens it by itself.
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return dict(arrays)
