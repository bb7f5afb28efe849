"""What is at a path: files, folders, those of the user, and hashes of contents."""

from __future__ import annotations

import hashlib
import os
import stat
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
_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def content_hash(content: str | bytes) -> str:
    """Return "sha256:" and the hex digest of a text (as UTF-8) or bytes.

    Example:
        >>> from perfatlas.files import content_hash
        >>> content_hash("tp = 8")[:15]
        'sha256:adebcf64'
    """
    data = content.encode() if isinstance(content, str) else content
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def file_hash(path: str | Path) -> str:
    """Return "sha256:" and the hex digest of a file, read in chunks."""
    check_regular(path)
    with Path(path).open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


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


def is_file(path: str | Path) -> bool:
    """Return whether a regular file is at a path; False for a path that no file can have.

    `Path.is_file` raises for a name that is too long and for a folder that may not be read.

    Args:
        path: Any text.

    Example:
        >>> from perfatlas.files import is_file
        >>> is_file("a" * 300), is_file("/dev/null")
        (False, False)
    """
    return os.path.isfile(path)  # noqa: PTH113 - it does not raise


def exists(path: str | Path) -> bool:
    """Return whether anything is at a path; False for a path that no file can have.

    Args:
        path: Any text.

    Example:
        >>> from perfatlas.files import exists
        >>> exists("a" * 300), exists("/dev/null")
        (False, True)
    """
    return os.path.exists(path)  # noqa: PTH110 - it does not raise


def check_regular(path: str | Path, what: str = "file", *, once: bool = False) -> None:
    """Refuse an input that is a pipe, a device, a socket or a folder, before it is opened.

    Inputs are read more than once (for their hash, and tables for their columns), and a device may
    never end.

    Args:
        path: The input; one that does not exist passes, since opening it raises its own error.
        what: Noun for the message: table, trace.
        once: Whether it is read once, from start to end, as pipes may be.

    Raises:
        InvalidSpecError: It is not a regular file, or its name cannot be that of a file.

    Example:
        >>> from perfatlas.files import check_regular
        >>> check_regular("/dev/null", "table")
        Traceback (most recent call last):
        perfatlas.quantities.errors.InvalidSpecError: table '/dev/null' is a device, not a regular \
file: files are read more than once, so save the data to a file and give its path
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return
    for is_kind, kind in _KINDS:
        if is_kind(mode) and not (once and kind == "a pipe"):
            remedy = (
                "give the path of a file in it"
                if kind == "a folder"
                else "files are read more than once, so save the data to a file and give its path"
            )
            raise InvalidSpecError(f"{what} '{path}' is {kind}, not a regular file: {remedy}")
