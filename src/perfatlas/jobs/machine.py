"""How the scheduler is compiled: parts into one entry, and only the entry is kept on disk."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numba import njit

from perfatlas.fleet.machine import part, small_part

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["entry", "part", "small_part"]


def entry(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that Python calls, compiled once for all processes.

    The name carries a digest of the room: the compiler's cache does not see that a part in another
    file has changed.

    Args:
        function: Calls parts.
    """
    digest = sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        text = path.read_bytes()
        if b"perfatlas.jobs.machine" in text or path.name in ("machine.py", "state.py"):
            digest.update(text)
    function.__qualname__ = f"{function.__qualname__}_{digest.hexdigest()[:16]}"
    try:
        compiled: Callable[..., Any] = njit(
            cache=True, nogil=True, error_model="numpy", _nrt=False
        )(function)
    except RuntimeError:  # no folder for the cache can be written: every process compiles
        return part(function)
    return compiled
