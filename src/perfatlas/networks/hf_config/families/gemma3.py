"""Gemma 3: five windowed layers per full one, normalized heads, four norms per layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import blocks
from perfatlas.networks.hf_config.fields import Fields

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture

MODEL_TYPES = ("gemma3", "gemma3_text")

_KINDS = ("full_attention", "sliding_attention")
# Released multimodal configs omit these; the defaults are those of Gemma3TextConfig
_DEFAULTS: dict[str, object] = {"num_attention_heads": 8, "vocab_size": 262_208}


def read(fields: Fields) -> Architecture:
    """Return a Gemma 3; every sliding_window_pattern-th layer has full attention."""
    fields = Fields(values=_DEFAULTS | dict(fields.values), origin=fields.origin)
    depth = fields.num_layers()
    bias = fields.boolean("attention_bias", default=False)
    attention = replace(
        blocks.gqa(fields, head_dim=256, kv_heads=4),
        qkv_bias=bias,
        output_bias=bias,
        qk_norm="head",
    )
    pattern = fields.integer("sliding_window_pattern", "_sliding_window_pattern", default=6)
    rule = [_KINDS[(i + 1) % pattern > 0] for i in range(depth)]
    mixers = blocks.windowed(
        attention, blocks.layer_types(fields, _KINDS, rule), fields.window(absent=4096)
    )
    ffn = blocks.dense(fields)
    return blocks.assemble(
        fields, blocks.group_layers(((m, ffn) for m in mixers), norms=4), tied=True
    )
