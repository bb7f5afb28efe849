"""Loops over shapes that run interpreted for a few rows and compiled for many.

Importing the compiler and loading its cache costs most of a second; one scenario has some tens of
distinct shapes, a table has 10^5. The same source serves both.
"""

from __future__ import annotations

from functools import update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")
Loop = TypeVar("Loop", bound="Callable[..., Any]")

# Below this many rows interpreting is faster than loading the compiler.
FEW_ROWS: Final = 96
# A loop that has interpreted this many in small calls will meet more: a table of many groups.
MANY_ROWS: Final = 2000
_PARTS: Final[dict[str, Any]] = {}


def compiled_part(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function unchanged, known as one that compiled loops may call.

    Args:
        function: Plain arithmetic on rows and numbers.
    """
    _PARTS[_key(function)] = None
    return function


class Compiled:
    """A loop over rows, compiled when it first meets many of them.

    Args:
        function: (shape_UD, silicon_US, parameters_UP) -> (time_s_U, bound_U), written in what
            both the interpreter and the compiler read.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Keep the function; nothing is compiled yet."""
        self.function = function
        self.machine: Callable[..., Any] | None = None
        self.interpreted = 0
        update_wrapper(self, function)

    def __call__(self, rows: Any, *others: Any) -> Any:  # noqa: ANN401 - as the function it wraps
        """Return what the function returns."""
        few = len(rows) < FEW_ROWS and self.interpreted < MANY_ROWS
        if self.machine is None and few:
            self.interpreted += len(rows)
            with np.errstate(all="ignore"):
                return self.function(rows, *others)
        if self.machine is None:
            self.machine = _machine(self.function)
        return self.machine(rows, *others)


def compiled(function: Loop) -> Loop:
    """Return a loop over rows that interprets few and compiles for many.

    Args:
        function: The loop; functions it calls are marked `compiled_part`.
    """
    return cast("Loop", Compiled(function))


def _key(function: Any) -> str:  # noqa: ANN401 - any function
    return f"{function.__module__}.{function.__qualname__}"


def _machine(function: Any) -> Callable[..., Any]:  # noqa: ANN401 - any function
    """Compile a function and the parts it names, each part once."""
    from numba import njit

    parts: dict[str, Any] = {}
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType) and _key(value) in _PARTS:
            if _PARTS[_key(value)] is None:
                _PARTS[_key(value)] = _machine(value)
            parts[name] = _PARTS[_key(value)]
    bound = FunctionType(function.__code__, {**function.__globals__, **parts}, function.__name__)
    bound.__qualname__ = function.__qualname__
    machine: Callable[..., Any] = njit(cache=True, error_model="numpy")(bound)
    return machine
