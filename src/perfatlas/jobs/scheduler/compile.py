"""How the scheduler is compiled: parts into one entry, and only the entry is kept on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfatlas.compiled import kept_entry
from perfatlas.fleet.laws import part, small_part

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["entry", "part", "small_part"]


def entry(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that Python calls, compiled once for all processes.

    Args:
        function: Calls parts of this room.
    """
    sources = (
        path
        for path in Path(__file__).parents[1].rglob("*.py")
        if path.name in ("compile.py", "records.py") or b"part" in path.read_bytes()
    )
    return kept_entry(function, sources, {"error_model": "numpy", "_nrt": False})
