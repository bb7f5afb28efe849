"""The one place that compiles: parts, entries, and the machine code kept of them on disk."""

from __future__ import annotations

from perfatlas.compiled.columns import hold
from perfatlas.compiled.listeners import Listener, listening
from perfatlas.compiled.parts import Entry, entry, inlined, part
from perfatlas.compiled.reach import code_text

__all__ = ["Entry", "Listener", "code_text", "entry", "hold", "inlined", "listening", "part"]
