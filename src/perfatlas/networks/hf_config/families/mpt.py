"""MPT: ALiBi attention without biases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, gqa, group_layers
from perfatlas.networks.layers import DenseFfn

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("mpt",)

_NAMES = {
    "d_model": "hidden_size",
    "n_heads": "num_attention_heads",
    "n_layers": "num_hidden_layers",
    "max_seq_len": "max_position_embeddings",
}


def read(fields: Fields) -> Architecture:
    """Return an MPT.

    Source: MosaicML 2023, llm-foundry; transformers, `MptBlock`.
    """
    fields = fields.renamed(_NAMES)
    if not fields.boolean("no_bias", default=True):
        raise fields.unsupported("no_bias", "an MPT with biases is not supported")
    options = fields.child("attn_config")
    if options is not None:
        if options.text("attn_type", default="multihead_attention") != "multihead_attention":
            raise options.unsupported("attn_type", "only multihead_attention is supported")
        if options.boolean("qk_ln", default=False):
            raise options.unsupported("qk_ln", "normalized queries and keys are not supported")
        if not options.boolean("alibi", default=True):
            raise options.unsupported("alibi", "learned positions are not supported")
    expansion = fields.integer("expansion_ratio", default=4, maximum=64)
    ffn = DenseFfn(intermediate_size=expansion * fields.integer("hidden_size"), gated=False)
    layers = group_layers([(gqa(fields), ffn)] * fields.num_layers())
    return assemble(fields, layers, tied=True)
