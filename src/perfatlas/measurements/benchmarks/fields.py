"""Typed reading of external JSON; errors name the key and its value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import MILLISECOND_S, InvalidSpecError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_VALUE: Final = 1e15  # largest plausible count, time or rate of a benchmark
MIN_VALUE: Final = 1e-9  # smallest nonzero value


@dataclass(frozen=True)
class Fields:
    """The members of a JSON object."""

    members: Mapping[str, Any]
    path: str = ""  # Position in the file, "" for the outermost one

    def require(self, *names: str) -> None:
        """Raise for an object with missing members."""
        missing = [self._name(name) for name in names if self.members.get(name) is None]
        if missing:
            raise InvalidSpecError(f"{', '.join(missing)} missing")

    def number(self, name: str) -> float | None:
        """Return a number of at least 0, None where missing.

        Example:
            >>> from perfatlas.measurements.benchmarks.fields import Fields
            >>> Fields({"completed": 3}).number("completed")
            3.0
        """
        value = self.members.get(name)
        if value is None:
            return None
        return as_number(value, self._name(name))

    def positive(self, name: str) -> float | None:
        """Return a number, None where it is 0, as benchmarks write 0 for unmeasured values."""
        return self.number(name) or None

    def milliseconds(self, name: str) -> float | None:
        """Return a time written in milliseconds [s], None where it is missing or 0."""
        value = self.positive(name)
        return None if value is None else value * MILLISECOND_S

    def length(self, name: str, requests: float = 1.0) -> float:
        """Return the mean tokens of a request [tokens]."""
        tokens = self.positive(name)
        if tokens is None:
            raise InvalidSpecError(
                f"{self._name(name)} = 0 or missing: the request lengths are unknown"
            )
        return tokens / requests

    def total(self, name: str) -> float | None:
        """Return the sum of a list of numbers, None where missing."""
        values = self.members.get(name)
        if values is None:
            return None
        if not isinstance(values, list):
            raise InvalidSpecError(
                f"{self._name(name)} = {repr_for_error(values)}: expected a list"
            )
        return math.fsum(as_number(value, self._name(name)) for value in values)

    def text(self, name: str) -> str:
        """Return a text, "" where missing."""
        value = self.members.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise InvalidSpecError(f"{self._name(name)} = {repr_for_error(value)}: expected text")
        return value

    def part(self, name: str) -> Fields:
        """Return an inner object, empty where missing."""
        value = self.members.get(name)
        if value is None:
            return Fields({}, self._name(name))
        if not isinstance(value, dict):
            raise InvalidSpecError(
                f"{self._name(name)} = {repr_for_error(value)}: expected an object"
            )
        return Fields(value, self._name(name))

    def _name(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def as_number(value: object, name: str) -> float:
    """Return a JSON number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidSpecError(f"{name} = {repr_for_error(value)}: expected a number")
    if value == 0 or MIN_VALUE <= value <= MAX_VALUE:
        return float(value)
    raise InvalidSpecError(
        f"{name} = {repr_for_error(value)}: expected 0 or a number from {MIN_VALUE:g} to"
        f" {MAX_VALUE:g}"
    )
