"""Qwen3-Next: three gated delta nets per full attention, routed and shared experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import blocks
from perfatlas.networks.layers import GatedDeltaNet, GqaAttention

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("qwen3_next",)

_KINDS = ("linear_attention", "full_attention")


def read(fields: Fields) -> Architecture:
    """Return a Qwen3-Next hybrid."""
    depth = fields.num_layers()
    ffns = blocks.choose_ffns(
        fields, blocks.moe_layers(fields, depth), blocks.shared_expert_moe(fields)
    )
    return blocks.assemble(
        fields, blocks.group_layers(zip(hybrid_mixers(fields, depth), ffns, strict=True))
    )


def hybrid_mixers(
    fields: Fields, depth: int, *, kv_heads: int = 2
) -> tuple[GqaAttention | GatedDeltaNet, ...]:
    """Return the mixer of each layer, by `layer_types` or every full_attention_interval-th full."""
    interval = fields.integer("full_attention_interval", default=4)
    rule = [_KINDS[(i + 1) % interval == 0] for i in range(depth)]
    bias = fields.boolean("attention_bias", default=False)
    attention = replace(
        blocks.gqa(fields, head_dim=256, kv_heads=kv_heads),
        qkv_bias=bias,
        output_bias=bias,
        qk_norm="head",
        output_gate=fields.boolean("attn_output_gate", default=True),
    )
    linear = _delta_net(fields)
    kinds = blocks.layer_types(fields, _KINDS, rule)
    return tuple(attention if kind == "full_attention" else linear for kind in kinds)


def _delta_net(fields: Fields) -> GatedDeltaNet:
    key_heads = fields.integer("linear_num_key_heads", default=16)
    value_heads = fields.integer("linear_num_value_heads", default=32)
    if value_heads % key_heads:
        raise fields.invalid(
            "linear_num_value_heads", f"must be a multiple of linear_num_key_heads = {key_heads}"
        )
    return GatedDeltaNet(
        num_key_heads=key_heads,
        num_value_heads=value_heads,
        key_head_dim=fields.integer("linear_key_head_dim", default=128),
        value_head_dim=fields.integer("linear_value_head_dim", default=128),
        conv_kernel=fields.integer("linear_conv_kernel_dim", default=4),
    )
