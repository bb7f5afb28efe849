"""GPT-J: attention and feed-forward in parallel behind one norm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, gqa, group_layers
from perfatlas.networks.layers import DenseFfn

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("gptj",)

_NAMES = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
    "n_positions": "max_position_embeddings",
}


def read(fields: Fields) -> Architecture:
    """Return a GPT-J: no biases in the attention, biases in the feed-forward and the head.

    Source: Wang and Komatsuzaki 2021, mesh-transformer-jax; transformers, `GPTJBlock`.
    """
    fields = fields.renamed(_NAMES)
    width = fields.integer("n_inner", default=4 * fields.integer("hidden_size"))
    ffn = DenseFfn(intermediate_size=width, gated=False, bias=True)
    layers = group_layers([(gqa(fields), ffn)] * fields.num_layers(), norms=1)
    return replace(assemble(fields, layers), layer_norm_bias=True, lm_head_bias=True)
