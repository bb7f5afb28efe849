"""Step-3.5 and Step-3.7 Flash: windowed layers, a gate per head, routed and shared experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import blocks
from perfatlas.networks.hf_config.fields import Fields

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.layers import GqaAttention

MODEL_TYPES = ("step3p5", "step3p7")

_KINDS = ("full_attention", "sliding_attention")
_NAMES = {
    "num_attention_groups": "num_key_value_heads",
    "moe_num_experts": "num_experts",
    "n_routed_experts": "num_experts",
    "moe_top_k": "num_experts_per_tok",
    "share_expert_dims": "share_expert_dim",
    "max_seq_len": "max_position_embeddings",
}


def read(fields: Fields) -> Architecture:
    """Return a Step Flash.

    Source: transformers, `Step3p7Attention`, `Step3p7SparseMoeBlock`, `Step3p7TextConfig`.
    """
    fields = fields.renamed(_NAMES)
    depth = fields.num_layers()
    local, full = _attentions(fields)
    mtp = fields.integer("num_nextn_predict_layers", default=0, minimum=0, maximum=64)
    # `layer_types` also lists the layers of multi-token prediction, which follow
    listed = fields.texts("layer_types")
    values = {**fields.values, "layer_types": list(listed[:depth]) if listed else None}
    kinds = blocks.layer_types(
        Fields(values=values, origin=fields.origin), _KINDS, ["full_attention"] * depth
    )
    experts = replace(
        blocks.moe(fields, experts=("num_experts",)),
        shared_intermediate_size=fields.integer("share_expert_dim", default=1280),
        router_bias=fields.boolean("use_moe_router_bias", default=True),
    )
    ffns = blocks.choose_ffns(fields, _sparse_layers(fields, depth), experts)
    mixers = (full if kind == "full_attention" else local for kind in kinds)
    architecture = blocks.assemble(
        fields, blocks.group_layers(zip(mixers, ffns, strict=True)), mtp_layers=mtp
    )
    if local.num_heads != full.num_heads or "sliding_attention" not in kinds:
        return architecture
    note = (
        "windowed layers have as many heads as full ones, since the config states no"
        " attention_other_setting"
    )
    return replace(architecture, notes=(note,))


def _attentions(fields: Fields) -> tuple[GqaAttention, GqaAttention]:
    """Return the attention of windowed and of full layers."""
    bias = fields.boolean("attention_bias", default=False)
    full = replace(
        blocks.gqa(fields, head_dim=128),
        qkv_bias=bias,
        output_bias=bias,
        qk_norm="head",
        output_gate=True,
        gate_per_head=True,
    )
    other = fields.child("attention_other_setting")
    heads = full.num_heads if other is None else other.integer("num_attention_heads")
    heads = fields.integer("num_sliding_attention_heads", default=heads)
    return replace(full, num_heads=heads, window=fields.window()), full


def _sparse_layers(fields: Fields, depth: int) -> tuple[bool, ...]:
    """Return which layers have experts."""
    kinds = fields.texts("mlp_layer_types")[:depth]
    if len(kinds) == depth:
        return tuple(kind == "sparse" for kind in kinds)
    if isinstance(fields.values.get("moe_layers_enum"), str):
        listed = fields.text("moe_layers_enum").split(",")
        if not all(entry.strip().isdecimal() for entry in listed):
            raise fields.invalid("moe_layers_enum", "expected layer numbers separated by commas")
        chosen = {int(entry) for entry in listed}
        return tuple(i in chosen for i in range(depth))
    first = fields.integer("first_k_dense_replace", default=3, minimum=0)
    return tuple(i >= first for i in range(depth))
