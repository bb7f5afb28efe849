"""Time of multi-head latent attention."""

from __future__ import annotations

from perfatlas.kernels.latent_attention.physics import (
    MLA_DECODE_SHAPE,
    MLA_PREFILL_SHAPE,
    mla_decode_time_s,
    mla_prefill_time_s,
)

__all__ = [
    "MLA_DECODE_SHAPE",
    "MLA_PREFILL_SHAPE",
    "mla_decode_time_s",
    "mla_prefill_time_s",
]
