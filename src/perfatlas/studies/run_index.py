"""The index of runs: one SQLite table in the folder of all runs.

The run folders are the truth and the index only saves reading them all: it is brought up to date
with them when it is read, and made again from them when it is missing.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import make_folder
from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.studies.run_folder import RunFolder, all_runs, runs_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS: Final = ("id", "name", "command", "created", "points", "blocks", "state", "error")
WAIT_S: Final = 30.0  # for another process's transaction
_CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, name TEXT, command TEXT, created TEXT,"
    " points INTEGER, blocks INTEGER, state TEXT, error TEXT)"
)
_PUT: Final = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_CREATE_STAMPS: Final = "CREATE TABLE IF NOT EXISTS stamps (id TEXT PRIMARY KEY, stamp TEXT)"
_PUT_STAMP: Final = "INSERT OR REPLACE INTO stamps VALUES (?, ?)"


def index_path() -> Path:
    """Return the file of the index."""
    return runs_folder() / "index.sqlite"


def put_run(run: RunFolder) -> None:
    """Add a run to the index, or renew its row.

    Raises:
        InvalidSpecError: The index cannot be written.
    """
    with _opened() as index:
        _write_row(index, run)


def drop_run(run: RunFolder) -> None:
    """Remove a run from the index.

    Args:
        run: The run, whose folder may be gone.

    Raises:
        InvalidSpecError: The index cannot be written.
    """
    with _opened() as index:
        _drop(index, run.id)


def indexed_runs() -> list[dict[str, Any]]:
    """Return the rows of all runs, the latest first.

    Rows of complete runs come from the index while their files are unchanged; others, and those
    of folders that the index does not know, are read from the folders.

    Raises:
        InvalidSpecError: The index cannot be read or written.
    """
    runs = {run.id: run for run in all_runs()}
    if not runs and not index_path().exists():
        return []
    with _opened() as index:
        rows = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in _all(index)}
        for gone in rows.keys() - runs.keys():
            _drop(index, gone)
        stamps = dict(index.execute("SELECT id, stamp FROM stamps").fetchall())
        for name, run in runs.items():
            is_complete = rows.get(name, {}).get("state") == "complete"
            if not is_complete or stamps.get(name) != run.stamp():
                rows[name] = _write_row(index, run)
    ordered = [rows[name] for name in runs]
    return sorted(ordered, key=lambda row: (row["created"], row["id"]), reverse=True)


def _write_row(index: sqlite3.Connection, run: RunFolder) -> dict[str, Any]:
    """Write the row of a run, from its folder, and return it."""
    stamp, row = run.stamp(), _row(run)
    index.execute(_PUT, [row[name] for name in COLUMNS])
    index.execute(_PUT_STAMP, [run.id, stamp])
    return row


def _drop(index: sqlite3.Connection, name: str) -> None:
    """Delete the row of a run."""
    index.execute("DELETE FROM runs WHERE id = ?", [name])
    index.execute("DELETE FROM stamps WHERE id = ?", [name])


def _all(index: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return index.execute(f"SELECT {', '.join(COLUMNS)} FROM runs").fetchall()  # noqa: S608 - ours


def _row(run: RunFolder) -> dict[str, Any]:
    """Return the row of a run, from its folder."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "") | {"id": run.id, "points": 0, "blocks": 0}
    try:
        described = run.describe()
        row |= {
            name: described[name] for name in ("name", "command", "created", "points", "blocks")
        }
        complete = run.summary() is not None
    except PerfatlasError as problem:
        return row | {"state": "damaged", "error": str(problem)}
    state = "complete" if complete else "running" if run.is_running() else "interrupted"
    return row | {"state": state}


@contextlib.contextmanager
def _opened() -> Iterator[sqlite3.Connection]:
    """Yield the index inside one transaction; a damaged one is made again."""
    path = index_path()
    make_folder(path.parent)
    try:
        index = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    except sqlite3.Error as problem:
        raise InvalidSpecError(f"cannot open the index of runs '{path}': {problem}") from problem
    with contextlib.closing(index):
        try:
            index.execute("BEGIN IMMEDIATE")
            index.execute(_CREATE)
            index.execute(_CREATE_STAMPS)
            _all(index)  # a table with other columns is refused here
            yield index
            index.execute("COMMIT")
        except sqlite3.DatabaseError as problem:
            raise InvalidSpecError(
                f"cannot read or write the index of runs '{path}': {problem}; if the disk is not"
                " full, delete this file: it is made again from the run folders"
            ) from problem
