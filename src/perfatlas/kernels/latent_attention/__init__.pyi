from .physics import (
    MLA_DECODE_SHAPE as MLA_DECODE_SHAPE,
    MLA_PREFILL_SHAPE as MLA_PREFILL_SHAPE,
    mla_decode_time_s as mla_decode_time_s,
    mla_prefill_time_s as mla_prefill_time_s,
)
