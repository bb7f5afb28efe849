"""Falcon: attention and feed-forward in parallel, multi-query or grouped-query attention."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, gqa, group_layers
from perfatlas.networks.hf_config.fields import Fields
from perfatlas.networks.layers import DenseFfn

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture

MODEL_TYPES = ("falcon", "RefinedWeb", "RefinedWebModel")

_NAMES = {
    "n_embed": "hidden_size",
    "n_head": "num_attention_heads",
    "n_head_kv": "num_kv_heads",
    "n_layer": "num_hidden_layers",
}


def read(fields: Fields) -> Architecture:
    """Return a Falcon; the number of norms follows from its decoder architecture.

    Source: Almazrouei et al. 2023 (arXiv 2311.16867); transformers, `FalconDecoderLayer`.
    """
    fields = fields.renamed(_NAMES)
    heads = fields.integer("num_attention_heads")
    new = fields.boolean("new_decoder_architecture", default=False)
    if new:
        kv_heads = fields.integer("num_kv_heads", default=heads)
    else:
        kv_heads = 1 if fields.boolean("multi_query", default=True) else heads
    values = {**fields.values, "num_key_value_heads": kv_heads}
    fields = Fields(values=values, origin=fields.origin)
    bias = fields.boolean("bias", default=False)
    attention = replace(gqa(fields), qkv_bias=bias, output_bias=bias)
    width = fields.integer("ffn_hidden_size", default=4 * fields.integer("hidden_size"))
    ffn = DenseFfn(intermediate_size=width, gated=False, bias=bias)
    layers = [(attention, ffn)] * fields.num_layers()
    norms = 2
    if new or fields.boolean("parallel_attn", default=True):
        norms = fields.integer("num_ln_in_parallel_attn", default=2 if new else 1, maximum=2)
    architecture = assemble(fields, group_layers(layers, norms=norms), tied=True)
    return replace(architecture, layer_norm_bias=True)
