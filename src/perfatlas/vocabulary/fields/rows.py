"""Rows of the table of fields: what each name means, declared once."""

from __future__ import annotations

import re
import types
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import PurePath
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from perfatlas.vocabulary.fields.numbers import Number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perfatlas.vocabulary.fields.conditions import Condition

POOLS: Final = ("prefill", "decode")
_ANNOTATED: Final[Any] = Annotated  # for types that are made here


@dataclass(frozen=True)
class Row:
    """One field.

    Args:
        text: What it is, a full sentence.
        default: What holds where it is not given, as help says it; by default the declared value.
        needs: What must hold for the field to have an effect; None for nothing.
        pools: Which pools of disaggregated serving may have their own value.
        by_replica: Whether each kind of replica may have its own value.
        alias: Another name of the flag.
        elsewhere: Names other tools give it; who writes one is told ours.
    """

    text: str
    default: str = ""
    needs: Condition | None = None
    pools: tuple[str, ...] = ()
    by_replica: bool = False
    alias: str = ""
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalog:
    """A name of a catalog, for completion and suggestions.

    Args:
        name: Which: models, systems, engines, formats, fleets, rates.
    """

    name: str


@dataclass(frozen=True)
class InputFile:
    """Text that names a file."""


@dataclass(frozen=True)
class Text:
    """Text with at least one letter.

    Args:
        at_most: Letters.
    """

    at_most: int = 4096

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:  # noqa: ANN401 - pydantic's protocol
        """Return the schema of pydantic: a path is its text."""
        from pydantic_core import core_schema

        text = handler(source) | {"min_length": 1, "max_length": self.at_most}
        return core_schema.no_info_before_validator_function(_path_text, text)


def _path_text(value: object) -> object:
    return str(value) if isinstance(value, PurePath) else value


@dataclass(frozen=True)
class Checked:
    """Text with a rule of its own.

    Args:
        check: Returns the text as it is meant, or raises an InvalidSpecError.
    """

    check: Callable[[str], str]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:  # noqa: ANN401 - pydantic's protocol
        """Return the schema of pydantic."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.check, handler(source))


@dataclass(frozen=True)
class Written:
    """A value that people may write as text, such as a mapping.

    Args:
        read: Returns the value of a text, and anything else as it is, or raises a ValueError.
    """

    read: Callable[[object], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:  # noqa: ANN401 - pydantic's protocol
        """Return the schema of pydantic: the text is read first."""
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.read, handler(source))


@dataclass(frozen=True)
class Group:
    """Fields that help and documents show together.

    Args:
        title: As help prints it.
        order: Place among the groups of a question.
        text: What they are, a sentence.
    """

    title: str
    order: int
    text: str


@dataclass(frozen=True)
class Field:
    """A row with what its declaration says beside it.

    Args:
        name: Of the flag, the key, the column and the argument.
        hint: Its annotated type.
        default: Its value where it is not given, None where that is derived.
        required: Whether it must be given.
        row: The row.
        group: Where it belongs.
    """

    name: str
    hint: Any
    default: Any
    required: bool
    row: Row
    group: Group

    @cached_property
    def parts(self) -> tuple[Any, ...]:
        """The plain type first, then what annotates it."""
        return tuple(_flat(self.hint))

    @property
    def type(self) -> Any:  # noqa: ANN401 - a type, or Any
        """Plain type: int, float, str, bool or another."""
        return str if self.choices else self.parts[0]

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The words it may have, none where it is not one of several."""
        return get_args(self.parts[0]) if get_origin(self.parts[0]) is Literal else ()

    def folded(self, value: object) -> object:
        """Return a word in any letter case as the choice it is, anything else as it is.

        Args:
            value: As a user wrote it.

        Example:
            >>> from perfatlas.vocabulary.fields import fields_asked
            >>> fields_asked("collective")["op"].folded("All-Reduce")
            'all_reduce'
        """
        if not self.choices or not isinstance(value, str):
            return value
        word = value.strip().casefold().replace("-", "_")
        return word if word in self.choices else value

    @cached_property
    def number(self) -> Number | None:
        """The rule of its number, None where it is none."""
        return next((part for part in self.parts if isinstance(part, Number)), None)

    @cached_property
    def catalog(self) -> str:
        """The catalog its names are of, "" for none."""
        return next((part.name for part in self.parts if isinstance(part, Catalog)), "")

    @property
    def is_file(self) -> bool:
        """Whether it names a file."""
        return any(isinstance(part, InputFile) for part in self.parts)

    @property
    def unit(self) -> str:
        """SI unit of its value, "" where it has none."""
        return self.number.unit if self.number else ""


