"""A file of questions in, the same file with answers out."""

from __future__ import annotations

import difflib
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import read_table, table_format, write_table
from perfatlas.quantities import PerfatlasError, UsageError, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from perfatlas.cli.vocabulary import OutputFlags

    TableFace = Callable[[dict[str, list[Any]]], Mapping[str, list[Any]]]

SAID: Final = ("warnings", "error_code", "error")  # the last columns of every answer


def wants_table(output: OutputFlags) -> bool:
    """Tell whether a table is asked for.

    Args:
        output: The output flags.

    Raises:
        UsageError: Only one of --table and --output was given.
    """
    if (output.table is None) != (output.output is None):
        raise UsageError("--table FILE and --output FILE belong together: rows in, answers out")
    return output.table is not None


def answer_table(
    face: TableFace,
    output: OutputFlags,
    *,
    asked: Mapping[str, Any],
    names: Iterable[str],
    first: str = "",
) -> dict[str, Any]:
    """Write the table with its answers and return a summary of what happened.

    A cell of a question that is empty and answered holds the answer.

    Args:
        face: From columns of questions to columns of answers, `error_code` and `error` among them.
        output: The output flags; both files are named.
        asked: Flags given beside --table: they fill columns that are missing and empty cells.
        names: The vocabulary of the verb: columns of other names pass through untouched.
        first: Of the columns of an answer, where answers have names of questions among them: in a
            table answered before, columns from it to the error are answers and not read.

    Raises:
        InvalidSpecError: A file cannot be read or written.
    """
    started = time.perf_counter()
    table_format(str(output.output))
    table = read_table(str(output.table))
    earlier = _earlier_answer(list(table.columns), first)
    known = set(names) - set(earlier)
    questions = {name: table.cells(name) for name in table.columns if name in known}
    for name, value in asked.items():
        cells = questions.get(name, [None] * table.rows)
        questions[name] = [value if cell in (None, "") else cell for cell in cells]
    found = {
        name: [None if cell == "" else cell for cell in cells]
        for name, cells in (face(questions) if table.rows else {}).items()
    }
    answers = {name: cells for name, cells in found.items() if name not in questions}
    kept = {name: cells for name, cells in table.columns.items() if name not in earlier}
    unread = {name.casefold(): name for name in kept if name not in known}
    if "error" in answers and unread:
        answers["error"] = [text and _with_column(text, unread) for text in answers["error"]]
    replaced = sorted((set(answers) | set(earlier)) & set(table.columns))
    if replaced:
        sys.stderr.write(f"perfatlas: columns of an earlier answer replaced: {replaced}\n")
    filled = {
        name: _filled(table.cells(name), table.columns[name], found[name])
        for name in questions.keys() & found.keys() & table.columns.keys()
    }
    write_table(str(output.output), {**kept, **filled, **answers})
    failed = sum(bool(code) for code in answers.get("error_code", ()))
    return {
        "rows": table.rows,
        "answered": table.rows - failed,
        "failed": failed,
        "elapsed_s": time.perf_counter() - started,
        "output": str(output.output),
    }


def _earlier_answer(columns: list[str], first: str) -> list[str]:
    """Return the columns of a table that are of an answer it got before.

    Args:
        columns: In the order of the file.
        first: The first of an answer, "" where no verb asks.
    """
    if not first or first not in columns or SAID[-1] not in columns:
        return []
    return columns[columns.index(first) : columns.index(SAID[-1]) + 1]


def _filled(asked: list[Any], column: Any, found: list[Any]) -> Any:  # noqa: ANN401 - any column
    """Return a column that is asked and answered: empty cells hold the answer, others stay.

    Args:
        asked: Its cells.
        column: It as it was read.
        found: The answer's cells of the same name.
    """
    empty = [cell in (None, "") for cell in asked]
    if not any(none and cell is not None for none, cell in zip(empty, found, strict=True)):
        return column
    return [new if none else old for old, none, new in zip(asked, empty, found, strict=True)]


def _with_column(error: str, unread: Mapping[str, str]) -> str:
    """Return a row's error with the unread columns that may be misspelt for what it misses.

    Args:
        error: The row's error.
        unread: Columns that are not of the vocabulary, by their names in lower case.
    """
    said = [
        f"; column {unread[near]!r} is not read; did you mean {missing!r}?"
        for missing in re.findall(r"(\w+) is required", error)
        for near in difflib.get_close_matches(missing, unread, n=1)
    ]
    return error + "".join(said)


def show_summary(
    command: str, summary: Mapping[str, Any], *, asked: Mapping[str, Any], as_json: bool
) -> int:
    """Write a table run's summary and return its exit code, 0: rows carry their own errors.

    Args:
        command: The verb.
        summary: From `answer_table`.
        asked: Flags given beside --table.
        as_json: Whether --json was given.
    """
    if as_json:
        from perfatlas.cli.envelope import envelope
        from perfatlas.cli.output import print_json

        print_json(envelope(command, results=summary, scenario=asked))
        return 0
    failed = f", {summary['failed']:,} with an error" if summary["failed"] else ""
    sys.stdout.write(
        f"{counted(summary['rows'], 'row')} in {summary['elapsed_s']:.2f} s: "
        f"{summary['answered']:,} answered{failed}\n{summary['output']}\n"
    )
    return 0


def answer_rows(
    face: Callable[..., Any],
    output: OutputFlags,
    *,
    asked: Mapping[str, Any],
    names: Iterable[str],
    first: str = "",
) -> dict[str, Any]:
    """Write a table answered row by row, for verbs whose answer is one operator.

    Args:
        face: From named fields to an answer.
        output: The output flags; both files are named.
        asked: Flags given beside --table.
        names: The vocabulary of the verb.
        first: Of the columns of an answer, as `answer_table` reads it.

    Raises:
        InvalidSpecError: A file cannot be read or written.
    """

    def columns_face(questions: dict[str, list[Any]]) -> dict[str, list[Any]]:
        rows = [
            dict(zip(questions, cells, strict=True))
            for cells in zip(*questions.values(), strict=True)
        ]
        answers = [_answer_row(face, row) for row in rows]
        found = [n for answer in answers for n in answer if n not in SAID]
        columns = dict.fromkeys([*([first] if first in found else []), *found, *SAID])
        return {name: [answer.get(name) for answer in answers] for name in columns}

    return answer_table(columns_face, output, asked=asked, names=names, first=first)


def _answer_row(face: Callable[..., Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of one row, or its error."""
    fields = {name: cell for name, cell in row.items() if cell not in (None, "")}
    try:
        answer = face(**fields).to_dict()
    except PerfatlasError as problem:
        return {"error_code": problem.error_code, "error": str(problem)}
    return dict(_flat(answer["results"])) | {"warnings": "; ".join(answer["warnings"])}


def _flat(results: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield results as cells: a distribution is one per statistic, as in ttft_s_p99.

    Columns over time are no cells.
    """
    for name, value in results.items():
        if isinstance(value, dict):
            if any(isinstance(inner, list) for inner in value.values()):
                continue
            yield from ((f"{name}_{inner}", cell) for inner, cell in _flat(value))
        else:
            yield name, value
