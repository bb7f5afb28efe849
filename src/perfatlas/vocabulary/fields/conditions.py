"""Conditions under which a field has an effect, and messages for when it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from perfatlas.quantities import repr_for_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Facts = Mapping[str, Callable[[], "Missing | None"]]


class Missing(NamedTuple):
    """Why a field has no effect."""

    why: str  # Reason, a clause such as "backfill = none"
    remedy: str  # How to give it an effect, a clause such as "set backfill = easy"
    is_noted: bool = False  # Whether an answer notes it, instead of a refusal


def is_set(value: object) -> bool:
    """Return whether a value is set: not None, False, or an empty text or collection.

    Example:
        >>> from perfatlas.vocabulary.fields import is_set
        >>> is_set(0), is_set(False), is_set({})
        (True, False, False)
    """
    empty = isinstance(value, str | tuple | list | dict) and not value
    return value is not None and value is not False and not empty


def value_text(value: object) -> str:
    """Return the value of a field as messages show it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return repr_for_error(",".join(f"{n}={value_text(part)}" for n, part in value.items()))
    if isinstance(value, tuple | list) and all(isinstance(x, str | int | float) for x in value):
        text = ",".join(map(value_text, value))
        return text if len(text) <= 80 else repr_for_error(value)
    if isinstance(value, str) and repr_for_error(value) == f"'{value}'":
        return value
    return repr_for_error(value)


class Condition(Protocol):
    """A condition on the fields of a question."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields and facts that it depends on."""
        ...

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:
        """Return what is missing, or None if the condition holds.

        Args:
            facts: Derived facts by name: each returns what is missing, or None if it holds.
        """
        ...


class AnySet:
    """At least one of several fields is set."""

    def __init__(self, *names: str, example: str = "") -> None:
        """Store the fields, and an example value of the first for the message."""
        self.names, self.example = names, example

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields."""
        return self.names

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:  # noqa: ARG002 - protocol
        """Return that the fields are not set, or None if one is."""
        if any(is_set(values.get(name)) for name in self.names):
            return None
        such_as = f", such as {self.example}" if self.example else ""
        if len(self.names) == 1:
            return Missing(f"{self.names[0]} is not set", f"set {self.names[0]}{such_as}")
        many = len(self.names) > 2
        none = f"none of {', '.join(self.names)}" if many else f"neither {' nor '.join(self.names)}"
        return Missing(f"{none} is set", f"set {_either(self.names)}{such_as}")


@dataclass(frozen=True)
class NotSet:
    """A field is not set."""

    name: str
    why: str  # What the field does, a clause that explains why it excludes the other

    @property
    def reads(self) -> tuple[str, ...]:
        """The field."""
        return (self.name,)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:  # noqa: ARG002 - protocol
        """Return the reason, or None if the field is not set."""
        value = values.get(self.name)
        if not is_set(value):
            return None
        return Missing(f"{self.name} = {value_text(value)} {self.why}", f"leave {self.name} out")


class Equals:
    """A field has one of several values."""

    def __init__(self, name: str, *wanted: object) -> None:
        """Store the field and the accepted values."""
        self.name, self.wanted = name, wanted

    @property
    def reads(self) -> tuple[str, ...]:
        """The field."""
        return (self.name,)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:  # noqa: ARG002 - protocol
        """Return the current and the accepted values, or None if the field has one of them."""
        value = values.get(self.name)
        if value in self.wanted:
            return None
        why = f"{self.name} = {value_text(value)}" if is_set(value) else f"{self.name} is not set"
        return Missing(why, f"set {self.name} = {_either(map(value_text, self.wanted))}")


@dataclass(frozen=True)
class NotEqual:
    """A field differs from one value."""

    name: str
    value: object

    @property
    def reads(self) -> tuple[str, ...]:
        """The field."""
        return (self.name,)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:  # noqa: ARG002 - protocol
        """Return the value, or None if the field differs from it."""
        if values.get(self.name) != self.value:
            return None
        return Missing(f"{self.name} = {value_text(self.value)}", f"set another {self.name}")


@dataclass(frozen=True)
class Fact:
    """A fact that follows from the question, such as that the model has experts."""

    fact: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The fact."""
        return (self.fact,)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:  # noqa: ARG002 - protocol
        """Return why the fact does not hold, or None if it does."""
        return facts[self.fact]()


class AllOf:
    """Every condition holds."""

    def __init__(self, *conditions: Condition) -> None:
        """Store the conditions."""
        self.conditions = conditions
        self.reads = tuple(name for condition in conditions for name in condition.reads)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:
        """Return what the first unmet condition misses, or None if all hold."""
        unmet = (condition.missing(values, facts) for condition in self.conditions)
        return next((missing for missing in unmet if missing), None)


class AnyOf:
    """At least one condition holds."""

    def __init__(self, *conditions: Condition) -> None:
        """Store the conditions; messages suggest the first."""
        self.conditions = conditions
        self.reads = tuple(name for condition in conditions for name in condition.reads)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:
        """Return what the first condition misses, or None if any holds."""
        first = None
        for condition in self.conditions:
            missing = condition.missing(values, facts)
            if missing is None:
                return None
            first = first or missing
        return first


@dataclass(frozen=True)
class WithMessage:
    """A condition with its own message."""

    condition: Condition
    why: str  # Reason, if it does not hold
    remedy: str  # How to make it hold
    text: str = ""  # The condition in documents; by default, the text of `condition`

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields and facts that the condition depends on."""
        return self.condition.reads

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:
        """Return the message, or None if the condition holds."""
        if self.condition.missing(values, facts) is None:
            return None
        return Missing(self.why, self.remedy)


@dataclass(frozen=True)
class Noted:
    """A condition whose failure is a warning of the answer, not a refusal.

    Where a fact that it depends on is not known yet, it counts as met.
    """

    condition: Condition

    @property
    def reads(self) -> tuple[str, ...]:
        """Nothing: no refusal depends on it."""
        return ()

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:
        """Return what is missing, marked as noted, or None if the condition holds."""
        if not all(name in values or name in facts for name in self.condition.reads):
            return None
        missing = self.condition.missing(values, facts)
        return missing and missing._replace(is_noted=True)


def _either(words: Iterable[str]) -> str:
    """Return words as a choice: "a, b or c"."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
