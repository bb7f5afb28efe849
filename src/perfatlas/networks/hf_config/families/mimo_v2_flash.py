"""MiMo-V2-Flash: five windowed layers with sinks per full one, routed experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import blocks

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields
    from perfatlas.networks.layers import GqaAttention

MODEL_TYPES = ("mimo_v2_flash",)

_KINDS = ("full_attention", "sliding_attention")
_PERIOD = 6


def read(fields: Fields) -> Architecture:
    """Return a MiMo-V2-Flash.

    Source: transformers, `MiMoV2FlashAttention`, `MiMoV2FlashConfig`.
    Limits: The dense multi-token-prediction layers of the checkpoint are not in its config.
    """
    depth = fields.num_layers()
    local, full = _attentions(fields)
    rule = [i > 0 and (i + 1) % _PERIOD > 0 for i in range(depth)]
    windowed = blocks.flags(fields, "hybrid_layer_pattern", depth, rule)
    kinds = blocks.layer_types(fields, _KINDS, [_KINDS[flag] for flag in windowed])
    experts = replace(blocks.moe(fields, experts=("n_routed_experts",)), router_bias=True)
    sparse = blocks.flags(fields, "moe_layer_freq", depth, [i > 0 for i in range(depth)])
    ffns = blocks.choose_ffns(fields, sparse, experts)
    mixers = (full if kind == "full_attention" else local for kind in kinds)
    return blocks.assemble(fields, blocks.group_layers(zip(mixers, ffns, strict=True)))


def _attentions(fields: Fields) -> tuple[GqaAttention, GqaAttention]:
    """Return the attention of windowed and of full layers."""
    bias = fields.boolean("attention_bias", default=False)
    full = replace(
        blocks.gqa(fields, head_dim=192),
        value_head_dim=fields.integer("v_head_dim", default=128),
        qkv_bias=bias,
    )
    previous = fields.window("sliding_window_size")
    local = replace(
        full,
        num_heads=fields.integer("swa_num_attention_heads", default=full.num_heads),
        num_kv_heads=fields.integer("swa_num_key_value_heads", default=2 * full.num_kv_heads),
        head_dim=fields.integer("swa_head_dim", default=full.head_dim),
        value_head_dim=fields.integer("swa_v_head_dim", default=full.value_head_dim),
        # a query sees itself and `sliding_window_size` tokens before it
        window=previous + 1 if previous else fields.window(absent=129),
        sinks=fields.boolean("add_swa_attention_sink_bias", default=True),
    )
    return local, full
