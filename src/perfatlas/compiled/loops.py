"""Loops over shapes that run interpreted for a few rows and compiled for many.

Importing the compiler and loading its cache takes most of a second; one scenario has some tens of
distinct shapes, a table has 10^5. The same source is used for both.
"""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from perfatlas.compiled.parts import entry

if TYPE_CHECKING:
    from collections.abc import Callable

Loop = TypeVar("Loop", bound="Callable[..., Any]")

# Below this number of rows, interpreting is faster than loading machine code.
FEW_ROWS: Final = 96
# Compile once this many rows were interpreted in small calls: a table of many groups has more.
MANY_ROWS: Final = 2000


class Compiled:
    """A loop over rows, compiled when it is first called with many of them.

    Args:
        function: Takes shape_UD, silicon_US and parameters_UP and writes time_s_U and bound_U; uses
            only what both the interpreter and the compiler support.
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
            self.machine = entry(self.function)
        given = (rows, *others)
        used = [np.ascontiguousarray(one) for one in given]
        result = self.machine(*used)
        for one, copied in zip(given, used, strict=True):
            if (
                copied is not one and one.flags.writeable
            ):  # a strided array that it may have written
                one[...] = copied
        return result


def compiled(function: Loop) -> Loop:
    """Return a loop that interprets few rows and is compiled for many.

    Args:
        function: The loop; functions it calls are marked `part`.
    """
    return cast("Loop", Compiled(function))
