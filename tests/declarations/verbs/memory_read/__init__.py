"""Time to read bytes from the memory of one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.memory_read.answer import memory_read
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
