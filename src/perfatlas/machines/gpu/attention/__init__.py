"""Time of softmax attention in prefill and decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.attention.physics import (
        DECODE_ATTENTION_SHAPE as DECODE_ATTENTION_SHAPE,
        KEY_BLOCK as KEY_BLOCK,
        OUTPUT_BYTES as OUTPUT_BYTES,
        PREFILL_ATTENTION_SHAPE as PREFILL_ATTENTION_SHAPE,
        decode_attention_time_s as decode_attention_time_s,
        hot_share as hot_share,
        largest_part as largest_part,
        last_end as last_end,
        prefill_attention_time_s as prefill_attention_time_s,
        split_count as split_count,
        tile_size as tile_size,
        visible_blocks as visible_blocks,
    )
    from perfatlas.machines.gpu.attention.shape import (
        LATENT_SIZES as LATENT_SIZES,
        decode_format as decode_format,
        prefill_formats as prefill_formats,
        protocol_columns as protocol_columns,
        selects_keys as selects_keys,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
