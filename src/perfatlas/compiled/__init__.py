"""The one place that compiles: parts, entries, and the machine code kept of them on disk."""

from __future__ import annotations

from perfatlas.compiled.columns import hold
from perfatlas.compiled.listeners import listening
from perfatlas.compiled.parts import entry, inlined, part
from perfatlas.compiled.reach import code_text

__all__ = ["code_text", "entry", "hold", "inlined", "listening", "part"]
