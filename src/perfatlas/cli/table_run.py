"""A file of questions in, the same file with answers out."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import read_table, table_format, write_table
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from perfatlas.cli.vocabulary import OutputFlags

    TableFace = Callable[[dict[str, list[Any]]], Mapping[str, list[Any]]]

SCHEMA: Final = "perfatlas.table/1"


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
    face: TableFace, output: OutputFlags, *, asked: Mapping[str, Any], names: Iterable[str]
) -> dict[str, Any]:
    """Write the table with its answers and return a summary of what happened.

    Args:
        face: From columns of questions to columns of answers, `error_code` and `error` among them.
        output: The output flags; both files are named.
        asked: Flags given beside --table: they fill columns that are missing and empty cells.
        names: The vocabulary of the verb: columns of other names pass through untouched.

    Raises:
        InvalidSpecError: A file cannot be read or written.
    """
    started = time.perf_counter()
    table_format(str(output.output))
    table = read_table(str(output.table))
    known = set(names)
    questions = {name: table.cells(name) for name in table.columns if name in known}
    for name, value in asked.items():
        cells = questions.get(name, [None] * table.rows)
        questions[name] = [value if cell in (None, "") else cell for cell in cells]
    answers = dict(face(questions)) if table.rows else {}
    answers = {name: cells for name, cells in answers.items() if name not in known}
    replaced = sorted(set(answers) & set(table.columns))
    if replaced:
        sys.stderr.write(f"perfatlas: replaced columns of an earlier answer: {', '.join(replaced)}\n")
    write_table(str(output.output), {**table.columns, **answers})
    failed = sum(code is not None for code in answers.get("error_code", ()))
    return {
        "rows": table.rows,
        "answered": table.rows - failed,
        "failed": failed,
        "elapsed_s": time.perf_counter() - started,
        "output": str(output.output),
    }


def show_summary(command: str, summary: Mapping[str, Any], *, as_json: bool) -> int:
    """Write a table run's summary and return its exit code, 0: rows carry their own errors.

    Args:
        command: The verb.
        summary: From `answer_table`.
        as_json: Whether --json was given.
    """
    if as_json:
        from perfatlas.cli.output import print_json
        from perfatlas.cli.envelope import envelope

        print_json(envelope(command, results=summary))
        return 0
    failed = f", {summary['failed']:,} with an error (see the column error)" if summary["failed"] else ""
    sys.stdout.write(
        f"{summary['rows']:,} rows in {summary['elapsed_s']:.2f} s: {summary['answered']:,} answered"
        f"{failed}\n{summary['output']}\n"
    )
    return 0
