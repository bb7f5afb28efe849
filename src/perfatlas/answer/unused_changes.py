"""Warnings about overrides of a system that have no effect on an answer."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import FIELDS, changed_fields, describe, resolve_system
from perfatlas.quantities import PerfatlasError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.answer.envelope import Answer

    Question = Callable[..., Answer]
SYSTEMS: Final = ("system", "prefill_system", "decode_system")
_INTERVAL: Final = ("_low", "_high")


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
        said = changes_without_effect(results_of, fields, answer.results)
        return replace(answer, warnings=(*answer.warnings, *said)) if said else answer

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
    said = []
    own = None if results is None else predicted(results)
    for name in SYSTEMS:
        text = fields.get(name)
        if not isinstance(text, str):
            continue
        for path, unchanged in changed_fields(text).items():
            own = own or predicted(results_of(**fields))
            try:
                other = predicted(results_of(**{**fields, name: unchanged}))
            except PerfatlasError:
                continue
            if own == other:
                said.append(no_effect(path, unchanged=_is_same(text, unchanged, path)))
    return list(dict.fromkeys(said))


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
        >>> no_effect("device.tdp")
        'device.tdp has no effect on this answer: no prediction uses it'
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
