"""Table runs: a file of scenarios in, the same file with answers out, a block of rows at a time."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.commands.output import table_columns
from perfatlas.commands.output.table_validity import invalid_rows, with_invalid
from perfatlas.quantities import InvalidSpecError, PerfatlasError, UsageError, counted, printable
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from perfatlas.commands.flags import OutputFlags
    from perfatlas.commands.output.partial_file import PartialFile
    from perfatlas.commands.output.table_validity import Part
    from perfatlas.files import TableSource

    ColumnFunction = Callable[[dict[str, Any]], Mapping[str, Sequence[Any]]]
    RowFunction = Callable[[int, dict[str, Any]], Any]
    BlockFunction = Callable[[dict[str, Any], Sequence[int]], Iterator[Part]]


def mapped_cells(cells: Sequence[Any], function: Callable[[Any], Any]) -> Sequence[Any]:
    """Return cells with another value each."""
    from perfatlas.files import DictionaryCells

    if isinstance(cells, DictionaryCells):
        return cells.mapped(function)
    return [function(cell) for cell in cells]


def filled_cells(cells: Sequence[Any], value: object) -> Sequence[Any]:
    """Return cells with a value in the empty ones."""
    return mapped_cells(cells, lambda cell: value if cell in (None, "") else cell)


def cell_texts(cells: Sequence[Any]) -> list[str]:
    """Return the texts among cells."""
    values = distinct_cells(cells)
    return (
        [cell for cell in values if isinstance(cell, str)] if str in set(map(type, values)) else []
    )


def distinct_cells(cells: Sequence[Any]) -> Sequence[Any]:
    """Return the distinct values of cells where they are known, else the cells."""
    from perfatlas.files import DictionaryCells

    return cells.values if isinstance(cells, DictionaryCells) else cells


BLOCK_ROWS: Final = 16_384  # rows in memory; answers of one take some kilobytes


@dataclass(frozen=True, kw_only=True)
class TableQuestion:
    """What a table is asked."""

    command: str  # The verb
    names: Iterable[str]  # Field names of the verb; other columns are labels, copied unchanged
    first: str  # First column of an answer; not a field name
    # Flags set beside --table, which fill missing columns and empty cells
    set_fields: Mapping[str, Any] = field(default_factory=dict)


def wants_table(output: OutputFlags) -> bool:
    """Return whether a table run is requested.

    Raises:
        UsageError: Only one of --table and --output is set, or both are the same file.
    """
    from perfatlas.files import exists

    table, target = output.table, output.output
    if output.resume and table is None:
        raise UsageError("--resume has no effect without --table FILE and --output FILE")
    if (table is None) != (target is None):
        raise UsageError("--table FILE and --output FILE must be used together")
    if table is None or target is None:
        return False
    if exists(table) and exists(target) and table.samefile(target):
        raise UsageError(
            f"--table and --output are both {target}, and answers would replace the scenarios: set"
            " --output to another file"
        )
    return True


def answer_table(
    verb_function: ColumnFunction, output: OutputFlags, question: TableQuestion
) -> dict[str, Any]:
    """Write the table with its answers; return a summary of the run.

    No input column changes: an answer whose name is taken goes into a column of its own, as in
    `result_mtti_s`. In a previously answered table, the columns from `first` to `error` are
    replaced and not read. Answers are kept in a partial file until the table is finished.

    Args:
        verb_function: Function from input columns to answer columns, with `error_code` and `error`.
            It is called with blocks of rows.
        output: The output flags, with both files.

    Raises:
        InvalidSpecError: A file cannot be read or written, a column name is nearly a field, no
            column is one, or the partial file belongs to another run.
        UsageError: An interrupted run left answers, and --resume is not set.
        KeyboardInterrupt: Ctrl-C; its text says what is kept.
    """

    def answer_block(columns: dict[str, Any], numbers: Sequence[int]) -> Iterator[Part]:
        yield len(numbers), verb_function(columns)

    return _run(answer_block, output, question)


def answer_rows(
    verb_function: RowFunction, output: OutputFlags, question: TableQuestion
) -> dict[str, Any]:
    """Write a table answered row by row, for verbs without column input.

    Args:
        verb_function: Function from the number of a row, from 0, and its fields to an answer.
        output: The output flags, with both files.

    Raises:
        InvalidSpecError: As for `answer_table`.
        UsageError: As for `answer_table`.
    """

    def answer_block(columns: dict[str, Any], numbers: Sequence[int]) -> Iterator[Part]:
        return row_answers(verb_function, columns, numbers)

    return _run(answer_block, output, question)


def row_answers(
    verb_function: RowFunction, columns: Mapping[str, Sequence[Any]], numbers: Sequence[int]
) -> Iterator[Part]:
    """Yield the answer of each row of a block, or its error, as columns of one row.

    Args:
        verb_function: Function from the number of a row and its fields to an answer.
    """
    for number, *cells in zip(numbers, *columns.values(), strict=True):
        fields = {n: c for n, c in zip(columns, cells, strict=True) if c not in (None, "")}
        answer = _answer_row(verb_function, number, fields)
        columns_of_row = {n: c for n, c in answer.items() if n not in table_columns.STATUS_COLUMNS}
        status = {name: answer.get(name) for name in table_columns.STATUS_COLUMNS}
        yield 1, {name: [cell] for name, cell in (columns_of_row | status).items()}


def _answer_row(verb_function: RowFunction, number: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the results of one row, or its error."""
    try:
        answer = verb_function(number, fields)
    except PerfatlasError as problem:
        return {"error_code": problem.error_code, "error": str(problem)}
    cells = {name: cell for name, (cell,) in answer.columns.items()}
    return cells | {"warnings": "; ".join(answer.warnings)}


