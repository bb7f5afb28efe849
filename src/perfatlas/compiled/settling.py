"""Which variables of a part hold the same value in all calls of its unit.

Branches on them are taken out before types are inferred; what they alone call is then not compiled.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from perfatlas.compiled.column_types import Columns, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Argument(NamedTuple):
    """An argument of the part.

    Args:
        place: Its number.
    """

    place: int


class Known(NamedTuple):
    """A constant, or what a global name stands for.

    Args:
        value: The value.
    """

    value: Any


class Alias(NamedTuple):
    """The value of another variable.

    Args:
        variable: Its name.
    """

    variable: str


class Item(NamedTuple):
    """An item of another variable.

    Args:
        variable: Its name.
    """

    variable: str


class Field(NamedTuple):
    """A field of another variable.

    Args:
        variable: Its name.
        field: Name of the field.
    """

    variable: str
    field: str


class Comparison(NamedTuple):
    """Two variables put into a function of two numbers.

    Args:
        function: The function.
        variables: Names of the variables.
    """

    function: Callable[..., Any]
    variables: tuple[str, str]


class Call(NamedTuple):
    """A call.

    Args:
        variable: Name of the variable that holds the function.
        arguments: Names of the variables passed.
    """

    variable: str
    arguments: tuple[str, ...]


Assigned: TypeAlias = "Argument | Known | Alias | Item | Field | Comparison | Call | None"
_COMPARED: Final = (
    *(operator.eq, operator.ne, operator.lt),
    *(operator.le, operator.gt, operator.ge),
)


def settled_values(
    arguments: tuple[Any, ...], assignments: Sequence[tuple[str, Assigned]]
) -> dict[str, Any]:
    """Return what variables that are assigned once hold, where that is the same in all calls.

    Args:
        arguments: Types of the arguments.
        assignments: Variables and what they are assigned, None for anything else, in the order of
            the source.
    """
    if not any(isinstance(kind, Columns | Rows) for kind in arguments):
        return {}
    times = Counter(name for name, _ in assignments)
    found = _Found(arguments)
    for name, assigned in assignments:
        if times[name] == 1:
            found.follow(name, assigned)
    return found.values


class _Found:
    """What variables hold: columns, and numbers that are settled.

    Args:
        arguments: Types of the arguments.

    Attributes:
        values: Numbers, by name of their variable.
    """

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        """Know nothing but the arguments."""
        self.values: dict[str, Any] = {}
        self._types: dict[str, Any] = {}
        self._arguments = arguments

    def follow(self, name: str, assigned: Assigned) -> None:
        """Note what a variable holds.

        Args:
            name: Of the variable.
            assigned: What it is assigned.
        """
        match assigned:
            case Argument(place):
                self._types[name] = self._arguments[place]
            case Known(value):
                self.values[name] = value
            case Alias(variable):
                for held in (self._types, self.values):
                    if variable in held:
                        held[name] = held[variable]
            case Item(variable) if isinstance(kind := self._types.get(variable), Rows):
                self._types[name] = kind.item
            case Field(variable, field) if isinstance(kind := self._types.get(variable), Columns):
                if field in kind.settled:
                    self.values[name] = kind.settled[field]
            case _:
                self._evaluate(name, assigned)

    def _evaluate(self, name: str, assigned: Assigned) -> None:
        """Note what an expression comes to, where that is known."""
        match assigned:
            case Comparison(function, variables) if function in _COMPARED:
                sides = [self.values.get(variable) for variable in variables]
                if all(isinstance(side, int | float) for side in sides):
                    self.values[name] = function(*sides)
            case Call(variable, (argument,)) if self.values.get(variable) is bool:
                if isinstance(self.values.get(argument), int | float):
                    self.values[name] = bool(self.values[argument])
