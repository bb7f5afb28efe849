"""Qwen2 and Qwen2.5, also the text part of Qwen2-VL and Qwen2.5-VL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import blocks

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text")

_KINDS = ("full_attention", "sliding_attention")


def read(fields: Fields) -> Architecture:
    """Return a Qwen2: q, k and v have biases; the upper layers may be windowed."""
    depth = fields.num_layers()
    kv_heads = 32 if fields.text("model_type") == "qwen2" else 8
    attention = replace(blocks.gqa(fields, kv_heads=kv_heads), qkv_bias=True)
    kinds, window = upper_windows(fields, depth)
    ffn = blocks.dense(fields)
    return blocks.assemble(
        fields,
        blocks.group_layers((mixer, ffn) for mixer in blocks.windowed(attention, kinds, window)),
    )


def upper_windows(fields: Fields, depth: int) -> tuple[tuple[str, ...], int]:
    """Return the kind of each layer and the window [tokens] from max_window_layers on."""
    window = fields.window(absent=4096)
    if not fields.boolean("use_sliding_window", default=False):
        window = 0
    first = fields.integer("max_window_layers", default=28, minimum=0)
    rule = [_KINDS[window > 0 and i >= first] for i in range(depth)]
    return blocks.layer_types(fields, _KINDS, rule), window
