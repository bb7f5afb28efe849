"""Fields without effect, by the conditions of the table of fields: refused, or noted."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from perfatlas.quantities import InvalidSpecError
from perfatlas.vocabulary.fields import is_set, value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perfatlas.vocabulary.fields import Field, Missing


def refuse_unused(
    values: Mapping[str, Any],
    fields: Mapping[str, Field],
    facts: Mapping[str, Callable[[], Missing | None]] | None = None,
    *,
    others: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Refuse fields that are set to a non-default value and whose condition is not met.

    Args:
        values: Typed values of all fields, by name.
        facts: Derived facts by name: each returns what is missing, or None if it holds.
        others: Values of questions to compare with; a field has an effect if one of them reads it.

    Raises:
        InvalidSpecError: A field has no effect; the message gives the reason and the remedy. Fields
            with the same reason are listed together.

    Example:
        >>> from perfatlas.scenario.fields import refuse_unused
        >>> from perfatlas.vocabulary.fields import SIMULATED, fields_of
        >>> values = {"max_replicas": None, "start_up_s": 30.0}
        >>> refuse_unused(values, fields_of(*SIMULATED))
        Traceback (most recent call last):
        perfatlas.quantities.errors.InvalidSpecError: start_up_s = 30 has no effect here:...
    """
    for sentence in _sentences(values, fields, facts or {}, others, noted=False):
        raise InvalidSpecError(sentence)


def unused_warnings(
    values: Mapping[str, Any],
    fields: Mapping[str, Field],
    facts: Mapping[str, Callable[[], Missing | None]] | None = None,
) -> list[str]:
    """Return a sentence for the fields whose missing effect an answer notes.

    Args:
        values: Typed values of all fields, by name.
        facts: Derived facts by name; conditions on others count as met.

    Example:
        >>> from perfatlas.scenario.fields import unused_warnings
        >>> from perfatlas.vocabulary.fields import SparePool, fields_of
        >>> unused_warnings({"warm": True, "spares": 0}, fields_of(SparePool))
        ['warm = true has no effect here: spares = 0; set another spares, or leave warm out']
    """
    known = defaultdict(_met, facts or {})
    return list(_sentences(values, fields, known, (), noted=True))


def _met() -> Callable[[], Missing | None]:
    """Return a fact that holds."""
    return lambda: None


def _sentences(
    values: Mapping[str, Any],
    fields: Mapping[str, Field],
    facts: Mapping[str, Callable[[], Missing | None]],
    others: Sequence[Mapping[str, Any]],
    *,
    noted: bool,
) -> Iterator[str]:
    """Yield a sentence for the fields that miss the same; those noted, or those refused."""
    found: dict[Missing, dict[str, Any]] = {}
    for name, field in fields.items():
        if field.row.needs is None or (not others and values.get(name) == field.default):
            continue
        missing = _missing(field, (values, *others), facts)
        if missing is not None and missing.is_noted == noted:
            given = _first_setting(field, (values, *others)) or {}
            found.setdefault(missing, {})[name] = given.get(name)
    for missing, given in found.items():
        yield no_effect_sentence(given, missing)


def no_effect_sentence(given: Mapping[str, Any], missing: Missing) -> str:
    """Return the message that fields have no effect, with reason and remedy.

    Args:
        missing: What they miss.
    """
    listed = _listed([f"{name} = {value_text(value)}" for name, value in given.items()])
    has = "has" if len(given) == 1 else "have"
    remedy = f"{missing.remedy}, or " if missing.remedy else ""
    return f"{listed} {has} no effect here: {missing.why}; {remedy}leave {_listed(list(given))} out"


def _missing(
    field: Field,
    questions: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Callable[[], Missing | None]],
) -> Missing | None:
    """Return what a field misses in every question, None if one reads it."""
    first, needs = _first_setting(field, questions), field.row.needs
    if first is None or needs is None:
        return None
    if any(needs.missing(question, facts) is None for question in questions):
        return None
    return needs.missing(first, facts)


def _first_setting(
    field: Field, questions: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return the first question that sets a field to a non-default value."""
    return next((question for question in questions if asks(field, question.get(field.name))), None)


def asks(field: Field, value: object) -> bool:
    """Return whether a value of a field asks for something else than its default."""
    return (is_set(value) or value is False) and value != field.default


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
