"""StarCoder2: grouped-query attention in a sliding window, biases everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, gqa, group_layers

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("starcoder2",)


def read(fields: Fields) -> Architecture:
    """Return a StarCoder2.

    Source: Lozhkov et al. 2024 (arXiv 2402.19173); transformers, `Starcoder2DecoderLayer`.
    """
    bias = fields.boolean("use_bias", default=True)
    attention = replace(
        gqa(fields, kv_heads=2), qkv_bias=bias, output_bias=bias, window=fields.window()
    )
    ffn = dense(fields, gated=False, bias=bias)
    layers = group_layers([(attention, ffn)] * fields.num_layers())
    return replace(assemble(fields, layers, tied=True), layer_norm_bias=True)
