"""Qwen3 mixture of experts, also the text part of Qwen3-VL-MoE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import blocks

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("qwen3_moe", "qwen3_vl_moe", "qwen3_vl_moe_text")


def read(fields: Fields) -> Architecture:
    """Return a Qwen3-MoE: normalized heads, routed experts without shared ones."""
    depth = fields.num_layers()
    bias = fields.boolean("attention_bias", default=False)
    window = fields.window(absent=4096)
    if not fields.boolean("use_sliding_window", default=False):
        window = 0
    kv_heads = 4 if fields.text("model_type") == "qwen3_moe" else 16
    attention = replace(
        blocks.gqa(fields, kv_heads=kv_heads),
        qkv_bias=bias,
        output_bias=bias,
        qk_norm="head",
        window=window,
    )
    experts = blocks.moe(fields, experts=("num_experts", "num_local_experts"))
    ffns = blocks.choose_ffns(fields, blocks.moe_layers(fields, depth), experts)
    return blocks.assemble(fields, blocks.group_layers((attention, ffn) for ffn in ffns))
