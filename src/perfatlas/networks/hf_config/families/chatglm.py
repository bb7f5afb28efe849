"""ChatGLM2, ChatGLM3 and GLM-4 in their first format (`trust_remote_code`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, gqa, group_layers
from perfatlas.networks.hf_config.fields import Fields
from perfatlas.networks.layers import DenseFfn

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture

MODEL_TYPES = ("chatglm",)

_NAMES = {
    "num_layers": "num_hidden_layers",
    "padded_vocab_size": "vocab_size",
    "kv_channels": "head_dim",
    "seq_length": "max_position_embeddings",
}


def read(fields: Fields) -> Architecture:
    """Return a ChatGLM: multi-query groups, a gated feed-forward, RMS norms.

    Source: configuration_chatglm.py and modeling_chatglm.py of THUDM/chatglm3-6b.
    """
    if fields.has("inner_hidden_size", "position_encoding_2d"):
        raise fields.unsupported(
            fields.has("inner_hidden_size", "position_encoding_2d") or "",
            "the first ChatGLM (a prefix language model) is not supported; ChatGLM2, 3 and 4 are",
        )
    fields = fields.renamed(_NAMES)
    heads = fields.integer("num_attention_heads")
    grouped = fields.boolean("multi_query_attention", default=False)
    kv_heads = fields.integer("multi_query_group_num", default=1) if grouped else heads
    values = {**fields.values, "num_key_value_heads": kv_heads}
    fields = Fields(values=values, origin=fields.origin)
    bias = fields.boolean("add_bias_linear", default=False)
    attention = replace(
        gqa(fields),
        qkv_bias=bias or fields.boolean("add_qkv_bias", default=False),
        output_bias=bias,
    )
    ffn = DenseFfn(intermediate_size=fields.integer("ffn_hidden_size"), bias=bias)
    layers = group_layers([(attention, ffn)] * fields.num_layers())
    plain_norm = not fields.boolean("rmsnorm", default=True)
    return replace(assemble(fields, layers), layer_norm_bias=plain_norm)
