"""The folder of downloads, superpixels and compiled programs."""

import os
import tempfile
import warnings
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache folder for jattn: `$XDG_CACHE_HOME/jattn`, or `~/.cache/jattn`. It may not exist yet.

    If the user has no home folder or can't write to it, as in many containers, a private folder in the temporary folder
    is used, with a warning.

    Raises:
      PermissionError: the folder in the temporary folder belongs to another user.
    """
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "jattn"
    try:
        folder = Path.home() / ".cache" / "jattn"
        if folder.exists() or os.access(next(path for path in folder.parents if path.exists()), os.W_OK):
            return folder
        why = f"{folder} can't be made"
    except (RuntimeError, OSError) as error:  # HOME is not set and the user has no name, or can't be read
        why = f"there is no home folder ({error})"
    return _temporary_folder(why)


def _temporary_folder(why: str) -> Path:
    user = os.getuid() if hasattr(os, "getuid") else 0  # on Windows each user has a temporary folder
    folder = Path(tempfile.gettempdir()) / f"jattn-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != user:  # who could put compiled programs there
        raise PermissionError(f"{folder} belongs to another user; set XDG_CACHE_HOME to a folder for downloads")
    warnings.warn(f"{why}: caches go to {folder}; set XDG_CACHE_HOME to choose a folder", stacklevel=1)
    return folder
