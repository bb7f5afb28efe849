"""Functions that are compiled once for all processes, where a folder can be written."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


def kept_entry(
    function: Callable[..., Any], sources: Iterable[Path], options: dict[str, object]
) -> Callable[..., Any]:
    """Return a compiled function that Python calls, kept on disk.

    The compiler's cache knows when the file of a function changes, but not when a part in another
    file does. The name therefore carries a digest of all sources: a changed part is a new entry.

    Args:
        function: Calls parts.
        sources: Files its parts are in.
        options: Of the compiler.
    """
    from numba import njit

    digest = sha256()
    for path in sorted(sources):
        digest.update(path.read_bytes())
    function.__qualname__ = f"{function.__qualname__}_{digest.hexdigest()[:16]}"
    try:
        compiled: Callable[..., Any] = njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # no folder for the cache can be written: every process compiles
        compiled = njit(**options)(function)
    return compiled
