"""Records of compiled code, declared as classes: mypy knows their fields, numpy their layout.

A field may also declare the attribute of a description, as users write it, that it holds; then its
checks and its value follow as well.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS: Final = {"int": "i8", "float": "f8", "np.uint64": "u8"}


class Packed(NamedTuple):
    """The attribute that a field of a record holds."""

    attribute: str  # with the name of what has it: "strategy.interval_s"
    none: float | None = None  # value where the attribute is None, or nothing has it
    least: float = -math.inf
    most: float = math.inf
    per_second: int = 1  # ticks of a time
    names: tuple[str, ...] = ()  # of which the field holds an index


def packed(attribute: str, none: float | None = None, **declared: Any) -> Any:  # noqa: ANN401 - the value of a field of any type
    """Return the declaration of a field that holds an attribute; arguments as of `Packed`."""
    return Packed(attribute, none, **declared)


def packed_fields(record: type) -> Iterator[tuple[str, Packed]]:
    """Yield the fields of a record that declare their attributes."""
    for name, declared in vars(record).items():
        if isinstance(declared, Packed):
            yield name, declared


def packed_values(record: type, where: str = "", /, **described: object) -> dict[str, Any]:
    """Return the fields of a record that hold attributes, checked.

    Args:
        where: Beginning of messages.
        **described: What has the attributes, by the name in their declarations; None for nothing.
            Attributes of others are left out.

    Raises:
        InvalidSpecError: A value is out of bounds or no known name.

    Example:
        >>> from types import SimpleNamespace
        >>> from perfatlas.compiled import packed, packed_values
        >>> class Level:
        ...     write: int = packed("level.write_s", per_second=1000, least=0.0, most=1e9)
        >>> packed_values(Level, level=SimpleNamespace(write_s=1.5))
        {'write': 1500}
    """
    values: dict[str, Any] = {}
    for field, declared in packed_fields(record):
        owner, _, attribute = declared.attribute.partition(".")
        if owner not in described:
            continue
        name, item = f"{where}{attribute}", described[owner]
        value: Any = None if item is None else getattr(item, attribute)
        if value is None:
            value = declared.none
        elif declared.names:
            if value not in declared.names:
                raise InvalidSpecError(
                    f"{name} = {value!r} is not one of {', '.join(declared.names)}"
                    f"{did_you_mean(value, declared.names)}"
                )
            value = declared.names.index(value)
        else:
            check_bounds(name, value, declared.least, declared.most)
            value *= declared.per_second
        values[field] = round(value) if record.__annotations__[field] == "int" else value
    return values


def pack_row(row: np.void, record: type, **described: object) -> None:
    """Write the fields of a row that hold attributes, as `packed_values` returns them."""
    for name, value in packed_values(record, **described).items():
        row[name] = value


def check_bounds(name: str, value: float, least: float, most: float) -> None:
    """Raise InvalidSpecError for a number out of bounds."""
    if least <= value <= most:
        return
    if isinstance(value, int) and isinstance(least, int):
        raise InvalidSpecError(f"{name} = {repr_for_error(value)}: expected {least:,} to {most:,}")
    raise InvalidSpecError(f"{name} = {value:g}: expected {least:g} to {most:g}")


def record_type(record: type) -> np.dtype[np.void]:
    """Return the numpy type of the rows that a class declares, aligned.

    Args:
        record: A class that is never built; its annotated fields are int (64 bits), float,
            np.uint64 or `repeated`; a number may be `packed`.

    Raises:
        TypeError: A field is of another type.

    Example:
        >>> from perfatlas.compiled import record_type
        >>> class Part:
        ...     birth: float  # under `from __future__ import annotations`
        ...     unit: int
        >>> record_type(Part).names
        ('birth', 'unit')
    """
    kinds = record.__annotations__
    several = {name: kind for name, kind in vars(record).items() if isinstance(kind, np.dtype)}
    unknown = [name for name in kinds if name not in several and kinds[name] not in _NUMBERS]
    if unknown:
        name = f"{record.__name__}.{unknown[0]}"
        raise TypeError(f"{name}: {kinds[unknown[0]]} is not one of {', '.join(_NUMBERS)}")
    fields = [(name, several.get(name) or _NUMBERS[kind]) for name, kind in kinds.items()]
    return np.dtype(fields, align=True)


def repeated(kind: type[int | float] | np.dtype[np.void], count: int) -> Any:  # noqa: ANN401 - the value of a field of any type
    """Return the declaration of a field with several numbers or records.

    Args:
        kind: int (64 bits), float, or the type of a record.
    """
    return np.dtype((kind, (count,)))
