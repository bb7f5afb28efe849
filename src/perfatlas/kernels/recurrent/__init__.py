"""Time of recurrent mixers: scans and short convolutions."""

from __future__ import annotations

from perfatlas.kernels.recurrent.physics import (
    CONV_DECODE_SHAPE,
    CONV_PREFILL_SHAPE,
    SCAN_DECODE_SHAPE,
    SCAN_PREFILL_SHAPE,
)

__all__ = [
    "CONV_DECODE_SHAPE",
    "CONV_PREFILL_SHAPE",
    "SCAN_DECODE_SHAPE",
    "SCAN_PREFILL_SHAPE",
]
