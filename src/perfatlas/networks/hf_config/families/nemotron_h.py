"""Nemotron-H, Nemotron Nano 2 and Nemotron 3: one block per layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.dimensions import MAX_LAYERS
from perfatlas.networks.hf_config.blocks import assemble, gqa, group_layers, moe
from perfatlas.networks.layers import DenseFfn, Ffn, Mamba2, Mixer, MoeFfn

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("nemotron_h",)

_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_SPELLINGS = {"linear_attention": "mamba", "full_attention": "attention"}


def read(fields: Fields) -> Architecture:
    """Return a Nemotron-H: each layer is one norm and one of mamba, attention, mlp or moe."""
    kinds = _kinds(fields)
    blocks = {kind: _block(fields, kind) for kind in dict.fromkeys(kinds)}
    return assemble(
        fields,
        group_layers((blocks[kind] for kind in kinds), norms=1),
        mtp_layers=fields.integer("num_nextn_predict_layers", default=0, minimum=0, maximum=64),
    )


def _kinds(fields: Fields) -> tuple[str, ...]:
    name = fields.has("layers_block_type", "layer_types", "hybrid_override_pattern")
    if name is None:
        raise fields.invalid("hybrid_override_pattern", "a string such as 'M-M*-' is required")
    if name == "hybrid_override_pattern":
        kinds = tuple(_LETTERS.get(letter, letter) for letter in fields.text(name))
    else:
        kinds = tuple(_SPELLINGS.get(kind, kind) for kind in fields.texts(name))
    unknown = sorted(set(kinds) - set(_LETTERS.values()))
    if unknown:
        raise fields.invalid(
            name, f"{unknown[0][:40]!r} is not one of {', '.join(_LETTERS.values())}, or M * - E"
        )
    depth = fields.integer("num_hidden_layers", default=len(kinds), maximum=MAX_LAYERS)
    if len(kinds) != depth:
        raise fields.invalid(name, f"has {len(kinds)} layers for num_hidden_layers = {depth}")
    return kinds


def _block(fields: Fields, kind: str) -> tuple[Mixer | None, Ffn | None]:
    if kind == "attention":
        head_dim = fields.integer("head_dim", "attention_head_dim", default=128)
        attention = gqa(fields, head_dim=head_dim, kv_heads=8)
        return replace(attention, window=fields.window()), None
    if kind == "mamba":
        return _mamba(fields), None
    return None, _experts(fields) if kind == "moe" else DenseFfn(
        intermediate_size=fields.integer("intermediate_size"),
        gated=False,
        bias=fields.boolean("mlp_bias", default=False),
    )


def _mamba(fields: Fields) -> Mamba2:
    heads = fields.integer("mamba_num_heads", default=128)
    groups = fields.integer("n_groups", "mamba_n_groups", default=8)
    if heads % groups:
        raise fields.invalid("n_groups", f"must divide mamba_num_heads = {heads}")
    return Mamba2(
        num_heads=heads,
        head_dim=fields.integer("mamba_head_dim", default=64),
        state_size=fields.integer("ssm_state_size", default=128),
        num_groups=groups,
        conv_kernel=fields.integer("conv_kernel", "mamba_d_conv", default=4),
        conv_bias=fields.boolean("use_conv_bias", "mamba_conv_bias", default=True),
        projection_bias=fields.boolean("use_bias", default=False),
    )


def _experts(fields: Fields) -> MoeFfn:
    shared = fields.integer("n_shared_experts", default=1, minimum=0, maximum=10_000)
    width = fields.integer("moe_shared_expert_intermediate_size") if shared else 0
    return replace(
        moe(fields, experts=("n_routed_experts", "num_local_experts")),
        shared_intermediate_size=width,
        gated=False,
        bias=fields.boolean("mlp_bias", default=False),
        router_bias=True,
        latent_size=fields.integer("moe_latent_size", default=0, minimum=0),
    )
