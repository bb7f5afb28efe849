"""MiniMax-M2: grouped-query attention normalized over all heads, routed experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, gqa, group_layers, moe

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("minimax_m2",)


def read(fields: Fields) -> Architecture:
    """Return a MiniMax-M2: experts in every layer, no shared expert."""
    attention = replace(
        gqa(fields, head_dim=128, kv_heads=8),
        qk_norm="full" if fields.boolean("use_qk_norm", default=True) else "none",
    )
    experts = replace(
        moe(fields, experts=("num_local_experts", "num_experts"), width="intermediate_size"),
        shared_intermediate_size=fields.integer("shared_intermediate_size", default=0, minimum=0),
        router_bias=fields.boolean("use_routing_bias", default=True),
    )
    mtp_layers = 0
    if fields.boolean("use_mtp", default=False):
        modules = fields.integer("num_mtp_modules", default=0, minimum=0, maximum=64)
        mtp_layers = modules * fields.integer("mtp_transformer_layers", default=1, maximum=64)
    return assemble(
        fields,
        group_layers([(attention, experts)] * fields.num_layers()),
        mtp_layers=mtp_layers,
    )
