"""Find the variables of a part that are constant for all calls of its unit.

Branches on them are removed before type inference, so that code only they reach is not compiled.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from perfatlas.compiled.column_types import Columns, Rows, type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Argument(NamedTuple):
    """An argument of the part."""

    position: int


class Known(NamedTuple):
    """A constant, or the value of a global name."""

    value: Any


class Alias(NamedTuple):
    """The value of another variable."""

    variable: str


class Item(NamedTuple):
    """An item of another variable."""

    variable: str


class Field(NamedTuple):
    """A field of another variable."""

    variable: str
    field: str


class Comparison(NamedTuple):
    """A binary function of two variables."""

    function: Callable[..., Any]
    variables: tuple[str, str]


class Call(NamedTuple):
    """A call."""

    variable: str  # Name of the variable that holds the function
    arguments: tuple[str, ...]  # Names of the variables passed


Assigned: TypeAlias = "Argument | Known | Alias | Item | Field | Comparison | Call | None"
_COMPARED: Final = (
    *(operator.eq, operator.ne, operator.lt),
    *(operator.le, operator.gt, operator.ge),
)


def settled_values(
    arguments: tuple[Any, ...], assignments: Sequence[tuple[str, Assigned]]
) -> dict[str, Any]:
    """Return the constant values of variables that are assigned once.

    Args:
        assignments: Variables and their assigned values, None for other expressions, in source
            order.
    """
    if not any(isinstance(kind, Columns | Rows) for kind in arguments):
        return {}
    times = Counter(name for name, _ in assignments)
    settled = _Settled(arguments)
    for name, assigned in assignments:
        if times[name] == 1:
            settled.follow(name, assigned)
    return settled.values


class _Settled:
    """Known contents of variables: columns and settled numbers.

    Args:
        arguments: Types of the arguments.

    Attributes:
        values: Numbers, by name of their variable.
    """

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        """Start with the arguments only."""
        self.values: dict[str, Any] = {}
        self._types: dict[str, Any] = {}
        self._arguments = arguments

    def follow(self, name: str, assigned: Assigned) -> None:
        """Record the value of a variable."""
        match assigned:
            case Argument(position):
                self._types[name] = self._arguments[position]
            case Known(value):
                self.values[name] = value
            case Alias(variable):
                for values in (self._types, self.values):
                    if variable in values:
                        values[name] = values[variable]
            case Item(variable) if isinstance(kind := self._types.get(variable), Rows):
                self._types[name] = kind.item
            case Field(variable, field) if isinstance(kind := self._types.get(variable), Columns):
                if field in kind.settled:
                    self.values[name] = kind.settled[field]
                elif field in kind.fields:
                    self._types[name] = type_of(kind.fields[field][1])
            case _:
                self._evaluate(name, assigned)

    def _evaluate(self, name: str, assigned: Assigned) -> None:
        """Evaluate an expression where its operands are known."""
        match assigned:
            case Comparison(function, variables) if function in _COMPARED:
                sides = [self.values.get(variable) for variable in variables]
                if all(isinstance(side, int | float) for side in sides):
                    self.values[name] = function(*sides)
            case Call(variable, (argument,)) if self.values.get(variable) is bool:
                if isinstance(self.values.get(argument), int | float):
                    self.values[name] = bool(self.values[argument])
