"""How the simulator is compiled: parts into an entry, and only entries are kept on disk."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

# Nothing here allocates; without reference counts of the arrays passed it is six times faster.
_COMPILED_IN: Final = ("machine.py", "state.py")
_OPTIONS: Final = {"error_model": "numpy", "_nrt": False}


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

    The compiler's cache knows when the file of an entry changes, but not when a part in another
    file does. The name therefore carries a digest of the room: a changed part is a new entry.

    Args:
        function: Calls parts.
    """
    digest = sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        text = path.read_bytes()
        if b"perfatlas.fleet.machine" in text or path.name in _COMPILED_IN:
            digest.update(text)
    function.__qualname__ = f"{function.__qualname__}_{digest.hexdigest()[:16]}"
    try:
        compiled: Callable[..., Any] = njit(cache=True, nogil=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder for the cache can be written: every process compiles
        return part(function)
    return compiled
