"""The table of fields: types, bounds, defaults and conditions here, texts in data/fields.csv."""

from __future__ import annotations

import csv
import re
import types
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path, PurePath
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

from perfatlas.quantities import PerfatlasError, did_you_mean
from perfatlas.vocabulary.fields.conditions import AllOf
from perfatlas.vocabulary.fields.numbers import Number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perfatlas.vocabulary.fields.conditions import Condition

_FILE: Final = Path(__file__).parents[2] / "data" / "fields.csv"
POOLS: Final = ("prefill", "decode")
_ANNOTATED: Final[Any] = Annotated  # for types that are built at run time
_NUMBER: Final = Number(finite=False)
_FLAGS: Final[dict[object, bool]] = {
    word: flag
    for flag, words in ((True, "true t yes y on 1"), (False, "false f no n off 0"))
    for word in (flag, *words.split())
}


@dataclass(frozen=True)
class Row:
    """One field."""

    text: str  # Description, a full sentence
    default: str = ""  # Description of the default; empty for the declared value
    needs: Condition | None = None  # Condition for the field to have an effect; None for none
    pools: tuple[str, ...] = ()  # Pools of disaggregated serving that may override it
    by_replica: bool = False  # Whether each kind of replica may override it
    alias: str = ""  # Another name of the flag
    elsewhere: tuple[str, ...] = ()  # Names in other tools; a user who writes one is shown ours
    common: bool = False  # Whether --help shows it among many; --help-all shows every field
    positional: bool = False  # Whether a command line has it after the command, without a flag


@dataclass(frozen=True)
class Catalog:
    """The catalog that a name belongs to, for completion and suggestions."""

    name: str  # One of models, systems, engines, training_engines, formats, fleets, rates
    # Functions without arguments that return its names, each as "module:function"
    listed_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class InputFile:
    """Text that names an input file."""


@dataclass(frozen=True)
class Text:
    """Non-empty text; a path is read as its text."""

    at_most: int = 4096  # Maximum length in characters


@dataclass(frozen=True)
class Checked:
    """Text with its own validation."""

    check: Callable[[str], str]  # Returns the normalized text, or raises an InvalidSpecError


@dataclass(frozen=True)
class Written:
    """A value that may be written as text, such as a mapping."""

    # Parses text and returns other values unchanged, or raises a ValueError
    read: Callable[[object], object]


@dataclass(frozen=True)
class Group:
    """Fields that help and documentation show together."""

    title: str  # Heading in the help
    order: int  # Position among the groups of a verb
    text: str  # Description, a sentence


