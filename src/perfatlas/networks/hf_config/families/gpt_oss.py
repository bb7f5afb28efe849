"""gpt-oss: attention sinks, alternating windows, biased experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import blocks

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("gpt_oss",)

_KINDS = ("full_attention", "sliding_attention")


def read(fields: Fields) -> Architecture:
    """Return a gpt-oss; layer 0 is windowed, layer 1 full, and so on."""
    depth = fields.num_layers()
    bias = fields.boolean("attention_bias", default=True)
    attention = replace(
        blocks.gqa(fields, head_dim=64, kv_heads=8), qkv_bias=bias, output_bias=bias, sinks=True
    )
    experts = replace(
        blocks.moe(fields, experts=("num_local_experts", "num_experts"), width="intermediate_size"),
        bias=True,
        router_bias=True,
    )
    kinds = blocks.layer_types(fields, _KINDS, [_KINDS[i % 2 == 0] for i in range(depth)])
    mixers = blocks.windowed(attention, kinds, fields.window(absent=128))
    return blocks.assemble(fields, blocks.group_layers((mixer, experts) for mixer in mixers))
