"""What a field needs to have an effect, and what is missing where it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from perfatlas.quantities import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Facts = Mapping[str, Callable[[], "Missing | None"]]


class Missing(NamedTuple):
    """Why a field has no effect.

    Args:
        why: A clause, such as "backfill = none".
        remedy: What gives it one, a clause such as "set backfill = easy".
    """

    why: str
    remedy: str


def is_set(value: object) -> bool:
    """Return whether a value says anything: None, False, empty text and empty tables do not.

    Args:
        value: Of a field.

    Example:
        >>> from perfatlas.vocabulary.fields import is_set
        >>> is_set(0), is_set(False), is_set({})
        (True, False, False)
    """
    empty = isinstance(value, str | tuple | list | dict) and not value
    return value is not None and value is not False and not empty


def value_text(value: object) -> str:
    """Return the value of a field as messages show it.

    Args:
        value: Of any type.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return shown(",".join(f"{name}={value_text(one)}" for name, one in value.items()))
    if isinstance(value, str) and shown(value) == f"'{value}'":
        return value
    return shown(value)


class Condition(Protocol):
    """Something that holds for a question or does not."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields and facts it depends on."""
        ...

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:
        """Return what is missing, None where the condition holds.

        Args:
            values: Every field of the question by name, defaults included.
            facts: What follows from the question: by name, what is missing, None if it holds.
        """
        ...


class Given:
    """At least one of some fields is set."""

    def __init__(self, *names: str, example: str = "") -> None:
        """Hold the fields, and for the message a value of the first."""
        self.names, self.example = names, example

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields."""
        return self.names

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:  # noqa: ARG002 - protocol
        """Return that the fields are not set, None where one is."""
        if any(is_set(values.get(name)) for name in self.names):
            return None
        such_as = f", such as {self.example}" if self.example else ""
        if len(self.names) == 1:
            return Missing(f"{self.names[0]} is not set", f"set {self.names[0]}{such_as}")
        many = len(self.names) > 2
        none = f"none of {', '.join(self.names)}" if many else f"neither {' nor '.join(self.names)}"
        return Missing(f"{none} is set", f"set {_either(self.names)}{such_as}")


@dataclass(frozen=True)
class NotGiven:
    """A field is not set.

    Args:
        name: The field.
        why: What the field does in place of the one that is refused.
    """

    name: str
    why: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The field."""
        return (self.name,)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:  # noqa: ARG002 - protocol
        """Return what the other field does, None where it is not set."""
        value = values.get(self.name)
        if not is_set(value):
            return None
        return Missing(f"{self.name} = {value_text(value)} {self.why}", f"leave {self.name} out")


class Equals:
    """A field has one of some values."""

    def __init__(self, name: str, *wanted: object) -> None:
        """Hold the field and its values."""
        self.name, self.wanted = name, wanted

    @property
    def reads(self) -> tuple[str, ...]:
        """The field."""
        return (self.name,)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:  # noqa: ARG002 - protocol
        """Return the value there is and those that are needed, None where the field has one."""
        value = values.get(self.name)
        if value in self.wanted:
            return None
        why = f"{self.name} = {value_text(value)}" if is_set(value) else f"{self.name} is not set"
        return Missing(why, f"set {self.name} = {_either(map(value_text, self.wanted))}")


@dataclass(frozen=True)
class Differs:
    """A field has another value than one.

    Args:
        name: The field.
        value: The value.
    """

    name: str
    value: object

    @property
    def reads(self) -> tuple[str, ...]:
        """The field."""
        return (self.name,)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:  # noqa: ARG002 - protocol
        """Return the value, None where the field has another."""
        if values.get(self.name) != self.value:
            return None
        return Missing(f"{self.name} = {value_text(self.value)}", f"set another {self.name}")


@dataclass(frozen=True)
class Holds:
    """A fact that follows from the question, such as that the model has experts.

    Args:
        fact: Its name.
    """

    fact: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The fact."""
        return (self.fact,)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:  # noqa: ARG002 - protocol
        """Return why the fact does not hold, None where it does."""
        return facts[self.fact]()


class AllOf:
    """Every condition holds."""

    def __init__(self, *conditions: Condition) -> None:
        """Hold the conditions."""
        self.conditions = conditions

    @property
    def reads(self) -> tuple[str, ...]:
        """What any of them reads."""
        return tuple(name for one in self.conditions for name in one.reads)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:
        """Return what the first that does not hold misses, None where all hold."""
        found = (one.missing(values, facts) for one in self.conditions)
        return next((missing for missing in found if missing), None)


class AnyOf:
    """At least one condition holds."""

    def __init__(self, *conditions: Condition) -> None:
        """Hold the conditions, the one to ask for first."""
        self.conditions = conditions

    @property
    def reads(self) -> tuple[str, ...]:
        """What any of them reads."""
        return tuple(name for one in self.conditions for name in one.reads)

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:
        """Return what the first one misses, None where any holds."""
        first = None
        for one in self.conditions:
            found = one.missing(values, facts)
            if found is None:
                return None
            first = first or found
        return first


@dataclass(frozen=True)
class Worded:
    """A condition with a message of its own.

    Args:
        condition: The condition.
        why: Said where it does not hold.
        remedy: What makes it hold.
        text: What documents say that a field needs; by default, the text of the condition.
    """

    condition: Condition
    why: str
    remedy: str
    text: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """What the condition reads."""
        return self.condition.reads

    def missing(self, values: Mapping[str, Any], facts: Facts) -> Missing | None:
        """Return the message, None where the condition holds."""
        if self.condition.missing(values, facts) is None:
            return None
        return Missing(self.why, self.remedy)


def _either(words: Iterable[str]) -> str:
    """Return words as a choice: "a, b or c"."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
