"""Time of a bandwidth-limited pass."""

from __future__ import annotations

from perfatlas.kernels.streaming.physics import STREAMING_SHAPE, streaming_time_s

__all__ = [
    "STREAMING_SHAPE",
    "streaming_time_s",
]
