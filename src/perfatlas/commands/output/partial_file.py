"""The partial file of a table run: answers written in blocks, from which a later run goes on.

The first line describes the run; each further line has the answers of some rows, and columns of
numbers follow it as arrays, as do the codes of columns of few values. What was not written
completely is dropped.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from perfatlas.files import DictionaryCells, NumberCells, joined_dictionaries
from perfatlas.quantities import InvalidSpecError, UsageError, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

SUFFIX: Final = ".partial"
_BYTES: Final = "bytes"  # of a column of numbers: the size of its array behind the line
_KIND: Final = "kind"
_VALUES: Final = "values"  # of a column of few values, whose codes are the array
_KINDS: Final[dict[str, type]] = {"float": float, "int": int, "bool": bool}
WRITTEN_EVERY_S: Final = 1.0  # seconds of answers that a killed process loses at most, if by row


class PartialFile:
    """Answers of the first rows of a table, in a file beside the output.

    Attributes:
        path: The file.
        rows: Rows answered so far.
        resumed: Rows among them that an earlier run answered.
        failed: Rows with an error.
        first_error: The first of these errors with the number of its row, "" if there is none.
        bounds: Rows whose tier is bound.
        names: Columns of the answers, in order of appearance.
        file_hashes: Hashes of the files that cells of these rows name.
    """

    def __init__(self, output: Path, run: Mapping[str, Any], *, resume: bool) -> None:
        """Create the file, or continue that of an interrupted run."""
        self.path = Path(f"{output}{SUFFIX}")
        self.rows = self.resumed = self.failed = self.bounds = 0
        self.first_error = ""
        self.names: dict[str, None] = {}
        self.file_hashes: dict[str, str] = {}
        self._written_hashes = 0
        self._run: dict[str, Any] = json.loads(json.dumps(run, default=str))
        self._waiting: list[tuple[int, Mapping[str, Sequence[Any]]]] = []
        self._written = time.monotonic()
        try:
            self._file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        except OSError as problem:
            raise InvalidSpecError(
                f"cannot write '{self.path}': {problem.strerror}; answers are kept there until the"
                " table is finished"
            ) from problem
        try:
            self._begin(resume=resume)
        except BaseException:
            self._file.close()
            raise

    def _begin(self, *, resume: bool) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidSpecError(
                f"another process is writing '{self.path}': wait for it, or set another --output"
            ) from None
        before = self._described()
        for rows, answers in self._lines():
            self._count(rows, answers)
        if before is not None and self.rows:
            self._check(before, resume=resume)
            self._file.truncate(self._file.tell())
            self.resumed = self.rows
            self._written_hashes = len(self.file_hashes)
            return
        if os.fstat(self._file.fileno()).st_size and before is None:
            raise InvalidSpecError(
                f"'{self.path}' is not a partial file of a table run, which would replace it: move"
                " it, or set another --output"
            )
        self._file.seek(0)
        self._file.truncate()
        self._append({"table_run": self._run})

    def _described(self) -> dict[str, Any] | None:
        """Return what the first line says about its run, None if it is no partial file."""
        try:
            run = json.loads(self._file.readline(1 << 24))["table_run"]
        except (ValueError, KeyError, TypeError):
            return None
        return run if isinstance(run, dict) else None

    def _check(self, before: Mapping[str, Any], *, resume: bool) -> None:
        delete = f"delete '{self.path}' to start from the first row"
        names = [name for name in self._run if before.get(name) != self._run[name]]
        if names:
            raise InvalidSpecError(
                f"'{self.path}' has {counted(self.rows, 'row')} of a run that differs in"
                f" {' and in '.join(names)}: go on as that run began, set another --output, or"
                f" {delete}"
            )
        if not resume:
            raise UsageError(
                f"'{self.path}' has {counted(self.rows, 'answered row')} of an interrupted run: add"
                f" --resume to continue after them, or {delete}"
            )

    def add(self, rows: int, answers: Mapping[str, Sequence[Any]]) -> None:
        """Append the answers of the next rows; they are written at most a second later.

        Args:
            answers: Cells by column; a float that is not finite becomes null.

        Raises:
            InvalidSpecError: The file cannot be written, for example because the disk is full.
        """
        self._waiting.append((rows, answers))
        if time.monotonic() - self._written >= WRITTEN_EVERY_S:
            self.write()

    def write(self) -> None:
        """Write the answers that wait.

        Raises:
            InvalidSpecError: The file cannot be written; complete lines are kept.
        """
        waiting, self._waiting = self._waiting, []
        if waiting:
            rows = sum(count for count, _ in waiting)
            answers = {n: _as_numbers(cells) for n, cells in joined_columns(waiting).items()}
            hashes = dict(list(self.file_hashes.items())[self._written_hashes :])
            self._append({"rows": rows, "answers": answers, "file_hashes": hashes})
            self._written_hashes = len(self.file_hashes)
            self._count(rows, answers)
        self._written = time.monotonic()

    def _count(self, rows: int, answers: Mapping[str, Sequence[Any]]) -> None:
        if not self.first_error:
            errors = answers.get("error", ())
            first = next(iter(_rows_where(errors, bool)), None)
            self.first_error = (
                "" if first is None else f"row {self.rows + 1 + first}: {errors[first]}"
            )
        self.rows += rows
        self.names |= dict.fromkeys(answers)
        self.failed += len(_rows_where(answers.get("error_code", ()), bool))
        self.bounds += len(_rows_where(answers.get("tier", ()), lambda tier: tier == "bound"))

    def blocks(self, size: int) -> Iterator[dict[str, Sequence[Any]]]:
        """Yield the answers in order of rows, `size` rows at a time.

        Args:
            size: Rows per block; the last one may have fewer.
        """
        self._file.seek(0)
        self._file.readline()
        pending: list[tuple[int, Mapping[str, Sequence[Any]]]] = []
        count = 0
        for part in self._lines():
            pending.append(part)
            count += part[0]
            while count >= size:
                columns = joined_columns(pending)
                yield {name: cells[:size] for name, cells in columns.items()}
                count -= size
                pending = [(count, {name: cells[size:] for name, cells in columns.items()})]
        if count:
            yield joined_columns(pending)

    def _lines(self) -> Iterator[tuple[int, dict[str, Sequence[Any]]]]:
        """Yield rows and answers of the complete lines, and stay behind the last one."""
        while True:
            index = self._file.tell()
            line = self._file.readline()
            try:
                block = json.loads(line) if line.endswith(b"\n") else {}
                part = int(block["rows"]), self._with_arrays(block["answers"])
                self.file_hashes |= block["file_hashes"]
            except (ValueError, KeyError, TypeError):
                self._file.seek(index)
                return
            yield part

    def _with_arrays(self, answers: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
        """Return the columns of a line; the bytes of arrays follow it in their order."""
        columns: dict[str, Sequence[Any]] = {}
        for name, cells in answers.items():
            if isinstance(cells, list):
                columns[name] = cells
                continue
            data = self._file.read(int(cells[_BYTES]))
            if len(data) < cells[_BYTES]:
                raise ValueError(name)
            if _VALUES in cells:
                codes_N = np.frombuffer(data, "<i4")
                columns[name] = DictionaryCells(values=tuple(cells[_VALUES]), codes_N=codes_N)
                continue
            kind = _KINDS[cells[_KIND]]
            columns[name] = NumberCells(values_N=np.frombuffer(data, "<f8"), kind=kind)
        return columns

    def _append(self, line: Mapping[str, Any]) -> None:
        arrays: list[bytes] = []

        def described(cells: object) -> object:
            if isinstance(cells, DictionaryCells):
                arrays.append(cells.codes_N.astype("<i4").tobytes())
                return {_BYTES: len(arrays[-1]), _VALUES: cells.values}
            if not isinstance(cells, NumberCells):
                return _plain(cells)
            arrays.append(cells.values_N.astype("<f8").tobytes())
            return {_BYTES: len(arrays[-1]), _KIND: cells.kind.__name__}

        try:
            text = json.dumps(line, default=described, allow_nan=False)
            self._file.write(text.encode() + b"\n" + b"".join(arrays))
            self._file.flush()
        except OSError as problem:
            raise InvalidSpecError(
                f"cannot write '{self.path}': {problem.strerror}{self.kept_text()}"
            ) from problem

    def kept_text(self) -> str:
        """Return what the file has and how to go on, "" if it has nothing."""
        if not self.rows:
            return ""
        return (
            f"; {counted(self.rows, 'answered row')} kept in '{self.path}': the same command with"
            " --resume continues after them"
        )

    def __enter__(self) -> Self:
        """Return the file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the file if the run is finished or nothing was answered, else keep it."""
        if kind is not None:
            with contextlib.suppress(InvalidSpecError):  # the disk may be full
                self.write()
        if kind is None or not self.rows:
            self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._file.close()


def joined_columns(
    parts: Sequence[tuple[int, Mapping[str, Sequence[Any]]]],
) -> dict[str, Sequence[Any]]:
    """Return columns of all rows, with None where a part lacks a column.

    A column whose parts are all `NumberCells` of one kind stays one, or all `DictionaryCells`.

    Args:
        parts: Number of rows and cells by column of each.

    Example:
        >>> from perfatlas.commands.output.partial_file import joined_columns
        >>> joined_columns([(1, {"a": [1.0]}), (1, {"b": [float("nan")]})])
        {'a': [1.0, None], 'b': [None, None]}
    """
    names = dict.fromkeys(name for _, columns in parts for name in columns)
    joined: dict[str, Sequence[Any]] = {}
    for name in names:
        cells_of_parts = [columns.get(name, [None] * rows) for rows, columns in parts]
        whole = _one_array(cells_of_parts)
        if whole is not None:
            joined[name] = whole
            continue
        cells = list(itertools.chain.from_iterable(cells_of_parts))
        if float in set(map(type, cells)):
            cells = [None if isinstance(c, float) and not math.isfinite(c) else c for c in cells]
        joined[name] = cells
    return joined


def _rows_where(cells: Sequence[Any], function: Callable[[Any], bool]) -> list[int]:
    """Return the rows whose cell has a property."""
    if isinstance(cells, DictionaryCells):
        rows: list[int] = np.flatnonzero(cells.where(function)).tolist()
        return rows
    return [row for row, cell in enumerate(cells) if function(cell)]


def _one_array(parts: Sequence[Sequence[Any]]) -> NumberCells | DictionaryCells | None:
    """Return the parts of a column as one if all are arrays of one kind, else None."""
    coded = [part for part in parts if isinstance(part, DictionaryCells)]
    if len(coded) == len(parts):
        return joined_dictionaries(coded)
    arrays = [part for part in parts if isinstance(part, NumberCells)]
    if len(arrays) < len(parts) or len({part.kind for part in arrays}) != 1:
        return None
    if len(arrays) == 1:
        return arrays[0]
    values = np.concatenate([part.values_N for part in arrays])
    return NumberCells(values_N=values, kind=arrays[0].kind)


def _as_numbers(cells: Sequence[Any]) -> Sequence[Any]:
    """Return cells as an array if they are floats, or floats and None, which needs no text."""
    kinds = set() if isinstance(cells, (NumberCells, DictionaryCells)) else set(map(type, cells))
    if float not in kinds or not kinds <= {float, type(None)}:
        return cells
    return NumberCells(values_N=np.array(cells, np.float64))


def _plain(cell: Any) -> object:  # noqa: ANN401 - a cell that JSON has no form for
    """Return a numpy number as a plain one, anything else as text."""
    return cell.item() if hasattr(cell, "item") else str(cell)
