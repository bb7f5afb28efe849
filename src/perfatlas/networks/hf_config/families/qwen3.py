"""Qwen3 dense, also the text part of Qwen3-VL: normalized heads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, gqa, group_layers, windowed
from perfatlas.networks.hf_config.families.qwen2 import upper_windows

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("qwen3", "qwen3_vl", "qwen3_vl_text")


def read(fields: Fields) -> Architecture:
    """Return a Qwen3: RMS norm on every query and key head."""
    depth = fields.num_layers()
    bias = fields.boolean("attention_bias", default=False)
    attention = replace(
        gqa(fields, head_dim=128, kv_heads=32), qkv_bias=bias, output_bias=bias, qk_norm="head"
    )
    kinds, window = upper_windows(fields, depth)
    ffn = dense(fields)
    return assemble(
        fields, group_layers((mixer, ffn) for mixer in windowed(attention, kinds, window))
    )
