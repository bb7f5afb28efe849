"""GLM-4.5, 4.6 and 4.7: grouped-query attention, sigmoid-routed and shared experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, choose_ffns, gqa, group_layers
from perfatlas.networks.hf_config.families.deepseek_v3 import experts, mtp_layers, sparse_layers

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("glm4_moe", "glm4v_moe", "glm4v_moe_text")


def read(fields: Fields) -> Architecture:
    """Return a GLM-4.5: the first layers dense, heads normalized only in the large models."""
    depth = fields.num_layers()
    vision = fields.text("model_type") != "glm4_moe"
    attention = replace(
        gqa(fields, kv_heads=8),
        qkv_bias=fields.boolean("attention_bias", default=vision),
        qk_norm="head" if fields.boolean("use_qk_norm", default=False) else "none",
    )
    ffns = choose_ffns(fields, sparse_layers(fields, depth, first_dense=1), experts(fields))
    return assemble(
        fields,
        group_layers((attention, ffn) for ffn in ffns),
        mtp_layers=mtp_layers(fields, default=0 if vision else 1),
    )
