"""DeepSeek-V2, V2-Lite and V2.5: latent attention, softmax-routed experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, choose_ffns, group_layers, mla
from perfatlas.networks.hf_config.families.deepseek_v3 import experts, sparse_layers

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("deepseek_v2",)


def read(fields: Fields) -> Architecture:
    """Return a DeepSeek-V2; without q_lora_rank the query projection is direct (V2-Lite)."""
    depth = fields.num_layers()
    ffns = choose_ffns(
        fields,
        sparse_layers(fields, depth, first_dense=0),
        replace(experts(fields, shared=2), router_bias=False),
    )
    attention = mla(fields)
    return assemble(fields, group_layers((attention, ffn) for ffn in ffns))