@dataclass(frozen=True)
class Field:
    """A row together with its declaration."""

    name: str  # Name of the flag, key, column and argument
    hint: Any  # Annotated type
    default: Any  # Default value; None if it is derived
    required: bool
    row: Row
    group: Group  # The group it belongs to

    @cached_property
    def parts(self) -> tuple[Any, ...]:
        """The plain type, then its annotations."""
        return tuple(_flat(self.hint))

    @property
    def type(self) -> Any:  # noqa: ANN401 - a type, or Any
        """The plain type: int, float, str, bool or another."""
        return str if self.choices else self.parts[0]

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The allowed values; empty if it is not an enumeration."""
        return get_args(self.parts[0]) if get_origin(self.parts[0]) is Literal else ()

    def folded(self, value: object) -> object:
        """Return a word in any letter case as the choice it is, anything else as it is.

        Example:
            >>> from perfatlas.vocabulary.fields import CollectiveShape, fields_of
            >>> fields_of(CollectiveShape)["op"].folded("All-Reduce")
            'all_reduce'
        """
        if not self.choices or not isinstance(value, str):
            return value
        word = value.strip().casefold().replace("-", "_")
        return word if word in self.choices else value

    def read(self, cell: object) -> Any:  # noqa: ANN401 - a value of the type of the field
        """Return a given cell as a value of the field.

        Args:
            cell: Not None, and no empty text: those are unset.

        Raises:
            ValueError: What was expected instead, and as a second argument the value as far as it
                was read.
            InvalidSpecError: A text fails its own validation.

        Example:
            >>> from perfatlas.vocabulary.fields import CollectiveShape, fields_of
            >>> fields_of(CollectiveShape)["bytes"].read("1MiB")
            1048576.0
        """
        value: Any = self.folded(cell)
        kind, *notes = self.parts
        for part in notes:
            if isinstance(part, Written | Number):
                value = part.read(value)
            elif isinstance(part, Text):
                value = _text_of(value, part.at_most)
        try:
            if self.number is not None:
                return self.number.checked(value, whole=kind is int)
            value = _choice(value, self.choices) if self.choices else _typed(kind, value)
        except ValueError as rule:
            raise ValueError(*rule.args, value) from None
        for part in notes:
            value = part.check(value) if isinstance(part, Checked) else value
        return value

    def read_all(
        self, cells: Sequence[Any], reader: Callable[[object], Any] | None = None
    ) -> tuple[list[Any], dict[int, Exception]]:
        """Return the values of cells (V), None where one is invalid, and why, by position.

        Args:
            reader: Reads a cell instead of `read`.
        """
        if self.number is not None and cells[1:] and set(map(type, cells)) <= {int, float}:
            found = self.number.checked_all(cells, whole=self.parts[0] is int)
            if found is not None:
                return found
        values: list[Any] = [None] * len(cells)
        wrong: dict[int, Exception] = {}
        for at, cell in enumerate(cells):
            try:
                values[at] = (reader or self.read)(cell)
            except (ValueError, PerfatlasError) as problem:
                wrong[at] = problem
        return values, wrong

    @cached_property
    def number(self) -> Number | None:
        """The rule of a numeric field, or None."""
        return next((part for part in self.parts if isinstance(part, Number)), None)

    @cached_property
    def catalog(self) -> str:
        """The catalog that its names belong to, or ""."""
        return next((part.name for part in self.parts if isinstance(part, Catalog)), "")

    @property
    def listed_by(self) -> tuple[str, ...]:
        """Functions that return the names of its catalog, each as "module:function"."""
        return next((part.listed_by for part in self.parts if isinstance(part, Catalog)), ())

    @property
    def is_file(self) -> bool:
        """Whether the value names a file."""
        return any(isinstance(part, InputFile) for part in self.parts)

    @property
    def unit(self) -> str:
        """The SI unit of the value, or ""."""
        return self.number.unit if self.number else ""


def _text_of(value: object, at_most: int) -> object:
    """Return the text of a path, anything else as it is, unless it is too long."""
    value = str(value) if isinstance(value, PurePath) else value
    if isinstance(value, str) and len(value.strip()) > at_most:
        raise ValueError(f"must have at most {at_most:,} characters")
    return value


def _choice(value: object, choices: tuple[str, ...]) -> str:
    """Return a value that is one of the choices."""
    word = value.strip() if isinstance(value, str) else ""
    if word not in choices:
        hint = did_you_mean(word, choices) if word else ""
        raise ValueError(f"expected one of {', '.join(choices)}{hint}")
    return word


def _typed(kind: Any, value: Any) -> Any:  # noqa: ANN401 - a type, and a value of it
    """Return a value of a type that is neither a number nor a choice."""
    if kind is Any:
        return value
    if hasattr(value, "tolist"):  # of numpy
        value = value.tolist()
    if kind is bool:
        word = value.strip().casefold() if isinstance(value, str) else value
        if isinstance(word, bool | int | float | str) and word in _FLAGS:
            return _FLAGS[word]
        raise ValueError("expected true or false")
    if kind is str:
        if not isinstance(value, str):
            raise ValueError("expected text")
        return value.strip()
    if kind is float:
        return _NUMBER.checked(_NUMBER.read(value), whole=False)
    if get_origin(kind) is tuple:
        if not isinstance(value, tuple | list) or not value:
            raise ValueError("expected a list of one or more")
        return tuple(_typed(get_args(kind)[0], item) for item in value)
    if not isinstance(value, dict):
        raise ValueError("expected a table")  # noqa: TRY004 - as all readers
    return {str(name): _typed(get_args(kind)[1], item) for name, item in value.items()}


def _flat(hint: Any) -> Iterable[Any]:  # noqa: ANN401 - any annotation
    """Yield the plain type of an annotation, then its metadata, skipping the `None` of a union."""
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        yield from _flat(inner)
        yield from notes
    elif get_origin(hint) in (Union, types.UnionType):
        (inner,) = (arg for arg in get_args(hint) if arg is not type(None))
        yield from _flat(inner)
    else:
        yield hint


Table = TypeVar("Table", bound=type)
_GROUPS: Final[dict[type, Group]] = {}


def group(title: str, order: int) -> Callable[[Table], Table]:
    """Return a decorator that declares a class of annotated names as a group of fields.

    Args:
        title: Heading in the help.
        order: Position among the groups of a verb.
    """

    def declare(table: Table) -> Table:
        _GROUPS[table] = Group(title, order, (table.__doc__ or "").partition("\n")[0])
        return table

    return declare


def declared_groups() -> tuple[type, ...]:
    """Return all groups that are imported, in the order in which they were."""
    return tuple(_GROUPS)


def varies_by_pool(*tables: type, needs: Condition) -> Callable[[Table], Table]:
    """Return a decorator that adds prefill_ and decode_ variants of the rows that allow them."""

    def add(table: Table) -> Table:
        for name, field in fields_of(*tables).items():
            for pool in field.row.pools:
                subject = re.split("[.;:,]", field.row.text, maxsplit=1)[0]
                pool_needs = needs if field.row.needs is None else AllOf(needs, field.row.needs)
                variant = Row(f"{subject} of each {pool} worker.", f"as {name}", pool_needs)
                _add(table, f"{pool}_{name}", field.hint, variant)
        return table

    return add


def _add(table: type, name: str, hint: Any, row: Row) -> None:  # noqa: ANN401 - any annotation
    """Add an optional row to a group."""
    table.__annotations__[name] = _ANNOTATED[hint | None, row]
    setattr(table, name, None)


def varies_by_replica(*tables: type) -> Callable[[Table], Table]:
    """Return a decorator that adds the rows that each kind of replica may override."""

    def add(table: Table) -> Table:
        for name, field in fields_of(*tables).items():
            if field.row.by_replica and name not in table.__annotations__:
                replica_row = Row(field.row.text, "that of the scenario")
                _add(table, name, field.hint, replica_row)
        return table

    return add


def fields_of(*tables: type) -> dict[str, Field]:
    """Return the fields of groups by name, in order of declaration.

    Args:
        *tables: Classes decorated with `group`, and their subclasses.

    Example:
        >>> from perfatlas.vocabulary.fields import Plan, fields_of
        >>> fields_of(Plan)["pp"].default
        1
    """
    return dict(_fields_of(tables))


@cache
def _fields_of(tables: tuple[type, ...]) -> dict[str, Field]:
    declared: dict[str, Field] = {}
    for table in tables:
        for base in reversed(table.__mro__):
            if base in _GROUPS:
                declared |= _declared(base)
    return declared


@cache
def _texts() -> dict[tuple[str, str], Row]:
    """Return the rows of the table by group and field, without their conditions."""
    with _FILE.open(newline="", encoding="utf-8") as file:
        return {
            (row["group"], row["field"]): Row(
                row["text"],
                row["default"],
                pools=tuple(row["pools"].split()),
                alias=row["alias"],
                elsewhere=tuple(row["elsewhere"].split()),
                by_replica="by_replica" in row["flags"],
                positional="positional" in row["flags"],
                common="common" in row["flags"],
            )
            for row in csv.DictReader(file)
        }


def _row(table: type, name: str, parts: list[Any]) -> Row:
    """Return the row of a field: shared, where its annotation has one, else that of the table."""
    shared = next((part for part in reversed(parts) if isinstance(part, Row)), None)
    needs = next((part for part in parts if hasattr(part, "missing")), None)
    return shared or replace(_texts()[table.__name__, name], needs=needs)


@cache
def _declared(table: type) -> dict[str, Field]:
    annotations = vars(table).get("__annotations__", {})
    hints = get_type_hints(table, include_extras=True)
    return {
        name: Field(
            name=name,
            hint=hints[name],
            default=getattr(table, name, None),
            required=not hasattr(table, name),
            row=_row(table, name, list(_flat(hints[name]))),
            group=_GROUPS[table],
        )
        for name in annotations
    }
