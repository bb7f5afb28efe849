"""Qwen1.5-MoE and Qwen2-MoE: routed experts and a gated shared expert."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import blocks

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("qwen2_moe",)

_KINDS = ("full_attention", "sliding_attention")


def read(fields: Fields) -> Architecture:
    """Return a Qwen2-MoE: biased q, k, v and a shared expert scaled by a sigmoid."""
    depth = fields.num_layers()
    bias = fields.boolean("qkv_bias", default=True)
    attention = replace(blocks.gqa(fields, kv_heads=16), qkv_bias=bias)
    window = fields.window(absent=4096)
    if not fields.boolean("use_sliding_window", default=False):
        window = 0
    first_full = fields.integer("max_window_layers", default=28, minimum=0)
    rule = [_KINDS[window > 0 and i % 2 == 0 and i < first_full] for i in range(depth)]
    mixers = blocks.windowed(attention, blocks.layer_types(fields, _KINDS, rule), window)
    ffns = blocks.choose_ffns(
        fields, blocks.moe_layers(fields, depth), blocks.shared_expert_moe(fields)
    )
    return blocks.assemble(fields, blocks.group_layers(zip(mixers, ffns, strict=True)))
