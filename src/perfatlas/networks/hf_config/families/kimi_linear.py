"""Kimi-K3 and Kimi Linear: Kimi delta attention, latent attention, experts of a latent width."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perfatlas.networks.hf_config import decoder
from perfatlas.networks.hf_config.blocks import mla
from perfatlas.networks.layers import GatedDeltaNet

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields
    from perfatlas.networks.layers import MlaAttention

MODEL_TYPES = ("kimi_linear",)


def read(fields: Fields) -> Architecture:
    """Return a Kimi-K3 or Kimi Linear."""
    architecture = decoder.read(fields, FAMILY)
    if not fields.integer("attn_res_block_size", default=0, minimum=0):
        return architecture
    note = "sums of earlier blocks in place of the residual (attn_res_block_size) are not priced"
    return replace(architecture, notes=(*architecture.notes, note))


def _mixers(fields: Fields, depth: int) -> tuple[GatedDeltaNet | MlaAttention, ...]:
    """Return the mixer of each layer: `kda_layers` and `full_attn_layers` count from one."""
    linear = fields.child("linear_attn_config") or _as_published(fields, depth)
    full = set(linear.integers("full_attn_layers", maximum=depth))
    delta = set(linear.integers("kda_layers", maximum=depth))
    if full & delta or full | delta != set(range(1, depth + 1)):
        raise linear.invalid(
            "kda_layers", f"must name every layer of 1 to {depth} that full_attn_layers does not"
        )
    attention = replace(
        mla(fields), output_gate=fields.boolean("mla_use_output_gate", default=False)
    )
    heads, width = linear.integer("num_heads"), linear.integer("head_dim")
    full_rank = linear.boolean("use_full_rank_gate", default=False)
    mixer = GatedDeltaNet(
        num_key_heads=heads,
        num_value_heads=heads,
        key_head_dim=width,
        value_head_dim=width,
        conv_kernel=linear.integer("short_conv_kernel_size", default=4),
        decay_rank=width,
        gate_rank=0 if full_rank else width,
    )
    return tuple(attention if layer in full else mixer for layer in range(1, depth + 1))


def _as_published(fields: Fields, depth: int) -> Fields:
    """Return the keys of transformers as those of the published config."""
    if not fields.has("linear_num_heads"):
        raise fields.invalid("linear_attn_config", "is required")
    kinds = [kind == "full_attention" for kind in fields.texts("layer_types")]
    stated = {"num_heads": "linear_num_heads", "head_dim": "linear_head_dim"}
    values = {name: fields.values.get(key) for name, key in stated.items()} | {
        "short_conv_kernel_size": fields.values.get("linear_conv_kernel_dim"),
        "full_attn_layers": [i for i, full in enumerate(kinds[:depth], 1) if full],
        "kda_layers": [i for i, full in enumerate(kinds[:depth], 1) if not full],
    }
    return replace(fields, values=values)


FAMILY: Final = decoder.Family(
    defaults={"first_k_dense_replace": 1}, fixed={"router_bias": True}, mixers=_mixers
)
