"""Cache of machine code on disk; damaged files and files of other machines are ignored.

Machine code runs with the rights of the user, so it is read only from a file and a folder that the
user owns and no other user can write to.

A folder that cannot be read or written, or a damaged file, costs a compilation, never an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.compiled.listeners import report_not_saved
from perfatlas.files import atomic_file, user_folder
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_WAIT_S: Final = 60.0  # for another process that compiles the same; it may be stopped
ASKED_EVERY_S: Final = 0.05
KEPT: Final = 256  # files per folder; the least recently used are deleted


class MachineCode(NamedTuple):
    """An object file in memory."""

    name: str  # Name of the function it defines
    symbols: tuple[str, ...]  # Functions of the process that it calls
    code: bytes  # The file's bytes


def unit_folder() -> Path:
    """Return the cache folder: in $NUMBA_CACHE_DIR, otherwise in the user's cache folder."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) / "perfatlas" if chosen else user_folder("cache") / "compiled"


def read_unit(key: str) -> MachineCode | None:
    """Return the machine code stored under a key, None if it is missing, damaged or not private."""
    try:
        path = unit_folder() / f"{key}.unit"
        with path.open("rb") as file:
            if not (_is_private(path.parent.stat()) and _is_private(os.fstat(file.fileno()))):
                return None
            head, _, code = file.read().partition(b"\n")
        header = json.loads(head)
        unit = MachineCode(str(header["name"]), tuple(map(str, header["symbols"])), code)
        if header["digest"] == _digest(key, unit):
            with suppress(OSError):
                os.utime(path)
            return unit
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _is_private(status: os.stat_result) -> bool:
    """Return whether the user owns a file or folder, and no other user can write to it."""
    owner = os.getuid() if hasattr(os, "getuid") else status.st_uid
    return status.st_uid == owner and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _digest(key: str, unit: MachineCode) -> str:
    """Return a digest of a unit and its key."""
    named = json.dumps([key, unit.name, unit.symbols]).encode()
    return hashlib.sha256(named + b"\n" + unit.code).hexdigest()


def write_unit(key: str, unit: MachineCode) -> None:
    """Store machine code under a key, where possible."""
    folder = unit_folder()
    header = {
        "name": unit.name,
        "symbols": unit.symbols,
        "digest": _digest(key, unit),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_private(folder.stat()):
            folder.chmod(0o700)  # fails in a folder of another user
        (folder / f"{key}.unit").unlink(missing_ok=True)  # its mode would stay
        with atomic_file(folder / f"{key}.unit") as scratch:
            scratch.write_bytes(json.dumps(header).encode() + b"\n" + unit.code)
            scratch.chmod(0o600)
    except (OSError, InvalidSpecError) as problem:
        report_not_saved(str(folder), getattr(problem, "strerror", None) or str(problem))
        return
    with suppress(OSError):
        _drop_oldest(folder)


@contextmanager
def one_at_a_time(key: str) -> Iterator[None]:
    """Run the block in one process of the machine at a time: the next one finds what it kept.

    Where files cannot be locked, or another process takes too long, both run it.
    """
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock

        folder = unit_folder()
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f"{key}.lock").open("wb")
    except (ImportError, OSError, InvalidSpecError):
        yield
        return
    with file:
        until = time.monotonic() + MAX_WAIT_S
        while time.monotonic() < until:
            try:
                flock(file, LOCK_EX | LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(ASKED_EVERY_S)
            except OSError:
                break
        try:
            yield
        finally:
            with suppress(OSError):
                Path(file.name).unlink(missing_ok=True)


def _drop_oldest(folder: Path) -> None:
    """Delete all but the most recently used files of a folder."""
    by_age = sorted(folder.glob("*.unit"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in by_age[KEPT:]:
        path.unlink(missing_ok=True)
