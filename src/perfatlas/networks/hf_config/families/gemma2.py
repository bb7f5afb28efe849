"""Gemma 2: alternating windowed and full attention, four norms per layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import blocks

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("gemma2",)

_KINDS = ("full_attention", "sliding_attention")


def read(fields: Fields) -> Architecture:
    """Return a Gemma 2; layer 0 is windowed, layer 1 full, and so on."""
    depth = fields.num_layers()
    bias = fields.boolean("attention_bias", default=False)
    attention = replace(
        blocks.gqa(fields, head_dim=256, kv_heads=4), qkv_bias=bias, output_bias=bias
    )
    kinds = blocks.layer_types(fields, _KINDS, [_KINDS[i % 2 == 0] for i in range(depth)])
    ffn = blocks.dense(fields)
    mixers = blocks.windowed(attention, kinds, fields.window(absent=4096))
    return blocks.assemble(
        fields, blocks.group_layers(((m, ffn) for m in mixers), norms=4), tied=True
    )
