"""Time of softmax attention in prefill and decode."""

from __future__ import annotations

from perfatlas.kernels.attention.physics import (
    DECODE_ATTENTION_SHAPE,
    KEY_BLOCK,
    OUTPUT_BYTES,
    PREFILL_ATTENTION_SHAPE,
    decode_attention_time_s,
    hot_share,
    largest_part,
    last_end,
    prefill_attention_time_s,
    split_count,
    tile_size,
    visible_blocks,
)

__all__ = [
    "DECODE_ATTENTION_SHAPE",
    "KEY_BLOCK",
    "OUTPUT_BYTES",
    "PREFILL_ATTENTION_SHAPE",
    "decode_attention_time_s",
    "hot_share",
    "largest_part",
    "last_end",
    "prefill_attention_time_s",
    "split_count",
    "tile_size",
    "visible_blocks",
]
