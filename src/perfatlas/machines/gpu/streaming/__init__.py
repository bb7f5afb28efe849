"""Time of a bandwidth-limited pass."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.streaming.physics import STREAMING_SHAPE, streaming_time_s
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
