"""Phi-1, Phi-1.5 and Phi-2: attention and feed-forward in parallel behind one norm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, gqa, group_layers

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("phi",)


def read(fields: Fields) -> Architecture:
    """Return a Phi with biases everywhere.

    Source: Li et al. 2023 (arXiv 2309.05463); transformers, `PhiDecoderLayer`.
    """
    if fields.boolean("qk_layernorm", default=False):
        raise fields.unsupported("qk_layernorm", "normalized queries and keys are not supported")
    attention = replace(gqa(fields), qkv_bias=True, output_bias=True)
    ffn = dense(fields, gated=False, bias=True)
    layers = group_layers([(attention, ffn)] * fields.num_layers(), norms=1)
    return replace(assemble(fields, layers), layer_norm_bias=True, lm_head_bias=True)
