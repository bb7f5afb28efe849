"""Tables: rows that differ in no field but those read as columns are answered in one call."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

from perfatlas.quantities import PerfatlasError
from perfatlas.vocabulary.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.fields import InputFields

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
    read: Callable[[Mapping[str, Any]], Inputs],
    price: Callable[[Sequence[Inputs]], Answered],
    *,
    varying: tuple[str, ...],
    alike: Callable[[Inputs], Hashable] = type,
) -> dict[str, list[Any]]:
    """Return the answers of every row; unanswerable rows have an error.

    Args:
        table: Input columns by name; None and empty text are unset.
        read: Returns the question from named fields, or raises an error.
        price: Answers questions that differ in no other field, or raises an error for all.
        varying: Fields that `price` reads of every question.
        alike: Returns what questions priced together share of these fields; by default nothing.

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None if a row has none.
    """
    questions: dict[int, Inputs] = {}
    problems: dict[int, PerfatlasError] = {}
    size = len(next(iter(table.values()), ()))
    for number, row in enumerate(zip(*table.values(), strict=True)):
        try:
            questions[number] = read(dict(zip(table, row, strict=True)))
        except PerfatlasError as problem:
            problems[number] = problem
    kinds = set(map(type, questions.values()))
    shared = {kind: grouping_key(kind, varying) for kind in kinds}
    groups: dict[Hashable, list[int]] = {}
    for number, question in questions.items():
        key = shared[type(question)](question), alike(question)
        groups.setdefault(key, []).append(number)
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


def _set_cells(column: list[Any], numbers: Sequence[int], cells: Sequence[Any]) -> None:
    """Set the cells of some rows."""
    for number, cell in zip(numbers, cells, strict=True):
        column[number] = cell


def grouping_key(schema: type, varying: tuple[str, ...]) -> Callable[[InputFields], Hashable]:
    """Return what reads the fields that questions answered in one call share.

    These are all fields but those that vary: one that is new is among them.
    """
    return attrgetter(*(name for name in fields_of(schema) if name not in varying))


def number_columns(inputs: Sequence[InputFields], names: Iterable[str]) -> dict[str, FloatArray]:
    """Return numeric fields of questions as columns by name, NaN where unset, each (C,).

    Args:
        inputs: The questions (C).
    """
    return {
        name: np.array([getattr(input_fields, name) for input_fields in inputs], dtype=np.float64)
        for name in names
    }
