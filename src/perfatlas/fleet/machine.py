"""How the simulator is compiled: parts into one entry."""

from __future__ import annotations

from perfatlas.compiled import entry, inlined, part

__all__ = ["entry", "part", "small_part"]

small_part = inlined
