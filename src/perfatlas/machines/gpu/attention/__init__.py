"""Time of softmax attention in prefill and decode."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.attention.physics import (
        DECODE_ATTENTION_SHAPE, KEY_BLOCK, OUTPUT_BYTES, PREFILL_ATTENTION_SHAPE,
        decode_attention_time_s, hot_share, largest_part, last_end, prefill_attention_time_s,
        split_count, tile_size, visible_blocks,
    )
    from perfatlas.machines.gpu.attention.shape import (
        LATENT_SIZES, decode_format, prefill_formats, protocol_columns, selects_keys,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
