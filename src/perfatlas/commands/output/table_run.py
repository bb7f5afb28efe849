"""Table runs: a file of scenarios in, the same file with answers out."""

from __future__ import annotations

import itertools
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import (
    InvalidSpecError,
    PerfatlasError,
    UsageError,
    counted,
    nearest_name,
    repr_for_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from perfatlas.commands.flags import OutputFlags
    from perfatlas.files import Table

    TableFace = Callable[[dict[str, list[Any]]], Mapping[str, Sequence[Any]]]

STATUS_COLUMNS: Final = ("warnings", "error_code", "error")  # the last columns of every answer
OWN: Final = "result_"  # prefix of an answer whose name an input column has
LEAST_LETTERS: Final = 5  # minimum length of names to compare for typing errors
_UNIT: Final = re.compile(r"_(us|ms|s|secs?|seconds?|mins?|minutes?|h|hours?|d|days?)$")


def wants_table(output: OutputFlags) -> bool:
    """Return whether a table run is requested.

    Args:
        output: The output flags.

    Raises:
        UsageError: Only one of --table and --output is set, or both are the same file.
    """
    table, target = output.table, output.output
    if (table is None) != (target is None):
        raise UsageError("--table FILE and --output FILE must be used together")
    if table is None or target is None:
        return False
    if table.exists() and target.exists() and table.samefile(target):
        raise UsageError(
            f"--table and --output are both {target}, and answers would replace the scenarios: set"
            " --output to another file"
        )
    return True


def answer_table(
    verb_function: TableFace,
    output: OutputFlags,
    *,
    set_fields: Mapping[str, Any],
    names: Iterable[str],
    first: str,
) -> dict[str, Any]:
    """Write the table with its answers; return a summary of the run.

    No input column changes: an answer whose name is taken goes into a column of its own, as in
    `result_mtti_s`. In a previously answered table, the columns from `first` to `error` are
    replaced and not read.

    Args:
        verb_function: Function from input columns to answer columns, with `error_code` and `error`.
        output: The output flags, with both files.
        set_fields: Flags set beside --table, which fill missing columns and empty cells.
        names: Field names of the verb; other columns are copied unchanged.
        first: First column of an answer; not a field name.

    Raises:
        InvalidSpecError: A file cannot be read or written, or a column name is nearly a field.
    """
    started = time.perf_counter()
    from perfatlas.files import read_table, table_format, write_table

    table_format(str(output.output))
    table = read_table(str(output.table))
    earlier = _earlier_answer(list(table.columns), first)
    kept = {name: cells for name, cells in table.columns.items() if name not in earlier}
    known = set(names)
    _refuse_misspelt(kept, known, str(output.table))
    questions = {name: _as_asked(table, name, str(output.table)) for name in kept if name in known}
    for name, value in set_fields.items():
        cells = questions.get(name, [None] * table.rows)
        questions[name] = [value if cell in (None, "") else cell for cell in cells]
    found = verb_function(questions) if table.rows else {}
    order = dict.fromkeys(name for name in (first, *found) if name in found)
    answers = {
        (OWN + name if name in kept else name): _without_empty_text(found[name]) for name in order
    }
    unread = {name.casefold(): name for name in kept if name not in known}
    if "error" in answers and unread:
        answers["error"] = [text and _with_column(text, unread) for text in answers["error"]]
    if earlier:
        sys.stderr.write(f"perfatlas: replaced columns of an earlier answer: {sorted(earlier)}\n")
    write_table(str(output.output), {**kept, **answers})
    failed = sum(bool(code) for code in answers.get("error_code", ()))
    summary = {
        "rows": table.rows,
        "answered": table.rows - failed,
        "failed": failed,
        "elapsed_s": time.perf_counter() - started,
        "output": str(output.output),
    }
    tiers = answers.get("tier", [])
    return summary | ({"rows_in_tier_bound": tiers.count("bound")} if tiers else {})


def _without_empty_text(cells: Sequence[Any]) -> Sequence[Any]:
    """Return cells with None for empty text."""
    from perfatlas.files import NumberCells

    return cells if isinstance(cells, NumberCells) else [None if c == "" else c for c in cells]


def _as_asked(table: Table, name: str, path: str) -> list[Any]:
    """Return the cells of a question; of a name they are text, however it is spelled in a CSV file.

    A version such as 0.24 reads like a number there, and cells of numbers are in their plain
    spelling, so that it comes back as it was written.
    """
    from perfatlas.declarations import text_fields
    from perfatlas.files import unpacked_name

    cells = table.cells(name)
    if unpacked_name(path).suffix.lower() != ".csv" or name not in text_fields():
        return cells
    return [cell if cell is None else str(cell) for cell in cells]


def _earlier_answer(columns: list[str], first: str) -> list[str]:
    """Return the columns of a table that belong to an earlier answer.

    Args:
        columns: Columns in file order.
        first: First column of an answer.
    """
    status = [name for name in columns if name in STATUS_COLUMNS]
    if list(STATUS_COLUMNS[1:]) != status[-2:]:
        return status
    last = columns.index(STATUS_COLUMNS[-1])
    begins = [columns.index(name) for name in (OWN + first, first) if name in columns[:last]]
    return [*columns[begins[0] : last + 1]] if begins else status


def _refuse_misspelt(columns: Iterable[str], known: set[str], path: str) -> None:
    """Refuse a column whose name is nearly that of a field without a column.

    Args:
        columns: Columns that do not belong to an earlier answer.
        known: Field names of the verb.
        path: Path of the table.
    """
    from perfatlas.vocabulary.fields import canonical_name

    others = sorted(known - set(columns))
    for column in columns:
        if column in known:
            continue
        plain = re.sub(r"[\s-]+", "_", column.strip().casefold())
        if ours := canonical_name(plain, others):
            raise InvalidSpecError(
                f"{path}: column {repr_for_error(column)} would be ignored; perfatlas calls it"
                f" {ours!r}"
            )
        for name in others:
            if _is_nearly(plain, name):
                raise InvalidSpecError(
                    f"{path}: column {repr_for_error(column)} would be ignored; did you mean"
                    f" {name!r}?"
                    " If not, rename it to something less similar"
                )


def _is_nearly(column: str, name: str) -> bool:
    """Return whether a column name is a field name except for case, plural, unit or one typo.

    Args:
        column: Column name in lower case.
        name: Field name.
    """
    if name in (column, column + "s"):
        return True
    if _UNIT.search(name) and _UNIT.sub("", column) == _UNIT.sub("", name):
        return True
    if len(name) < LEAST_LETTERS or column[:1] != name[:1]:
        return False
    same = _leading(column, name)
    column, name = column[same:][::-1], name[same:][::-1]
    same = _leading(column, name)
    column, name = column[same:], name[same:]
    return max(len(column), len(name)) < 2 or (len(name) == 2 and column == name[::-1])


def _leading(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _with_column(error: str, unread: Mapping[str, str]) -> str:
    """Return a row's error, with ignored columns that may be misspelt required fields.

    Args:
        error: The row's error.
        unread: Ignored columns by their names in lower case.
    """
    nearest = {name: nearest_name(name, unread) for name in re.findall(r"(\w+) is required", error)}
    status = [
        f"; column {unread[near]!r} is ignored; did you mean {missing!r}?"
        for missing, near in nearest.items()
        if near is not None
    ]
    return error + "".join(status)


def show_summary(
    command: str, summary: Mapping[str, Any], *, set_fields: Mapping[str, Any], as_json: bool
) -> int:
    """Write the summary of a table run; return exit code 0, since rows carry their own errors.

    Args:
        command: The verb.
        summary: From `answer_table`.
        set_fields: Flags set beside --table.
        as_json: Whether --json was given.
    """
    if as_json:
        from perfatlas.commands.output.answers import print_json
        from perfatlas.commands.output.envelopes import envelope

        print_json(envelope(command, results=summary, scenario=set_fields))
        return 0
    failed = f", {summary['failed']:,} with an error" if summary["failed"] else ""
    limits = summary.get("rows_in_tier_bound", 0)
    said = f"; {limits:,} in tier bound: limits, not predictions" if limits else ""
    sys.stdout.write(
        f"{counted(summary['rows'], 'row')} in {summary['elapsed_s']:.2f} s: "
        f"{summary['answered']:,} answered{failed}{said}\n{summary['output']}\n"
    )
    return 0


def answer_rows(
    verb_function: Callable[..., Any],
    output: OutputFlags,
    *,
    set_fields: Mapping[str, Any],
    names: Iterable[str],
    first: str,
) -> dict[str, Any]:
    """Write a table answered row by row, for verbs without column input.

    Args:
        verb_function: Function from named fields to an answer.
        output: The output flags, with both files.
        set_fields: Flags set beside --table.
        names: Field names of the verb.
        first: First column of an answer.

    Raises:
        InvalidSpecError: A file cannot be read or written.
    """

    def of_rows(questions: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return columns_of_rows(verb_function, questions)

    return answer_table(of_rows, output, set_fields=set_fields, names=names, first=first)


def columns_of_rows(
    verb_function: Callable[..., Any], questions: Mapping[str, list[Any]]
) -> dict[str, list[Any]]:
    """Return columns of answers, with the row's error where there is none.

    Args:
        verb_function: Function from named fields to an answer.
        questions: Input columns by name.
    """
    rows = [
        dict(zip(questions, cells, strict=True)) for cells in zip(*questions.values(), strict=True)
    ]
    answers = [_answer_row(verb_function, row) for row in rows]
    found = [n for answer in answers for n in answer if n not in STATUS_COLUMNS]
    columns = dict.fromkeys([*found, *STATUS_COLUMNS])
    return {name: [answer.get(name) for answer in answers] for name in columns}


def _answer_row(verb_function: Callable[..., Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of one row, or its error."""
    fields = {name: cell for name, cell in row.items() if cell not in (None, "")}
    try:
        answer = verb_function(**fields)
    except PerfatlasError as problem:
        return {"error_code": problem.error_code, "error": str(problem)}
    cells = {name: cell for name, (cell,) in answer.columns.items()}
    return cells | {"warnings": "; ".join(answer.warnings)}
