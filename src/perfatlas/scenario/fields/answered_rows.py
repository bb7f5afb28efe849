"""Tables: rows that differ in no field but those read as columns are answered in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast

import numpy as np

from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.fields.columns import distinct_rows
from perfatlas.scenario.fields.disputed import rows_within_disputed_ends
from perfatlas.scenario.fields.input_fields import unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.scenario.fields import Columns, InputFields

Inputs = TypeVar("Inputs", bound="InputFields")


class Answered(NamedTuple):
    """The answers to some rows of a table (N)."""

    # Results by name, equal to those of single questions, each (N)
    results: Mapping[str, Sequence[Any]]
    warnings: Sequence[Sequence[str]]  # Warnings to read before relying on each row (N)
    problems: Mapping[int, PerfatlasError]  # Why a row has no answer, by its position

    @classmethod
    def of(cls, rows: Sequence[tuple[Mapping[str, Any], Sequence[str]] | PerfatlasError]) -> Self:
        """Return the answers to rows that are answered one by one.

        Args:
            rows: Results by name and warnings of each row, or why it has none.
        """
        problems = {at: row for at, row in enumerate(rows) if isinstance(row, PerfatlasError)}
        pairs = [({}, ()) if isinstance(row, PerfatlasError) else row for row in rows]
        names = dict.fromkeys(name for results, _ in pairs for name in results)
        columns = {name: [results.get(name) for results, _ in pairs] for name in names}
        return cls(columns, [warnings for _, warnings in pairs], problems)


def answer_columns(
    table: Mapping[str, Sequence[Any]],
    schema: type[Inputs],
    price: Callable[[Sequence[Inputs]], Answered],
    *,
    varying: tuple[str, ...],
    question: Callable[[Mapping[str, Any]], Inputs] | None = None,
    alike: Callable[[Inputs], Hashable] = type,
) -> dict[str, list[Any]]:
    """Return the answers of every row; unanswerable rows have an error.

    Intervals contain both ends of figures of systems that sources dispute.

    Args:
        table: Input columns by name; None and empty text are unset.
        schema: The fields.
        price: Answers questions that differ in no other field, or raises an error for all.
        varying: Fields that `price` reads of every question.
        question: Returns the question of typed fields instead of `schema`, or raises an error.
        alike: Returns what questions priced together share of these fields; by default nothing.

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None if a row has none.
    """
    found = rows_within_disputed_ends(
        lambda part: _answers(part, schema, price, varying, question, alike), table
    )
    return cast("dict[str, list[Any]]", found)


def _answers(
    table: Mapping[str, Sequence[Any]],
    schema: type[Inputs],
    price: Callable[[Sequence[Inputs]], Answered],
    varying: tuple[str, ...],
    question: Callable[[Mapping[str, Any]], Inputs] | None,
    alike: Callable[[Inputs], Hashable],
) -> dict[str, list[Any]]:
    """Return the answers of every row, at the figures that the catalog prefers."""
    fields, problems = schema.ask_table(table) if question is None else schema.read_table(table)
    problems = unknown_fields(table, fields) | problems
    size = fields.size
    groups: dict[Hashable, list[int]] = {}
    questions: dict[int, Inputs] = {}
    for number, code in enumerate(alike_rows(fields, varying).tolist()):
        if number in problems:
            continue
        try:
            questions[number] = (question or schema)(fields.given(number))
        except PerfatlasError as problem:
            problems[number] = problem
        else:
            groups.setdefault((code, alike(questions[number])), []).append(number)
    columns: dict[str, list[Any]] = {}
    warnings: list[str | None] = [None] * size
    for numbers in groups.values():
        try:
            found = price([questions[number] for number in numbers])
        except PerfatlasError as problem:
            problems |= dict.fromkeys(numbers, problem)
            continue
        for name, cells in found.results.items():
            _set_cells(columns.setdefault(name, [None] * size), numbers, cells)
        _set_cells(warnings, numbers, ["; ".join(texts) for texts in found.warnings])
        problems |= {numbers[at]: error for at, error in found.problems.items()}
    status: dict[str, list[Any]] = {
        "warnings": warnings,
        "error_code": [None] * size,
        "error": [None] * size,
    }
    for number, error in problems.items():
        for column in (*columns.values(), warnings):
            column[number] = None
        status["error_code"][number], status["error"][number] = error.error_code, str(error)
    return columns | status


def alike_rows(fields: Columns, varying: Collection[str]) -> IntArray:
    """Return a code that rows share which differ in some fields alone (N,)."""
    shared = [fields[name].value_codes for name in fields.known if name not in varying]
    return distinct_rows(shared).codes_N


def _set_cells(column: list[Any], numbers: Sequence[int], cells: Sequence[Any]) -> None:
    """Set the cells of some rows."""
    for number, cell in zip(numbers, cells, strict=True):
        column[number] = cell


def number_columns(inputs: Sequence[InputFields], names: Iterable[str]) -> dict[str, FloatArray]:
    """Return numeric fields of questions as columns by name, NaN where unset, each (C,).

    Args:
        inputs: The questions (C).
    """
    return {
        name: np.array([getattr(input_fields, name) for input_fields in inputs], dtype=np.float64)
        for name in names
    }
