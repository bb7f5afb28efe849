"""Mixtral 8x7B and 8x22B: experts in every layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, gqa, group_layers, moe

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("mixtral",)


def read(fields: Fields) -> Architecture:
    """Return a Mixtral: grouped-query attention and experts in every layer."""
    attention = replace(gqa(fields, kv_heads=8), window=fields.window())
    experts = moe(fields, experts=("num_local_experts", "num_experts"), width="intermediate_size")
    return assemble(fields, group_layers([(attention, experts)] * fields.num_layers()))
