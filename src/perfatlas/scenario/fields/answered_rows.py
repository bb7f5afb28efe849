"""Tables of operators: rows with equal non-numeric fields are priced in one call."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from perfatlas.quantities import PerfatlasError
from perfatlas.vocabulary.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from perfatlas.scenario.fields import InputFields

Question = TypeVar("Question", bound="InputFields")


class Answered(NamedTuple):
    """The answer to a row of a table.

    Args:
        results: Results by name, equal to those of a single question.
        warnings: Warnings to read before relying on them.
    """

    results: Mapping[str, Any]
    warnings: Sequence[str]


def answer_columns(
    table: Mapping[str, Sequence[Any]],
    read: Callable[[Mapping[str, Any]], Question],
    price: Callable[[Sequence[Question]], Sequence[Answered]],
    *,
    apart: Callable[[Question], Hashable] = type,
) -> dict[str, list[Any]]:
    """Return the answers of every row; unanswerable rows have an error.

    Args:
        table: Input columns by name; None and empty text are unset.
        read: Returns the question from named fields, or raises an error.
        price: Answers questions with equal non-numeric fields, or raises an error for all.
        apart: Further key that questions priced together must share; by default their type.

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None if a row has none.
    """
    asked: dict[int, Question] = {}
    found: dict[int, dict[str, Any]] = {}
    for number, cells in enumerate(zip(*table.values(), strict=True)):
        try:
            asked[number] = read(dict(zip(table, cells, strict=True)))
        except PerfatlasError as problem:
            found[number] = _error(problem)
    groups: dict[Hashable, list[int]] = {}
    for number, one in asked.items():
        groups.setdefault((_non_numeric(one), apart(one)), []).append(number)
    for numbers in groups.values():
        try:
            answers = price([asked[number] for number in numbers])
        except PerfatlasError as problem:
            found |= dict.fromkeys(numbers, _error(problem))
            continue
        for number, answer in zip(numbers, answers, strict=True):
            found[number] = {**answer.results, "warnings": "; ".join(answer.warnings)}
    rows = [found[number] for number in range(len(found))]
    said = ("warnings", "error_code", "error")
    names = dict.fromkeys((*(name for row in rows for name in row if name not in said), *said))
    return {name: [row.get(name) for row in rows] for name in names}


def _error(problem: PerfatlasError) -> dict[str, Any]:
    return {"error_code": problem.error_code, "error": str(problem)}


def _non_numeric(asked: InputFields) -> tuple[Any, ...]:
    """Return the non-numeric fields of a question."""
    return tuple(getattr(asked, name) for name in _non_numeric_names(type(asked)))


@cache
def _non_numeric_names(schema: type[InputFields]) -> tuple[str, ...]:
    return tuple(name for name, field in fields_of(schema).items() if field.number is None)
