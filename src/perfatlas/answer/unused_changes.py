"""Warnings about overrides of a system that have no effect on an answer."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import FIELDS, changed_fields, describe, resolve_system
from perfatlas.quantities import PerfatlasError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.answer.envelope import Answer

    Question = Callable[..., Answer]
    TableAnswers = Callable[[Mapping[str, Sequence[Any]]], dict[str, list[Any]]]
SYSTEMS: Final = ("system", "prefill_system", "decode_system")
_INTERVAL: Final = ("_low", "_high", "_low_s", "_high_s")
# Fields that state what an interval otherwise spans.
_NARROWING: Final = ("node.topology", "node.peer_access")


def warn_unused_changes(question: Question) -> Question:
    """Return a verb function whose answers warn about overrides without effect.

    Args:
        question: Function from named fields to an answer.
    """

    def results_of(**fields: Any) -> Mapping[str, Any]:  # noqa: ANN401 - fields of a question
        return question(**fields).results

    @wraps(question)
    def answered(**fields: Any) -> Answer:  # noqa: ANN401 - fields of a question
        answer = question(**fields)
        notes = changes_without_effect(results_of, fields, answer.results)
        return replace(answer, warnings=(*answer.warnings, *notes)) if notes else answer

    return answered


def changes_without_effect(
    results_of: Callable[..., Mapping[str, Any]],
    fields: Mapping[str, Any],
    results: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return a sentence for each override of a system that does not change a predicted value.

    An interval may still widen, because an overridden device is not the measured one.

    Args:
        results_of: Function from named fields to results; called once more for each override.
        fields: The named fields.
        results: Their results, if already computed.
    """
    notes = []
    known = results
    for name in SYSTEMS:
        text = fields.get(name)
        if not isinstance(text, str):
            continue
        for path, unchanged in changed_fields(text).items():
            known = known or results_of(**fields)
            try:
                other = results_of(**{**fields, name: unchanged})
            except PerfatlasError:
                continue
            whole = path in _NARROWING
            if known == other if whole else predicted(known) == predicted(other):
                notes.append(no_effect(path, unchanged=_is_same(text, unchanged, path)))
    return list(dict.fromkeys(notes))


def with_unused_changes(
    table: Mapping[str, Sequence[Any]], answer: TableAnswers
) -> dict[str, list[Any]]:
    """Return the answers of a table, warnings on changes of systems without effect among them.

    Rows whose systems change a field are asked once more without it, all systems together.

    Args:
        table: Columns of questions by name.
        answer: From columns of questions to columns of answers, `warnings` and `error` among them.
    """
    found = answer(table)
    cells = table.get("system", ())
    rows_N = [row for row, error in enumerate(found["error"]) if not error] if cells else []
    texts = dict.fromkeys(cells[row] for row in rows_N if isinstance(cells[row], str))
    changes = {text: changed_fields(text) for text in texts}
    for path in sorted({path for unchanged in changes.values() for path in unchanged}):
        rows = [row for row in rows_N if path in changes.get(cells[row], ())]
        some = {name: [column[row] for row in rows] for name, column in table.items()}
        other = answer({**some, "system": [changes[cells[row]][path] for row in rows]})
        for place, row in enumerate(rows):
            text = cells[row]
            if not other["error"][place] and _row(found, row) == _row(other, place):
                said = no_effect(path, unchanged=_is_same(text, changes[text][path], path))
                found["warnings"][row] = "; ".join(filter(None, (found["warnings"][row], said)))
    return found


def _row(columns: Mapping[str, Sequence[Any]], row: int) -> dict[str, Any]:
    """Return the predicted values of a row."""
    cells = {name: column[row] for name, column in columns.items() if name != "warnings"}
    return {name: cell for name, cell in predicted(cells).items() if cell is not None}


def _is_same(system: str, other: str, path: str) -> bool:
    """Return whether a field has equal values in two systems."""
    values = [
        {row.field: row.value for row in describe(resolve_system(one))} for one in (system, other)
    ]
    return values[0].get(path) == values[1].get(path)


def no_effect(path: str, *, unchanged: bool = False) -> str:
    """Return the message that an override has no effect on predictions, and why.

    Args:
        path: The field.
        unchanged: Whether the override equals the original value.

    Example:
        >>> from perfatlas.answer import no_effect
        >>> no_effect("device.idle")
        'device.idle has no effect on this answer: it applies to power and energy'
    """
    if unchanged:
        return f"{path} has no effect on this answer: it equals the catalog value"
    *most, last = FIELDS[path].read_by or ("",)
    listed = f"{', '.join(most)} and {last}" if most else last
    why = f"it applies to {listed}" if listed else "no prediction uses it"
    return f"{path} has no effect on this answer: {why}"


def predicted(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the predicted values of results, without intervals.

    Args:
        results: Results of an answer.
    """
    return {
        name: predicted(value) if isinstance(value, dict) else value
        for name, value in results.items()
        if not name.endswith(_INTERVAL)
    }
