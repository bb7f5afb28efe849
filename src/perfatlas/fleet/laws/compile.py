"""How the simulator is compiled: parts into an entry, and only entries are kept on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from numba import njit

from perfatlas.compiled import kept_entry

if TYPE_CHECKING:
    from collections.abc import Callable

# Nothing here allocates; without reference counts of the arrays passed it is six times faster.
_COMPILED_IN: Final = ("compile.py", "records.py")
_OPTIONS: Final[dict[str, object]] = {"error_model": "numpy", "_nrt": False}


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for compiled callers; it is compiled with the first of them.

    Args:
        function: Arithmetic on numbers, records and arrays.
    """
    compiled: Callable[..., Any] = njit(**_OPTIONS)(function)
    return compiled


def small_part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a part that is pasted into its callers: twice as fast for what every failure runs.

    Args:
        function: Arithmetic on numbers, records and arrays.
    """
    compiled: Callable[..., Any] = njit(forceinline=True, **_OPTIONS)(function)
    return compiled


def entry(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that Python calls, compiled once for all processes.

    Args:
        function: Calls parts of this room.
    """
    sources = (
        path
        for path in Path(__file__).parents[1].rglob("*.py")
        if path.name in _COMPILED_IN or b"part" in path.read_bytes()
    )
    return kept_entry(function, sources, _OPTIONS)
