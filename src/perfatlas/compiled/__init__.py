"""How functions are compiled: loops over rows, and entries kept on disk."""

from __future__ import annotations

from perfatlas.compiled.cached import kept_entry
from perfatlas.compiled.loops import compiled, compiled_part

__all__ = [
    "compiled",
    "compiled_part",
    "kept_entry",
]
