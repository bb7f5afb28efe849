"""Compiled functions: parts, entries and loops, and the cache of their machine code on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.compiled.columns import hold as hold, named_row as named_row
    from perfatlas.compiled.draws import (
        exponential as exponential,
        replica_key as replica_key,
        uniform as uniform,
    )
    from perfatlas.compiled.event_heap import NODE as NODE, drop as drop, push as push
    from perfatlas.compiled.listeners import listening as listening
    from perfatlas.compiled.loops import compiled as compiled
    from perfatlas.compiled.parts import (
        entry as entry,
        inlined as inlined,
        optimized_entry as optimized_entry,
        part as part,
    )
    from perfatlas.compiled.reach import code_text as code_text
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
