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
    linear = fields.child("linear_attn_config")
    if linear is None:
        raise fields.invalid("linear_attn_config", "is required")
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
    if not linear.boolean("use_full_rank_gate", default=False):
        raise linear.unsupported(
            "use_full_rank_gate", "a gate of the output through a low rank is not supported"
        )
    mixer = GatedDeltaNet(
        num_key_heads=heads,
        num_value_heads=heads,
        key_head_dim=width,
        value_head_dim=width,
        conv_kernel=linear.integer("short_conv_kernel_size", default=4),
        decay_rank=width,
    )
    return tuple(attention if layer in full else mixer for layer in range(1, depth + 1))


FAMILY: Final = decoder.Family(
    defaults={"first_k_dense_replace": 1}, fixed={"router_bias": True}, mixers=_mixers
)
