"""GPT-NeoX and Pythia: attention and feed-forward in parallel, a norm for each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, gqa, group_layers

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("gpt_neox",)


def read(fields: Fields) -> Architecture:
    """Return a GPT-NeoX; `use_parallel_residual` changes the order of blocks, not their work.

    Source: Black et al. 2022 (arXiv 2204.06745); transformers, `GPTNeoXLayer`.
    """
    bias = fields.boolean("attention_bias", default=True)
    attention = replace(gqa(fields), qkv_bias=bias, output_bias=bias)
    ffn = dense(fields, gated=False, bias=True)
    layers = group_layers([(attention, ffn)] * fields.num_layers())
    return replace(assemble(fields, layers), layer_norm_bias=True)
