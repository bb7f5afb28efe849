"""Declarative fields of files: one way to read, check and reject values.

A reader takes a raw value from TOML, JSON or a table and its location, and returns the checked
value in SI units, or raises an error with location, value, rule and remedy.

Shape legend: L rows of a table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from perfatlas import quantities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
MAX_VALUE_LENGTH: Final = 80  # characters of a quantity or a name
_MAX_REFUSALS: Final = 5  # problems that one message lists
_FLAGS: Final = {"true": True, "false": False}


class Reader(Protocol[T_co]):
    """Reads and checks the value of a field."""

    def read(self, value: object, where: str) -> T_co:
        """Return the value.

        Args:
            value: Raw value from the file.
            where: File, table and key, for the message.

        Raises:
            InvalidSpecError: The value is invalid for this field.
        """


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number, with a unit if it has a dimension.

    Example:
        >>> from perfatlas.files import Number
        >>> Number(dimension="bytes", unit="B", least=1.0).read("2 KiB", "spec.toml: l2")
        2048.0
    """

    dimension: str = ""  # Dimension for `parse_quantity`; "" accepts only a bare number
    unit: str = ""  # SI unit in which messages state the range
    least: float = -math.inf  # Minimum [SI]
    most: float = math.inf  # Maximum [SI]
    whole: bool = False  # Whether it must be an integer
    example: str = ""  # Text with a unit, if a bare number is not accepted

    def read(self, value: object, where: str) -> float:
        """Return the number [SI]."""
        if isinstance(value, int) and value.bit_length() > MAX_VALUE_LENGTH:
            raise quantities.InvalidSpecError(
                f"{where} = {quantities.repr_for_error(value)} is out of range"
            )
        if not isinstance(value, str) and self.example:
            raise quantities.InvalidSpecError(
                f"{where} = {quantities.repr_for_error(value)}: write it with a unit, as"
                f" {self.example!r}"
            )
        if not self.dimension or isinstance(value, bool):
            number = self._bare(value, where)
        elif isinstance(value, str) and len(value) > MAX_VALUE_LENGTH:
            raise quantities.InvalidSpecError(
                f"{where} = {quantities.repr_for_error(value)} is not a number"
            )
        elif isinstance(value, (str, int, float)):
            number = quantities.parse_quantity(value, self.dimension, field=where)
        else:
            raise quantities.InvalidSpecError(
                f"{where} = {quantities.repr_for_error(value)}: expected a number, or text with a"
                " unit"
            )
        if problem := self.problem(number):
            raise quantities.InvalidSpecError(
                f"{where} = {quantities.repr_for_error(value)}{problem}"
            )
        return number

    def _bare(self, value: object, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            what = "a whole number" if self.whole else "a number"
            raise quantities.InvalidSpecError(
                f"{where} = {quantities.repr_for_error(value)}: expected {what}"
            )
        return float(value)

    def problem(self, number: float) -> str:
        """Return what is wrong with a number, or "".

        Args:
            number: The number [SI].
        """
        if math.isnan(number):
            return " is not a number"
        if self.whole and not number.is_integer():
            return ": expected a whole number"
        if self.least <= number <= self.most:
            return ""
        if number < 0.0 <= self.least or (number == 0.0 < self.least):
            return f": expected a positive number{'' if self.least > 0.0 else ' or 0'}"
        if math.isinf(self.most):
            return f": expected at least {self._limit(self.least)}"
        low, high = self._limit(self.least), self._limit(self.most)
        return f" is outside {low} to {high}{'; is the unit right?' if self.unit else ''}"

    def _limit(self, limit: float) -> str:
        return quantities.format_quantity(limit, self.unit) if self.unit else f"{limit:,.12g}"


@dataclass(frozen=True, kw_only=True)
class Whole:
    """An integer without a unit, as an `int`."""

    least: float = -math.inf  # Minimum
    most: float = math.inf  # Maximum

    def read(self, value: object, where: str) -> int:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise quantities.InvalidSpecError(
                f"{where} = {quantities.repr_for_error(value)}: expected a whole number"
            )
        Number(least=self.least, most=self.most).read(value, where)
        return value


@dataclass(frozen=True, kw_only=True)
class Duration:
    """A non-negative duration with a unit, such as "30 min" [s]."""

    def read(self, value: object, where: str) -> float:
        """Return the time [s]."""
        return quantities.parse_duration(value, field=where)


@dataclass(frozen=True, kw_only=True)
class Text:
    """A short printable text."""

    choices: tuple[str, ...] = ()  # Allowed values; empty for any
    empty: bool = True  # Whether it may be empty
    longest: int = MAX_VALUE_LENGTH  # Maximum length in characters
    expected: str = "a short text"  # Description of the expected value, for error messages

    def read(self, value: object, where: str) -> str:
        """Return the text."""
        is_valid = isinstance(value, str) and len(value) <= self.longest and (value or self.empty)
        if not isinstance(value, str) or not is_valid:
            raise quantities.InvalidSpecError(
                f"{where} = {quantities.repr_for_error(value)}: expected {self.expected}"
            )
        if self.choices and value not in self.choices:
            raise quantities.InvalidSpecError(
                f"{where} = {value!r} is not one of {', '.join(self.choices)}"
                f"{quantities.did_you_mean(value, self.choices)}"
            )
        if not value.isprintable():
            raise quantities.InvalidSpecError(
                f"{where} = {quantities.repr_for_error(value)}: expected {self.expected} without"
                " line breaks and"
                " control characters"
            )
        return value


@dataclass(frozen=True, kw_only=True)
class Flag:
    """A boolean, as in TOML or as text."""

    def read(self, value: object, where: str) -> bool:
        """Return the flag."""
        word = value.casefold() if isinstance(value, str) else ""
        if isinstance(value, bool) or word in _FLAGS:
            return value if isinstance(value, bool) else _FLAGS[word]
        raise quantities.InvalidSpecError(
            f"{where} = {quantities.repr_for_error(value)}: expected true or false"
        )


@dataclass(frozen=True, kw_only=True)
class Array(Generic[T]):
    """An array of values of one type."""

    of: Reader[T]  # Reader of an element
    expected: str = "an array"  # Description of the expected value, for error messages

    def read(self, value: object, where: str) -> tuple[T, ...]:
        """Return the values."""
        if not isinstance(value, list):
            raise quantities.InvalidSpecError(
                f"{where} = {quantities.repr_for_error(value)}: expected {self.expected}"
            )
        return tuple(self.of.read(item, where) for item in value)


@dataclass(frozen=True, kw_only=True)
class Named(Generic[T]):
    """A table from names to values of one type."""

    of: Reader[T]

    def read(self, value: object, where: str) -> dict[str, T]:
        """Return the values by name."""
        table = sub_table(value, where)
        return {name: self.of.read(item, f"{where}.{name}") for name, item in table.items()}


@dataclass(frozen=True, kw_only=True)
class Record(Generic[T]):
    """A nested table that is converted to an object."""

    fields: Mapping[str, Field[Any]]  # Fields of the table by key
    build: Callable[..., T]  # Builds the object from the fields that are set, by name

    def read(self, value: object, where: str) -> T:
        """Return the object."""
        table = sub_table(value, where, f"a table of {', '.join(self.fields)}")
        return self.build(**read_fields(table, self.fields, where))


@dataclass(frozen=True)
class Field(Generic[T]):
    """One key of a table."""

    reader: Reader[T]  # Reads its value
    _: KW_ONLY
    required: bool = False  # Whether the table must have it
    into: str = ""  # Attribute name; defaults to the key
    meaning: str = ""  # Description, shown if it is missing


def read_fields(
    table: Mapping[str, object], fields: Mapping[str, Field[Any]], where: str
) -> dict[str, Any]:
    """Return the checked fields of a table; all problems are reported in one error.

    Args:
        table: Raw table from TOML or JSON.
        fields: Known fields by key.
        where: File and table, for messages.

    Raises:
        InvalidSpecError: A key is unknown or missing, or a value is invalid.

    Example:
        >>> from perfatlas.files import Duration, Field, Whole, read_fields
        >>> fields = {"every": Field(Duration(), into="every_s"), "count": Field(Whole(least=0))}
        >>> read_fields({"every": "30 d", "count": 2}, fields, "job.toml: spares")
        {'every_s': 2592000.0, 'count': 2}
    """
    problems = [_unknown(key, fields, where) for key in table if key not in fields]
    values: dict[str, Any] = {}
    for key, field in fields.items():
        if key not in table:
            if field.required:
                problems.append(
                    f"{where}: {key} is missing{field.meaning and f': {field.meaning}'}"
                )
            continue
        try:
            values[field.into or key] = field.reader.read(table[key], f"{where}: {key}")
        except quantities.InvalidSpecError as problem:
            problems.append(str(problem))
    refuse_all(problems, where)
    return values


def refuse_all(problems: Sequence[str], where: str) -> None:
    """Raise one error with all problems of a table; do nothing if there are none.

    Args:
        problems: Sentences, each beginning with its location.
        where: The common location, stated once.

    Raises:
        InvalidSpecError: There is a problem.
    """
    if not problems:
        return
    first, *others = problems
    messages = [first, *(f"also {text.removeprefix(f'{where}: ')}" for text in others)]
    more = f"; and {len(messages) - _MAX_REFUSALS} more" if len(messages) > _MAX_REFUSALS else ""
    raise quantities.InvalidSpecError("; ".join(messages[:_MAX_REFUSALS]) + more)


def known_keys(table: Mapping[str, object], keys: Mapping[str, object], where: str) -> None:
    """Reject unknown keys.

    Args:
        table: Raw table from TOML.
        where: File and table, for messages.

    Raises:
        InvalidSpecError: A key is unknown.
    """
    refuse_all([_unknown(key, keys, where) for key in table if key not in keys], where)


def _unknown(key: str, fields: Mapping[str, object], where: str) -> str:
    nearest = quantities.did_you_mean(str(key), fields)
    return f"{where}: unknown key {quantities.repr_for_error(key)}{nearest}"


def sub_table(value: object, where: str, expected: str = "a table") -> Mapping[str, Any]:
    """Return a nested table.

    Args:
        value: Raw value from TOML.
        where: File and key, for messages.
        expected: Description of the expected value, for error messages.

    Raises:
        InvalidSpecError: It is not a table.
    """
    if not isinstance(value, Mapping):
        raise quantities.InvalidSpecError(
            f"{where} = {quantities.repr_for_error(value)}: expected {expected}"
        )
    return value


def sub_tables(value: object, where: str) -> list[Mapping[str, Any]]:
    """Return an array of tables.

    Args:
        value: Raw value from TOML.
        where: File and key, for messages.

    Raises:
        InvalidSpecError: It is not an array of tables.
    """
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise quantities.InvalidSpecError(
            f"{where} = {quantities.repr_for_error(value)}: expected an array of tables"
        )
    return value
