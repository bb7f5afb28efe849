"""Time of multi-head latent attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.latent_attention.physics import (
        MLA_DECODE_SHAPE as MLA_DECODE_SHAPE,
        MLA_PREFILL_SHAPE as MLA_PREFILL_SHAPE,
        mla_decode_time_s as mla_decode_time_s,
        mla_prefill_time_s as mla_prefill_time_s,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
