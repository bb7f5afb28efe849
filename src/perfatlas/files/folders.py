"""Folders of the user's files: XDG folders, or one folder named by PERFATLAS_HOME."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Final, Literal

from perfatlas.quantities import InvalidSpecError

FolderKind = Literal["config", "data", "cache", "state"]
# Variables that determine the folders; perfatlas's own comes first.
VARIABLES: Final = (
    "PERFATLAS_HOME",
    "HOME",
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
)


def user_folder(kind: FolderKind) -> Path:
    """Return the user's folder of a kind, without creating it.

    Args:
        kind: config, data, cache or state, as the XDG base directories name them.

    Returns:
        `$PERFATLAS_HOME/<kind>` if that is set, else the platform's folder for perfatlas.

    Example:
        >>> import os
        >>> from perfatlas.files import user_folder
        >>> os.environ["PERFATLAS_HOME"] = "/srv/atlas"
        >>> user_folder("cache").as_posix()
        '/srv/atlas/cache'
        >>> del os.environ["PERFATLAS_HOME"]
    """
    return _folder(kind, *(os.environ.get(name) for name in VARIABLES))


@cache
def _folder(kind: FolderKind, *variables: str | None) -> Path:
    """Return the folder under the given values of `VARIABLES`; cached, as the lookup is slow."""
    if home := variables[0]:
        return Path(home) / kind
    import platformdirs

    folders = platformdirs.PlatformDirs("perfatlas", appauthor=False)
    path: Path = getattr(folders, f"user_{kind}_path")
    return path


def make_folder(folder: Path) -> None:
    """Create a folder and those above it; one that exists stays.

    Raises:
        InvalidSpecError: It cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidSpecError(
            f"cannot create the folder '{folder}': {problem.strerror}; set {home_variable()} to a"
            " folder that can be written"
        ) from problem


def home_variable() -> str:
    """Return the name of the variable PERFATLAS_HOME, with its value where it is set."""
    home = os.environ.get(VARIABLES[0])
    return f"{VARIABLES[0]} (now '{home}')" if home else VARIABLES[0]
