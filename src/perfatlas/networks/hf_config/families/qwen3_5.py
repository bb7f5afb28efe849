"""Qwen3.5 and Qwen3.6: the qwen3_next hybrid, dense or with experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, group_layers, moe
from perfatlas.networks.hf_config.families.qwen3_next import hybrid_mixers

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields
    from perfatlas.networks.layers import Ffn

MODEL_TYPES = ("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")


def read(fields: Fields) -> Architecture:
    """Return a Qwen3.5 hybrid; the `_moe` types have experts in every layer."""
    depth = fields.num_layers()
    sparse = "moe" in fields.text("model_type")
    mixers = hybrid_mixers(fields, depth, kv_heads=2 if sparse else 4)
    ffn: Ffn = _experts(fields) if sparse else dense(fields)
    return assemble(
        fields,
        group_layers((mixer, ffn) for mixer in mixers),
        mtp_layers=fields.integer("mtp_num_hidden_layers", default=0, minimum=0, maximum=64),
    )


def _experts(fields: Fields) -> Ffn:
    return replace(
        moe(fields, experts=("num_experts",)),
        shared_intermediate_size=fields.integer("shared_expert_intermediate_size"),
        shared_gate=True,
    )
