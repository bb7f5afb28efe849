"""Commands that are asked named fields alone: one answer, or a table of them."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Any

from perfatlas.commands.flags import (
    CHART_TITLES,
    Output,
    OutputFlags,
    PageFlags,
    positional_fields,
    set_flags,
    takes_fields,
)
from perfatlas.commands.output import table_run
from perfatlas.commands.output.answers import require, show_answer
from perfatlas.commands.output.table_summary import show_summary
from perfatlas.declarations import commands, example_of, verb_fields
from perfatlas.files import check_writable
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class Answering:
    """How a command is answered; a "module:function" is relative to the folder that declares it."""

    command: str  # As it is typed
    function: str  # Its name in the interface of the folder: from named fields to an answer
    argument: str = ""  # Its first argument, before the fields; "" for none
    first: str  # The column with which its answers begin in a table; no field of it
    # Fields that must be given; by default those that the table of fields requires
    needed: tuple[str, ...] | None = None
    unless: str = ""  # The field that stands in for all of them

    def find(self, path: str) -> Any:  # noqa: ANN401 - a function
        """Return a function of the folder.

        Args:
            path: As "module:function".
        """
        return _found(self.command, path)


def _found(command: str, path: str) -> Any:  # noqa: ANN401 - a function
    """Return a function of the folder that declares a command."""
    module, _, function = path.partition(":")
    return getattr(import_module(f"{commands()[command][0]}.{module}"), function)


def table_function(
    command: str,
) -> Callable[[dict[str, Any], Sequence[int]], Mapping[str, Sequence[Any]]]:
    """Return the function from columns of questions, and row numbers, to columns of answers.

    Args:
        command: A command whose declaration has `table` or `row`.

    Example:
        >>> from perfatlas.commands.output import table_function
        >>> answer = table_function("goodput spares")
        >>> asked = {"nodes": [8, 0], "node_mtbf_s": [1e7] * 2, "repair_s": [9e4] * 2}
        >>> answer(asked | {"spares": [1, 1]}, [0, 1])["error_code"]
        [None, 'invalid']
    """
    from perfatlas.commands.output.partial_file import joined_columns

    declared = commands()[command][1]
    if declared.table:
        answer_columns = _found(command, declared.table)

        def answer_cells(columns: dict[str, Any], _: Sequence[int]) -> Mapping[str, Sequence[Any]]:
            answers = answer_columns(columns)
            cells: Mapping[str, Sequence[Any]] = getattr(answers, "cells", answers)
            return cells

        return answer_cells
    answer_row = _row_function(command)
    return lambda columns, numbers: joined_columns(
        list(table_run.row_answers(answer_row, columns, numbers))
    )


def _row_function(command: str) -> table_run.RowFunction:
    """Return the function from the number of a row, and its fields, to its answer."""
    declared = commands()[command][1]
    answer = _found(command, declared.row)
    return answer if declared.is_numbered else lambda _, fields: answer(**fields)


def command_of(form: Answering) -> Callable[..., int]:
    """Return a command with flags for each field, its page, --json, --table and --output."""

    @takes_fields(form.command)
    def command(
        *positional: str,
        flags: object = None,
        page: PageFlags | None = None,
        output: Output = None,
    ) -> int:
        """Return the exit code of an answer.

        Args:
            positional: Values of the fields without a flag.
            page: HTML page of the answer.
            output: Where the answer goes.
        """
        page, output = page or PageFlags(), output or OutputFlags()
        page.check(CHART_TITLES.get(form.command, ()))
        for flag, path in page.files().items():
            if table_run.wants_table(output):
                raise UsageError(f"{flag} cannot be combined with --table")
            check_writable(path)
        first = dict(zip(positional_fields(form.command), positional, strict=False))
        return answer_command(form, {**first, **set_flags(flags)}, output, page)

    return command


def answer_command(
    form: Answering,
    set_fields: dict[str, Any],
    output: OutputFlags,
    page: PageFlags | None = None,
) -> int:
    """Return the exit code of one answer, or of a table of them.

    Args:
        output: Where the answer goes.
        page: Files for its page.

    Raises:
        UsageError: A field that must be given is not.
    """
    function = getattr(import_module(commands()[form.command][0]), form.function)
    if form.argument:
        function = partial(function, form.argument)
    fields = verb_fields(form.command)
    lists = {name: value for name, value in set_fields.items() if isinstance(value, tuple)}
    if table_run.wants_table(output):
        if lists:
            raise UsageError(f"a list of {', '.join(lists)} cannot be combined with --table")
        question = table_run.TableQuestion(
            command=form.command, names=fields, first=form.first, set_fields=set_fields
        )
        declared = commands()[form.command][1]
        if declared.table:
            summary = table_run.answer_table(form.find(declared.table), output, question)
        elif declared.row:
            summary = table_run.answer_rows(_row_function(form.command), output, question)
        else:
            summary = table_run.answer_rows(lambda _, fields: function(**fields), output, question)
        return show_summary(form.command, summary, set_fields=set_fields, as_json=output.json)
    needed = form.needed
    if needed is None:
        needed = tuple(name for name, field in fields.items() if field.required)
    if form.unless not in set_fields:
        first = positional_fields(form.command)
        require(set_fields, needed, example=example_of(form.command), positional=first)
    if lists:
        return _answer_lists(form, set_fields, lists, output, page)
    answer = function(**set_fields).to_dict()
    return show_answer(answer, output=output, set_fields=set_fields, pages=page)


def _answer_lists(
    form: Answering,
    set_fields: Mapping[str, Any],
    lists: Mapping[str, tuple[float, ...]],
    output: OutputFlags,
    page: PageFlags | None,
) -> int:
    """Write a row for each combination of listed values; return the exit code."""
    from perfatlas.commands.output.answers import print_json
    from perfatlas.commands.output.envelopes import envelope
    from perfatlas.report.text import label_of, open_terminal, print_plain, print_rows

    if page and (flag := next(iter(page.files()), None)):
        raise UsageError(f"{flag} draws one answer; give each flag one value, or leave {flag} out")
    if (count := math.prod(map(len, lists.values()))) > table_run.BLOCK_ROWS:
        raise UsageError(
            f"the lists have {count:,} combinations, more than {table_run.BLOCK_ROWS:,}: write"
            " them to a table, and use --table and --output"
        )
    combined = list(product(*lists.values()))
    columns: dict[str, Any] = {name: [value] * len(combined) for name, value in set_fields.items()}
    columns |= dict(zip(lists, map(list, zip(*combined, strict=True)), strict=True))
    answers = table_function(form.command)(columns, range(len(combined)))
    columns = {name: columns[name] for name in lists} | dict(answers)
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if output.json:
        scenario = {name: list(v) if name in lists else v for name, v in set_fields.items()}
        print_json(envelope(form.command, results={"rows": rows}, scenario=scenario))
        return 0
    shown = [*lists, form.first, f"{form.first}_low", f"{form.first}_high", "bound", "tier"]
    shown += [] if all(row["error"] is None for row in rows) else ["error"]
    titles = {name: label_of(name, short=True) for name in shown if name in columns}
    titles |= {f"{form.first}_low": "90%", f"{form.first}_high": "interval"}
    console = open_terminal(sys.stdout)
    print_rows(console, rows, columns=titles)
    for text in dict.fromkeys(row["warnings"] for row in rows if row["warnings"]):
        print_plain(console, f"warning: {text}")
    return 0
