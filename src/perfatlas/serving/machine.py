"""How the simulator is compiled: parts into one entry."""

from __future__ import annotations

from perfatlas.compiled import entry, inlined, part

__all__ = ["apart", "entry", "inlined", "part"]

apart = part
