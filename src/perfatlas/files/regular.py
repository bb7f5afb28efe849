"""Refusal of inputs that are not regular files."""

from __future__ import annotations

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


def check_regular(path: str | Path, what: str = "file") -> None:
    """Refuse an input that is a pipe, a device, a socket or a folder, before it is opened.

    Inputs are read more than once (for their hash, and tables for their columns), and a device may
    never end.

    Args:
        path: The input; one that does not exist passes, since opening it raises its own error.
        what: Noun for the message: table, trace.

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
        if is_kind(mode):
            remedy = (
                "give the path of a file in it"
                if kind == "a folder"
                else "files are read more than once, so save the data to a file and give its path"
            )
            raise InvalidSpecError(f"{what} '{path}' is {kind}, not a regular file: {remedy}")
