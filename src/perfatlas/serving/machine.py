"""How the simulator is compiled: parts into one entry."""

from __future__ import annotations

from perfatlas.compiled import entry, part

__all__ = ["apart", "entry", "inlined", "part"]

inlined = part
apart = part
