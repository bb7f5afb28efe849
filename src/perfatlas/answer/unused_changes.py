"""Changes of a system that do not change an answer, told with the reason."""

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


def tells_unused_changes(question: Question) -> Question:
    """Return a question whose answers warn of changes of the system that do not change them.

    Args:
        question: From named fields to an answer.
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
    """Return a sentence for each change of a system that does not change a predicted value.

    An interval may still be wider: a changed device is not the one that was measured.

    Args:
        results_of: From named fields to the results of an answer; asked once more for each change.
        fields: As given.
        results: Those of the answer, where there is one already.
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
    """Return whether a field has the same value in two systems."""
    values = [
        {row.field: row.value for row in describe(resolve_system(one))} for one in (system, other)
    ]
    return values[0].get(path) == values[1].get(path)


def no_effect(path: str, *, unchanged: bool = False) -> str:
    """Return that a changed field has no effect on predictions, and why.

    Args:
        path: The field.
        unchanged: Whether it was given the value that it has.

    Example:
        >>> from perfatlas.answer import no_effect
        >>> no_effect("device.tdp")
        'device.tdp has no effect on this answer: no prediction reads it'
    """
    if unchanged:
        return f"{path} has no effect on this answer: that is its value in the catalog"
    *most, last = FIELDS[path].read_by or ("",)
    listed = f"{', '.join(most)} and {last}" if most else last
    why = f"it applies to {listed}" if listed else "no prediction reads it"
    return f"{path} has no effect on this answer: {why}"


def predicted(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the predicted values of results, without the ends of their intervals.

    Args:
        results: Of an answer.
    """
    return {
        name: predicted(value) if isinstance(value, dict) else value
        for name, value in results.items()
        if not name.endswith(_INTERVAL)
    }
