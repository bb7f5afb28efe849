"""What a field needs to have an effect, and the refusal where it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Facts = Mapping[str, Callable[[], str]]


class Condition(Protocol):
    """Something that holds for a question or does not."""

    def missing(self, values: Mapping[str, Any], facts: Facts) -> str:
        """Return what is missing, "" where the condition holds.

        Args:
            values: Every field of the question by name, defaults included.
            facts: What follows from the question: by name, why a fact does not hold, "" if it does.
        """
        ...


@dataclass(frozen=True)
class Given:
    """A field is set.

    Args:
        name: The field.
        example: A value, for the message.
    """

    name: str
    example: str = ""

    def missing(self, values: Mapping[str, Any], facts: Facts) -> str:  # noqa: ARG002 - protocol
        """Return that the field is to be set, "" where it is."""
        if values.get(self.name) not in (None, False, (), ""):
            return ""
        return f"it needs {self.name}{f', such as {self.example}' if self.example else ''}"


@dataclass(frozen=True)
class NotGiven:
    """A field is not set.

    Args:
        name: The field.
        why: What the field does in place of the one that is refused.
    """

    name: str
    why: str

    def missing(self, values: Mapping[str, Any], facts: Facts) -> str:  # noqa: ARG002 - protocol
        """Return what the other field does, "" where it is not set."""
        value = values.get(self.name)
        return "" if value in (None, False, (), "") else f"{self.name} = {value} {self.why}"


class Equals:
    """A field has one of some values."""

    def __init__(self, name: str, *wanted: object) -> None:
        """Hold the field and its values."""
        self.name, self.wanted = name, wanted

    def missing(self, values: Mapping[str, Any], facts: Facts) -> str:  # noqa: ARG002 - protocol
        """Return the values that are needed, "" where the field has one."""
        if values.get(self.name) in self.wanted:
            return ""
        return f"it needs {self.name} = {' or '.join(map(str, self.wanted))}"


@dataclass(frozen=True)
class Holds:
    """A fact that follows from the question, such as that the model has experts.

    Args:
        fact: Its name.
    """

    fact: str

    def missing(self, values: Mapping[str, Any], facts: Facts) -> str:  # noqa: ARG002 - protocol
        """Return why the fact does not hold, "" where it does."""
        return facts[self.fact]()


class AllOf:
    """Every condition holds."""

    def __init__(self, *conditions: Condition) -> None:
        """Hold the conditions."""
        self.conditions = conditions

    def missing(self, values: Mapping[str, Any], facts: Facts) -> str:
        """Return what the first that does not hold misses, "" where all hold."""
        found = (one.missing(values, facts) for one in self.conditions)
        return next((text for text in found if text), "")


class AnyOf:
    """At least one condition holds."""

    def __init__(self, *conditions: Condition) -> None:
        """Hold the conditions."""
        self.conditions = conditions

    def missing(self, values: Mapping[str, Any], facts: Facts) -> str:
        """Return what the first one misses, "" where any holds."""
        found = [one.missing(values, facts) for one in self.conditions]
        return found[0] if all(found) else ""