def _run(
    answer_block: BlockFunction, output: OutputFlags, question: TableQuestion
) -> dict[str, Any]:
    started = time.perf_counter()
    from perfatlas.commands.output.partial_file import PartialFile
    from perfatlas.files import check_writable, file_hash

    target = Path(str(output.output))
    run = _TableRun(Path(str(output.table)), target, question)
    check_writable(target)
    same = {
        "the version of perfatlas": __version__,
        "the command": question.command,
        "the content of the table": file_hash(run.source.path),
        "the flags": dict(question.set_fields),
        "files that flags name": _file_hashes(question.set_fields.values()),
    }
    with PartialFile(target, same, resume=output.resume) as partial:
        _refuse_changed_files(partial)
        try:
            run.answer(answer_block, partial)
            counts = run.write(partial)
        except KeyboardInterrupt:
            partial.write()
            raise KeyboardInterrupt(f"interrupted{partial.kept_text()}") from None
        except InvalidSpecError as problem:
            if partial.kept_text() in str(problem):
                raise
            partial.write()
            raise InvalidSpecError(f"{problem}{partial.kept_text()}") from problem
    rows = run.source.rows
    return {
        "rows": rows,
        "answered": rows - counts["failed"],
        **counts,
        "elapsed_s": time.perf_counter() - started,
        "output": str(target),
        "warnings": run.notices,
        "first_error": partial.first_error,
    }


def _file_hashes(values: Iterable[Any]) -> dict[str, str]:
    """Return the hashes of the files that values name; of a folder, of its configuration."""
    from perfatlas.files import file_hash

    hashes = {}
    for value in values:
        if not isinstance(value, (str, Path)):
            continue
        with suppress(OSError):  # text longer than a path may be
            folder = Path(value).is_dir()
            path = Path(value) / "config.json" if folder else Path(value)
            if path.is_file():
                hashes[str(value)] = file_hash(path)
    return hashes


def _refuse_changed_files(partial: PartialFile) -> None:
    """Refuse to continue after rows that name files with another content by now."""
    hashes = _file_hashes(partial.file_hashes)
    changed = [name for name, text in partial.file_hashes.items() if hashes.get(name) != text]
    if changed:
        raise InvalidSpecError(
            f"'{partial.path}' has rows of a run that differs in the content of '{changed[0]}', a"
            " file that rows name: set another --output, or delete the partial file to start over"
        )


