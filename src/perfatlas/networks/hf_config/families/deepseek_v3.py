"""DeepSeek-V3, R1, V3.1 and Kimi-K2: latent attention, sigmoid-routed experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, choose_ffns, group_layers, mla, moe

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields
    from perfatlas.networks.layers import MoeFfn

MODEL_TYPES = ("deepseek_v3", "kimi_k2", "kimi_k25")

# DeepseekV3Config defaults to one MTP layer; Kimi-K2 ships none
_MTP_LAYERS = {"deepseek_v3": 1}


def read(fields: Fields) -> Architecture:
    """Return a DeepSeek-V3."""
    depth = fields.num_layers()
    ffns = choose_ffns(fields, sparse_layers(fields, depth, first_dense=3), experts(fields))
    attention = mla(fields)
    return assemble(
        fields,
        group_layers((attention, ffn) for ffn in ffns),
        mtp_layers=mtp_layers(fields, default=_MTP_LAYERS.get(fields.text("model_type"), 0)),
    )


def mtp_layers(fields: Fields, *, default: int) -> int:
    """Return the multi-token-prediction layers of the checkpoint."""
    return fields.integer(
        "num_nextn_predict_layers", "num_mtp_layers", default=default, minimum=0, maximum=64
    )


def experts(fields: Fields, *, shared: int = 1) -> MoeFfn:
    """Return DeepSeek's experts; each shared expert is as wide as a routed one.

    Args:
        shared: Default of `n_shared_experts`; null means none.
    """
    routed = moe(fields, experts=("n_routed_experts", "num_experts", "num_local_experts"))
    if "n_shared_experts" in fields.values:
        shared = fields.integer("n_shared_experts", default=0, minimum=0, maximum=10_000)
    return replace(
        routed, shared_intermediate_size=shared * routed.intermediate_size, router_bias=True
    )


def sparse_layers(fields: Fields, depth: int, *, first_dense: int) -> tuple[bool, ...]:
    """Return which layers have experts.

    Args:
        first_dense: Default of `first_k_dense_replace`.
    """
    kinds = fields.texts("mlp_layer_types")
    if not kinds:
        first = fields.integer("first_k_dense_replace", default=first_dense, minimum=0)
        period = fields.integer("moe_layer_freq", default=1)
        return tuple(i >= first and i % period == 0 for i in range(depth))
    if len(kinds) != depth or not set(kinds) <= {"dense", "sparse"}:
        raise fields.invalid("mlp_layer_types", f"must be {depth} entries of 'dense' or 'sparse'")
    return tuple(kind == "sparse" for kind in kinds)
