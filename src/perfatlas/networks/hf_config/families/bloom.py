"""BLOOM: ALiBi attention, a normalized embedding and biases everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, gqa, group_layers
from perfatlas.networks.layers import DenseFfn

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("bloom",)

_NAMES = {
    "n_embed": "hidden_size",
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
    "seq_length": "max_position_embeddings",
}


def read(fields: Fields) -> Architecture:
    """Return a BLOOM; the biases of ALiBi are added inside the attention kernel.

    Source: BigScience 2022 (arXiv 2211.05100); transformers, `BloomBlock`.
    """
    fields = fields.renamed(_NAMES)
    attention = replace(gqa(fields), qkv_bias=True, output_bias=True)
    ffn = DenseFfn(intermediate_size=4 * fields.integer("hidden_size"), gated=False, bias=True)
    architecture = assemble(
        fields, group_layers([(attention, ffn)] * fields.num_layers()), tied=True
    )
    return replace(architecture, layer_norm_bias=True, embedding_norm=True)
