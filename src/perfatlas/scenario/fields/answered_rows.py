"""Tables of operators: rows with equal non-numeric fields are priced in one call."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from perfatlas.quantities import PerfatlasError
from perfatlas.vocabulary.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from perfatlas.scenario.fields import InputFields

Inputs = TypeVar("Inputs", bound="InputFields")


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
    read: Callable[[Mapping[str, Any]], Inputs],
    price: Callable[[Sequence[Inputs]], Sequence[Answered | PerfatlasError]],
    *,
    apart: Callable[[Inputs], Hashable] = type,
) -> dict[str, list[Any]]:
    """Return the answers of every row; unanswerable rows have an error.

    Args:
        table: Input columns by name; None and empty text are unset.
        read: Returns the question from named fields, or raises an error.
        price: Answers questions with equal non-numeric fields, each with results or an error, or
            raises an error for all.
        apart: Further key that questions priced together must share; by default their type.

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None if a row has none.
    """
    questions: dict[int, Inputs] = {}
    found: dict[int, dict[str, Any]] = {}
    for number, cells in enumerate(zip(*table.values(), strict=True)):
        try:
            questions[number] = read(dict(zip(table, cells, strict=True)))
        except PerfatlasError as problem:
            found[number] = _error(problem)
    groups: dict[Hashable, list[int]] = {}
    for number, one in questions.items():
        groups.setdefault((_non_numeric(one), apart(one)), []).append(number)
    for numbers in groups.values():
        try:
            answers = price([questions[number] for number in numbers])
        except PerfatlasError as problem:
            found |= dict.fromkeys(numbers, _error(problem))
            continue
        for number, answer in zip(numbers, answers, strict=True):
            found[number] = (
                _error(answer)
                if isinstance(answer, PerfatlasError)
                else {**answer.results, "warnings": "; ".join(answer.warnings)}
            )
    rows = [found[number] for number in range(len(found))]
    status = ("warnings", "error_code", "error")
    names = dict.fromkeys((*(name for row in rows for name in row if name not in status), *status))
    return {name: [row.get(name) for row in rows] for name in names}


def _error(problem: PerfatlasError) -> dict[str, Any]:
    return {"error_code": problem.error_code, "error": str(problem)}


def _non_numeric(questions: InputFields) -> tuple[Any, ...]:
    """Return the non-numeric fields of a question."""
    return tuple(getattr(questions, name) for name in _non_numeric_names(type(questions)))


@cache
def _non_numeric_names(schema: type[InputFields]) -> tuple[str, ...]:
    return tuple(name for name, field in fields_of(schema).items() if field.number is None)
