"""How the loop is compiled: parts inline into one entry, which alone is kept on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from numba import njit, types
from numba.experimental import structref

from perfatlas.compiled import kept_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that compiled code may call; it is compiled with its first caller.

    Args:
        function: Arithmetic on numbers and arrays.
    """
    compiled: Callable[..., Any] = njit(error_model="numpy")(function)
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a part that is copied into its callers, however large; for what happens most.

    Args:
        function: Arithmetic on numbers and arrays.
    """
    compiled: Callable[..., Any] = njit(error_model="numpy", forceinline=True)(function)
    return compiled


def apart(compiled: Any) -> Callable[..., Any]:  # noqa: ANN401 - what numba makes of a function
    """Return a part compiled once more, for a second caller: shared, it is not copied into either.

    Args:
        compiled: A part.
    """
    return part(compiled.py_func)


def entry(function: Callable[..., Any], others: Iterable[Path] = ()) -> Callable[..., Any]:
    """Return a function compiled once for all processes, where a folder can be written.

    Args:
        function: What Python calls; its parts are marked `part`.
        others: Files of parts from outside this package.
    """
    sources = {*Path(__file__).parents[1].rglob("*.py"), *others}
    return kept_entry(function, sources, {"error_model": "numpy"})


@structref.register
class _HeldType(types.StructRef):  # type: ignore[misc] # untyped
    """Fields behind one pointer."""


class Held(structref.StructRefProxy):  # type: ignore[misc] # untyped
    """Stands for the fields outside compiled code; never built there."""


def holder(fields: tuple[str, ...]) -> Callable[..., Any]:
    """Return what compiled code calls to put a named tuple of many columns behind one pointer.

    A tuple is handed over whole, some hundred numbers in every call; a pointer is one.

    Args:
        fields: Names of the columns; they are read and written as those of the tuple.
    """
    structref.define_constructor(Held, _HeldType, fields)
    structref.define_boxing(_HeldType, Held)
    built: Callable[..., Any] = Held
    return built