class _TableRun:
    """A table, its columns, and the two passes over its rows: answering and writing.

    Attributes:
        source: The table.
        notices: What was done with columns that are no fields.
    """

    def __init__(self, path: Path, target: Path, question: TableQuestion) -> None:
        """Find the columns; nothing is answered yet."""
        from perfatlas.files import scan_source, table_format

        suffix = table_format(target)
        self._question = question
        self.source: TableSource = scan_source(path)
        columns = list(self.source.names)
        earlier = table_columns.earlier_answer(columns, question.first)
        self._kept = [name for name in columns if name not in earlier]
        fields = set(question.names)
        table_columns.refuse_misspelt(self._kept, fields, str(path))
        table_columns.refuse_unread(self._kept, fields, str(path), question.command)
        mixed = [name for name in self._kept if name in self.source.mixed]
        if mixed and suffix == ".parquet":
            raise InvalidSpecError(
                f"column {mixed[0]!r} of {path} has cells of several types and cannot be a Parquet"
                " column, which has one type; write .csv or .jsonl instead"
            )
        self._asked = [name for name in self._kept if name in fields]
        labels = [name for name in self._kept if name not in fields]
        self._labels = {name.casefold(): name for name in labels}
        self._target = target
        self.notices: list[str] = []
        if earlier:
            self.notices.append(f"replaced columns of an earlier answer: {sorted(earlier)}")
        if labels:
            self.notices.append(
                f"columns that are no fields of {question.command} are copied and not read:"
                f" {table_columns.named_columns(labels)}"
            )

    def answer(self, answer_block: BlockFunction, partial: PartialFile) -> None:
        """Answer the rows that the partial file lacks.

        Args:
            answer_block: Yields the answers of a block of fields; rows have numbers from 0.

        Raises:
            InvalidSpecError: The table changed since it was opened, or the disk is full.
        """
        if partial.resumed:
            going_on = (
                f"continuing after {counted(partial.resumed, 'row')} kept in '{partial.path}'"
            )
            sys.stderr.write(printable(f"perfatlas: {going_on}\n"))
        start = partial.rows
        for block in self.source.blocks(BLOCK_ROWS, start):
            rows = len(next(iter(block.values())))
            invalid = invalid_rows(block, self._kept) if self.source.suffix == ".jsonl" else {}
            columns = self._fields(block, rows)
            valid = [row for row in range(rows) if row not in invalid]
            named = {c for cells in columns.values() for c in cell_texts(cells)}
            partial.file_hashes |= _file_hashes(named - partial.file_hashes.keys())
            if invalid:
                columns = {name: [cells[row] for row in valid] for name, cells in columns.items()}
            parts = answer_block(columns, [start + row for row in valid]) if valid else iter(())
            for count, answers in with_invalid(parts, valid, invalid, rows):
                partial.add(count, self._explained(answers))
            partial.write()
            start += rows
        self._check_unchanged(start)

    def _check_unchanged(self, rows: int) -> None:
        if rows != self.source.rows:
            raise InvalidSpecError(f"table '{self.source.path}' changed while it was read")

    def _fields(self, block: Mapping[str, Any], rows: int) -> dict[str, Any]:
        """Return the fields of a block; flags fill empty cells.

        Names are text, however they are spelled in a CSV file: a version such as 0.24 reads like a
        number there, and cells of numbers are in their plain spelling, so that it comes back as it
        was written.
        """
        from perfatlas.declarations import text_fields
        from perfatlas.files import DictionaryCells, plain_cells

        texts = text_fields() if self.source.suffix == ".csv" else frozenset()
        columns: dict[str, Sequence[Any]] = {}
        for name in self._asked:
            cells = block[name]
            if not isinstance(cells, DictionaryCells):
                cells = plain_cells(cells)
            if name in texts:
                cells = mapped_cells(cells, lambda cell: cell if cell is None else str(cell))
            columns[name] = cells
        for name, value in self._question.set_fields.items():
            columns[name] = filled_cells(columns.get(name, [None] * rows), value)
        return columns

    def _explained(self, answers: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
        from perfatlas.files import NumberCells

        columns: dict[str, Sequence[Any]] = {
            name: cells
            if isinstance(cells, NumberCells) or "" not in distinct_cells(cells)
            else mapped_cells(cells, lambda cell: None if cell == "" else cell)
            for name, cells in answers.items()
        }
        if "error" in columns and self._labels:
            columns["error"] = mapped_cells(
                columns["error"],
                lambda text: text and table_columns.with_column(text, self._labels),
            )
        return columns

    def write(self, partial: PartialFile) -> dict[str, int]:
        """Write the answered table; return the counts of its summary."""
        from perfatlas.files import write_blocks

        names = partial.names
        first = self._question.first
        last = [name for name in table_columns.STATUS_COLUMNS if name in names]
        between = [name for name in names if name not in (first, *last)]
        order = [name for name in (first, *between, *last) if name in names]
        write_blocks(self._target, lambda: self._answered(partial, order))
        limits = {"rows_in_tier_bound": partial.bounds} if "tier" in names else {}
        return {"failed": partial.failed} | limits

    def _answered(self, partial: PartialFile, order: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield blocks of the rows with their answers."""
        parts = partial.blocks(BLOCK_ROWS)
        written = 0
        for block in self.source.blocks(BLOCK_ROWS):
            inputs = {name: block[name] for name in self._kept}
            rows = len(next(iter(inputs.values())))
            answers = next(parts, {})
            written += rows
            yield inputs | {
                table_columns.RESULT_PREFIX + name if name in inputs else name: answers.get(
                    name, [None] * rows
                )
                for name in order
            }
        self._check_unchanged(written)
