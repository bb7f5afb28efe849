"""Time of multi-head latent attention."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.latent_attention.physics import (
        MLA_DECODE_SHAPE, MLA_PREFILL_SHAPE, mla_decode_time_s, mla_prefill_time_s,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
