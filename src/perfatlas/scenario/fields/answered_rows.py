"""Tables of questions about one operator: rows that share their words are priced in one call."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from perfatlas.quantities import PerfatlasError
from perfatlas.vocabulary.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from perfatlas.scenario.fields import Asked

Asking = TypeVar("Asking", bound="Asked")


class Answered(NamedTuple):
    """What a row of a table is answered.

    Args:
        results: By name, as those of the answer to the question alone.
        warnings: What to know before they are trusted.
    """

    results: Mapping[str, Any]
    warnings: Sequence[str]


def answer_columns(
    table: Mapping[str, Sequence[Any]],
    read: Callable[[Mapping[str, Any]], Asking],
    price: Callable[[Sequence[Asking]], Sequence[Answered]],
    *,
    apart: Callable[[Asking], Hashable] = type,
) -> dict[str, list[Any]]:
    """Return the answers of every row; a row that cannot be answered carries its reason.

    Args:
        table: Columns of questions by name; None and empty text are not given.
        read: Returns the question of named fields, or refuses it.
        price: Answers questions whose words are equal, or refuses all of them for one reason.
        apart: What else must be equal in questions priced together; by default nothing, as all
            questions of a table are of one type.

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None where a row has none.
    """
    asked: dict[int, Asking] = {}
    found: dict[int, dict[str, Any]] = {}
    for number, cells in enumerate(zip(*table.values(), strict=True)):
        try:
            asked[number] = read(dict(zip(table, cells, strict=True)))
        except PerfatlasError as problem:
            found[number] = _error(problem)
    groups: dict[Hashable, list[int]] = {}
    for number, one in asked.items():
        groups.setdefault((_words(one), apart(one)), []).append(number)
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


def _words(asked: Asked) -> tuple[Any, ...]:
    """Return all of a question that is no number."""
    return tuple(getattr(asked, name) for name in _names_of_words(type(asked)))


@cache
def _names_of_words(schema: type[Asked]) -> tuple[str, ...]:
    return tuple(name for name, field in fields_of(schema).items() if field.number is None)
