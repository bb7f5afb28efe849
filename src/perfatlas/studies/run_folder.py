"""The folder of one run: its study, its answers in blocks, and its summary.

`run.json` describes the run, `study.toml` is the study as written, `blocks` has one Parquet file
per block of points, and `summary.json` is written when all blocks are there. Every file is written
atomically, so that a killed process leaves complete files only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import (
    content_hash,
    file_hash,
    load_arrow,
    make_folder,
    user_folder,
    write_atomic,
    write_blocks,
)
from perfatlas.quantities import (
    InvalidSpecError,
    UnsupportedError,
    UsageError,
    counted,
    did_you_mean,
)
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PACKAGES: Final = ("numpy", "scipy", "numba", "pyarrow")


MAX_PICTURED_POINTS: Final = 200_000  # points of a picture
SCHEMA: Final = 1  # of run.json
DESCRIPTION: Final = "run.json"
SUMMARY: Final = "summary.json"
STUDY: Final = "study.toml"
LOCK: Final = "lock"
NEEDED: Final = ("id", "name", "command", "study", "versions", "points", "block_points", "blocks")
STATS: Final = b"perfatlas.stats"  # metadata of a block: its contribution to the summary, as JSON


@cache
def versions() -> dict[str, str]:
    """Return the versions of perfatlas, Python and the packages that compute and write."""
    packages = {name: version(name) for name in PACKAGES}
    return {"perfatlas": __version__, "python": platform.python_version(), **packages}


@cache
def data_hashes() -> dict[str, str]:
    """Return the hash of each folder of the data of perfatlas, and of its code.

    Example:
        >>> from perfatlas.studies import data_hashes
        >>> data_hashes()["calibrations"][:7]
        'sha256:'
    """
    package = Path(str(resources.files("perfatlas")))
    hashes = {"code": _folder_hash(package, "*.py")}
    for folder in sorted((package / "data").iterdir()):
        if folder.is_dir():
            hashes[folder.name] = _folder_hash(folder, "*")
    return hashes


def _folder_hash(folder: Path, pattern: str) -> str:
    files = sorted(path for path in folder.rglob(pattern) if path.is_file())
    lines = [f"{path.relative_to(folder).as_posix()} {file_hash(path)}" for path in files]
    return content_hash("\n".join(lines))


def file_hashes(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the hashes of the files that texts name; of a folder, of its config.json.

    Args:
        values: Values by name; lists are searched too.
    """
    hashes: dict[str, str] = {}
    for value in values.values():
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if not isinstance(text, str) or len(text) > 4096 or "\0" in text:
                continue
            path = Path(text.partition("{")[0].strip())
            path = path / "config.json" if path.is_dir() else path
            if path.is_file():
                hashes[str(path)] = file_hash(path)
    return hashes


def check_versions(described: Mapping[str, Any]) -> None:
    """Refuse to compute a block of a run that another installation began.

    Raises:
        UnsupportedError: Versions or data differ.
    """
    ours = {"versions": versions(), "data_hashes": data_hashes()}
    for part, values in ours.items():
        names = [name for name in values if described[part].get(name) != values[name]]
        if names:
            theirs = described[part].get(names[0])
            raise UnsupportedError(
                f"the run was begun with {names[0]} {theirs} and this process has"
                f" {values[names[0]]} ({', '.join(names)} differ): install the same versions on all"
                " machines"
            )


