"""Compiled functions: parts, entries and loops, and the cache of their machine code on disk."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.compiled.columns import hold, named_row
    from perfatlas.compiled.draws import exponential, replica_key, uniform
    from perfatlas.compiled.event_heap import NODE, drop, push
    from perfatlas.compiled.listeners import listening
    from perfatlas.compiled.loops import compiled
    from perfatlas.compiled.parts import entry, inlined, optimized_entry, part
    from perfatlas.compiled.reach import code_text
    from perfatlas.compiled.records import (
        check_bounds, pack_row, packed, packed_fields, packed_values, record_type, repeated,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
