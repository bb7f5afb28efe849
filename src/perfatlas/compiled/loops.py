"""Loops over shapes that run interpreted for a few rows and compiled for many.

Importing the compiler and loading its cache takes most of a second; one scenario has some tens of
distinct shapes, a table has 10^5. The same source is used for both.
"""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from perfatlas.compiled.columns import UnreadyArrayError, is_ready
from perfatlas.compiled.parts import CompilerOffError, entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

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
            return self._interpret(rows, *others)
        if self.machine is None:
            self.machine = entry(self.function)
        try:
            return self.machine(rows, *others)
        except UnreadyArrayError:
            return self._called_with_copies((rows, *others))
        except CompilerOffError:
            self.machine = self._interpret
            return self._interpret(rows, *others)

    def _interpret(self, *columns: NDArray[Any]) -> Any:  # noqa: ANN401 - as above
        """Return what the function returns, without the compiler."""
        with np.errstate(all="ignore"):
            return self.function(*columns)

    def _called_with_copies(self, columns: tuple[NDArray[Any], ...]) -> Any:  # noqa: ANN401 - as above
        """Return what the function returns for arrays that compiled code cannot receive as is."""
        used = [column if is_ready(column) else _copy(column) for column in columns]
        result = cast("Callable[..., Any]", self.machine)(*used)
        for column, copied in zip(columns, used, strict=True):
            if copied is column:
                continue
            if column.flags.writeable:
                column[...] = copied
            elif _copy(column).tobytes() != copied.tobytes():
                raise ValueError(f"{self.function.__qualname__} writes to a read-only array")
        return result


def _copy(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy that compiled code can read and write."""
    return np.array(array, array.dtype.newbyteorder("="), order="C")


def compiled(function: Loop) -> Loop:
    """Return a loop that interprets few rows and is compiled for many.

    Args:
        function: The loop; functions it calls are marked `part`.
    """
    return cast("Loop", Compiled(function))