def runs_folder() -> Path:
    """Return the folder of all runs: `runs` in the user's data folder."""
    return user_folder("data") / "runs"


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run."""

    path: Path  # The folder; its name is the id of the run

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.path.name

    def create(self, description: Mapping[str, Any], study: str) -> None:
        """Write what is asked; a folder that a killed process has begun is completed.

        Args:
            description: What `describe` returns later, as JSON values.

        Raises:
            InvalidSpecError: The folder cannot be written.
        """
        make_folder(self.path / "blocks")
        if not (self.path / DESCRIPTION).exists():
            write_atomic(self.path / STUDY, study)
            text = json.dumps({"schema": SCHEMA, **description}, indent=1)
            write_atomic(self.path / DESCRIPTION, text)

    def describe(self) -> dict[str, Any]:
        """Return its study, with versions and hashes.

        Raises:
            InvalidSpecError: The description is missing or damaged; the message says what to do.
        """
        path = self.path / DESCRIPTION
        try:
            described = json.loads(path.read_text("utf-8"))
            missing = [name for name in NEEDED if name not in described]
        except (OSError, ValueError, TypeError) as problem:
            reason = getattr(problem, "strerror", None) or "it is not a description in JSON"
            raise self.corrupt(f"{DESCRIPTION} cannot be read ({reason})") from problem
        if missing:
            raise self.corrupt(f"{DESCRIPTION} lacks {', '.join(missing)}")
        if described.get("schema") != SCHEMA:
            raise InvalidSpecError(
                f"run folder '{self.path}' was written by another version of perfatlas"
                f" ({described['versions'].get('perfatlas')}): export it with that version, or"
                f" delete it with `perfatlas runs rm {self.id}`"
            )
        return dict(described)

    def stamp(self) -> str:
        """Return size and time of change of its description and summary, to see later changes."""
        stats = []
        for name in (DESCRIPTION, SUMMARY):
            with contextlib.suppress(OSError):
                status = (self.path / name).stat()
                stats.append(f"{name} {status.st_size} {status.st_mtime_ns}")
        return ", ".join(stats)

    def corrupt(self, what: str, remedy: str = "") -> InvalidSpecError:
        """Return the error of a damaged folder, with what to do.

        Args:
            what: The file and what is wrong with it.
            remedy: What repairs it; by default deleting the run.
        """
        remedy = remedy or f"delete it with `perfatlas runs rm {self.id}` and repeat the sweep"
        return InvalidSpecError(f"run folder '{self.path}' is damaged: {what}; {remedy}")

    def summary(self) -> dict[str, Any] | None:
        """Return the summary of a complete run, None if it is not complete.

        Raises:
            InvalidSpecError: It is damaged.
        """
        path = self.path / SUMMARY
        if not path.exists():
            return None
        try:
            return dict(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, TypeError) as problem:
            raise self.corrupt(
                f"{SUMMARY} cannot be read", f"delete '{path}' and repeat the sweep with --resume"
            ) from problem

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary, which makes the run complete."""
        write_atomic(self.path / SUMMARY, json.dumps(summary, indent=1))

    def block_path(self, number: int) -> Path:
        """Return the file of a block.

        Args:
            number: The block, from 0.
        """
        return self.path / "blocks" / f"{number:06d}.parquet"

    def write_block(self, number: int, content: bytes) -> None:
        """Write the answers of a block atomically.

        Args:
            number: The block, from 0.
            content: A Parquet file.

        Raises:
            InvalidSpecError: The file cannot be written, for example because the disk is full.
        """
        write_atomic(self.block_path(number), content)

    def stats(self, number: int) -> dict[str, Any] | None:
        """Return what a block adds to the summary, None if the block is not there.

        Args:
            number: The block, from 0.

        Raises:
            InvalidSpecError: The block is damaged.
        """
        pa = load_arrow()
        pq = load_arrow("parquet")
        path = self.block_path(number)
        if not path.exists():
            return None
        try:
            metadata = pq.read_schema(path).metadata or {}
            return dict(json.loads(metadata[STATS]))
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as problem:
            raise self.corrupt(
                f"blocks/{path.name} is not a block of this run",
                "repeat the sweep with --resume, which computes this block again",
            ) from problem

    def is_whole(self, number: int) -> bool:
        """Return whether a block is there and every page has its checksum.

        Args:
            number: The block, from 0.
        """
        with contextlib.suppress(InvalidSpecError):
            return self.stats(number) is not None and self.read_block(number) is not None
        return False

    def columns(self) -> dict[str, list[Any]]:
        """Return all rows as columns of plain values, in order of points."""
        blocks = [self.read_block(number) for number in range(self.describe()["blocks"])]
        names = dict.fromkeys(name for block in blocks for name in block.column_names)
        return {
            name: [
                cell
                for block in blocks
                for cell in (
                    block.column(name).to_pylist()
                    if name in block.column_names
                    else [None] * block.num_rows
                )
            ]
            for name in names
        }

    def pictured(self) -> dict[str, list[Any]] | None:
        """Return all rows as columns, None where they are too many for a picture."""
        return self.columns() if self.describe()["points"] <= MAX_PICTURED_POINTS else None

    def read_block(self, number: int) -> Any:  # noqa: ANN401 - an Arrow table
        """Return the columns of a block.

        Args:
            number: The block, from 0.

        Raises:
            InvalidSpecError: The block is missing or damaged.
        """
        pa = load_arrow()
        pq = load_arrow("parquet")
        path = self.block_path(number)
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                return file.read()
        except (pa.ArrowException, OSError) as problem:
            state = "is damaged" if path.exists() else "is missing"
            raise self.corrupt(
                f"blocks/{path.name} {state}",
                "repeat the sweep with --resume, which computes this block again",
            ) from problem

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the run, so that one process at a time writes it.

        Raises:
            UsageError: Another process holds it.
        """
        make_folder(self.path)
        try:
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as problem:
            raise InvalidSpecError(
                f"cannot write the run folder '{self.path}': {problem.strerror}"
            ) from problem
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"another process is writing run {self.id}: wait for it, or end it"
                ) from None
            yield
        finally:
            os.close(descriptor)

    def is_running(self) -> bool:
        """Return whether a process is writing the run."""
        if not (self.path / LOCK).exists():
            return False
        try:
            with self.locked():
                return False
        except UsageError:
            return True

    def remove(self) -> None:
        """Delete the run.

        Raises:
            UsageError: A process is writing it.
        """
        with self.locked():
            shutil.rmtree(self.path, ignore_errors=False)


def all_runs() -> list[RunFolder]:
    """Return the folders of all runs, sorted by id."""
    folder = runs_folder()
    if not folder.is_dir():
        return []
    return [RunFolder(path) for path in sorted(folder.iterdir()) if path.is_dir()]


def find_run(text: str) -> RunFolder:
    """Return the run of an id, of a name, or of a beginning that only one has.

    Raises:
        InvalidSpecError: No run or several have it.
    """
    runs = {run.id: run for run in all_runs()}
    if text in runs:
        return runs[text]
    named = [name for name in runs if name.rpartition("-")[0] == text]
    matches = named or [name for name in runs if text and name.startswith(text)]
    if len(matches) == 1:
        return runs[matches[0]]
    if matches:
        raise InvalidSpecError(
            f"run {text!r}: {counted(len(matches), 'run')} begin with it: {_listed(matches)}"
        )
    hint = did_you_mean(text, runs) or "; `perfatlas runs list` lists all"
    raise InvalidSpecError(f"unknown run {text!r}{hint}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


LAST: Final = ("meets_constraints", "warnings", "error_code", "error")  # columns


def run_blocks(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a complete run as Arrow columns, all with the same columns."""
    pa = load_arrow()
    schema = run_schema(run)
    for number in range(run.describe()["blocks"]):
        table = run.read_block(number)
        names = set(table.column_names)
        yield {
            column.name: table.column(column.name).cast(column.type)
            if column.name in names
            else pa.nulls(table.num_rows, column.type)
            for column in schema
        }


def run_schema(run: RunFolder) -> Any:  # noqa: ANN401 - an Arrow schema
    """Return the columns of a complete run with types that fit all its blocks."""
    pa = load_arrow()
    pq = load_arrow("parquet")
    described = run.describe()
    if run.summary() is None:
        written = sum(run.block_path(number).exists() for number in range(described["blocks"]))
        raise UsageError(
            f"run {run.id} is not complete: {written:,} of {counted(described['blocks'], 'block')};"
            " continue it with `perfatlas sweep STUDY --resume`"
        )
    schemas = []
    for number in range(described["blocks"]):
        if run.stats(number) is None:
            run.read_block(number)  # raises
        schemas.append(pq.read_schema(run.block_path(number)).remove_metadata())
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    order = [name for name in schema.names if name not in LAST]
    return pa.schema([schema.field(name) for name in (*order, *LAST) if name in schema.names])


def export_run(run: RunFolder, path: Path) -> None:
    """Write all rows of a complete run as CSV, Parquet or JSON Lines.

    Args:
        path: The file; its extension selects the format.

    Raises:
        UsageError: The run is not complete.
        InvalidSpecError: A block is damaged, or the file cannot be written.
    """
    run_schema(run)
    write_blocks(path, lambda: run_blocks(run))
