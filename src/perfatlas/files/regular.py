"""What is at a path: a regular file, a folder or nothing; refusal of inputs that are not files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from perfatlas.quantities import InvalidSpecError

_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


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
