"""The one place that compiles: parts, entries, and the machine code kept of them on disk."""

from __future__ import annotations

from perfatlas.compiled.listeners import Listener, listening
from perfatlas.compiled.parts import Entry, entry, part

__all__ = ["Entry", "Listener", "entry", "listening", "part"]
