"""Streams of computation and communication that run at the same time and slow each other down."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.step.overlap.contention import contended_rate, exposed_in_tiles, exposed_time
    from perfatlas.step.overlap.streams import ON_START, Exposed, Streams, exposed_communication
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
