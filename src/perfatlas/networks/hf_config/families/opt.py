"""OPT: learned positions and biases everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, gqa, group_layers
from perfatlas.networks.layers import DenseFfn

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("opt",)

# rows for padding at the start of the table (transformers, `OPTLearnedPositionalEmbedding`)
_PADDING_ROWS = 2


def read(fields: Fields) -> Architecture:
    """Return an OPT.

    Source: Zhang et al. 2022 (arXiv 2205.01068); transformers, `OPTDecoder`.
    """
    # the layout of OPT-350m alone: norms behind the blocks and a narrower embedding
    hidden = fields.integer("hidden_size")
    if fields.integer("word_embed_proj_dim", default=hidden) != hidden:
        raise fields.unsupported(
            "word_embed_proj_dim",
            f"embeddings narrower than hidden_size = {hidden} are not supported",
        )
    if not fields.boolean("do_layer_norm_before", default=True):
        raise fields.unsupported(
            "do_layer_norm_before", "norms behind the blocks are not supported"
        )
    if fields.boolean("_remove_final_layer_norm", default=False):
        raise fields.unsupported(
            "_remove_final_layer_norm", "a missing final norm is not supported"
        )
    bias = fields.boolean("enable_bias", default=True)
    attention = replace(gqa(fields), qkv_bias=bias, output_bias=bias)
    ffn = DenseFfn(intermediate_size=fields.integer("ffn_dim"), gated=False, bias=bias)
    architecture = assemble(
        fields, group_layers([(attention, ffn)] * fields.num_layers()), tied=True
    )
    learned = fields.boolean("layer_norm_elementwise_affine", default=True)
    return replace(
        architecture,
        learned_norm=learned,
        layer_norm_bias=learned,
        position_rows=fields.tokens("max_position_embeddings", default=2048) + _PADDING_ROWS,
    )