def _flat(hint: Any) -> Iterable[Any]:  # noqa: ANN401 - any annotation
    """Yield the plain type of an annotation, then its metadata, `None` of a union left out."""
    if get_origin(hint) is Annotated:
        inner, *said = get_args(hint)
        yield from _flat(inner)
        yield from said
    elif get_origin(hint) in (Union, types.UnionType):
        (inner,) = (one for one in get_args(hint) if one is not type(None))
        yield from _flat(inner)
    else:
        yield hint


Table = TypeVar("Table", bound=type)
_GROUPS: Final[dict[type, Group]] = {}


def group(title: str, order: int) -> Callable[[Table], Table]:
    """Return a decorator that makes a class of annotated names a group of fields.

    Args:
        title: As help prints it.
        order: Place among the groups of a question.
    """

    def declare(table: Table) -> Table:
        _GROUPS[table] = Group(title, order, (table.__doc__ or "").partition("\n")[0])
        return table

    return declare


def varies_by_pool(*tables: type, needs: Condition) -> Callable[[Table], Table]:
    """Return a decorator that adds prefill_ and decode_ variants of the rows that have them.

    Args:
        *tables: Groups whose rows may have variants.
        needs: What must hold for the variants to have an effect.
    """

    def add(table: Table) -> Table:
        for name, found in fields_of(*tables).items():
            for pool in found.row.pools:
                subject = re.split("[.;:,]", found.row.text, maxsplit=1)[0]
                variant = Row(f"{subject} of each {pool} worker.", f"as {name}", needs)
                _add(table, f"{pool}_{name}", found.hint, variant)
        return table

    return add


def _add(table: type, name: str, hint: Any, row: Row) -> None:  # noqa: ANN401 - any annotation
    """Add a row that may be left out to a group."""
    table.__annotations__[name] = _ANNOTATED[hint | None, row]
    setattr(table, name, None)


def varies_by_replica(*tables: type) -> Callable[[Table], Table]:
    """Return a decorator that adds the rows that each kind of replica may have its own value of.

    Args:
        *tables: Groups of the scenario.
    """

    def add(table: Table) -> Table:
        for name, found in fields_of(*tables).items():
            if found.row.by_replica and name not in table.__annotations__:
                own = Row(found.row.text, "that of the scenario")
                _add(table, name, found.hint, own)
        return table

    return add


def fields_of(*tables: type) -> dict[str, Field]:
    """Return the fields of groups by name, in the order in which they are declared.

    Args:
        *tables: Classes that `group` decorates, and classes that inherit from them.

    Example:
        >>> from perfatlas.vocabulary.fields import Plan, fields_of
        >>> fields_of(Plan)["pp"].default
        1
    """
    found: dict[str, Field] = {}
    for table in tables:
        for base in reversed(table.__mro__):
            if base in _GROUPS:
                found |= _declared(base)
    return found


@cache
def _declared(table: type) -> dict[str, Field]:
    own = vars(table).get("__annotations__", {})
    hints = get_type_hints(table, include_extras=True)
    return {
        name: Field(
            name=name,
            hint=hints[name],
            default=getattr(table, name, None),
            required=not hasattr(table, name),
            row=next(part for part in reversed(list(_flat(hints[name]))) if isinstance(part, Row)),
            group=_GROUPS[table],
        )
        for name in own
    }
