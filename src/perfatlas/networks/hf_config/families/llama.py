"""Llama 2, 3, 3.1, 3.2 (text), 3.3 and models that reuse their config class."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, gqa, group_layers

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("llama",)


def read(fields: Fields) -> Architecture:
    """Return a Llama: grouped-query attention and a gated feed-forward in every layer."""
    bias = fields.boolean("attention_bias", default=False)
    attention = replace(gqa(fields), qkv_bias=bias, output_bias=bias)
    ffn = dense(fields, bias=fields.boolean("mlp_bias", default=False))
    return assemble(fields, group_layers([(attention, ffn)] * fields.num_layers()))
