"""Llama-Nemotron found by neural architecture search: each layer has a width of its own."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.dimensions import MAX_LAYERS
from perfatlas.networks.hf_config.blocks import assemble, gqa, group_layers
from perfatlas.networks.hf_config.fields import Fields
from perfatlas.networks.layers import DenseFfn

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.layers import GqaAttention

MODEL_TYPES = ("nemotron-nas",)

_MULTIPLE = 256  # widths are rounded up to it


def read(fields: Fields) -> Architecture:
    """Return a Llama-Nemotron of `block_configs`; a block that is `no_op` has no norm either.

    Source: Bercovich et al. 2025 (arXiv 2505.00949); configuration_decilm.py of
        nvidia/Llama-3_3-Nemotron-Super-49B-v1.
    """
    depth = fields.num_layers()
    blocks = _blocks(fields, depth)
    layers = [(_attention(fields, block), _ffn(fields, block)) for block in blocks]
    return assemble(fields, group_layers(layers, norms=None))


def _blocks(fields: Fields, depth: int) -> list[Fields]:
    stated = fields.values.get("block_configs")
    if not isinstance(stated, list) or len(stated) != min(depth, MAX_LAYERS):
        raise fields.invalid("block_configs", f"expected a list of {depth} objects")
    if not all(isinstance(block, dict) for block in stated):
        raise fields.invalid("block_configs", f"expected a list of {depth} objects")
    return [
        Fields(values=block, origin=f"{fields.origin}: block_configs[{i}]")
        for i, block in enumerate(stated)
    ]


def _part(block: Fields, name: str) -> Fields | None:
    """Return a part of a block, None if it does nothing."""
    part = block.child(name)
    if part is None:
        raise block.invalid(name, "expected a JSON object")
    if part.boolean("replace_with_linear", default=False):
        raise part.unsupported("replace_with_linear", "blocks of one matrix are not supported")
    return None if part.boolean("no_op", default=False) else part


def _attention(fields: Fields, block: Fields) -> GqaAttention | None:
    part = _part(block, "attention")
    if part is None:
        return None
    heads, group = fields.integer("num_attention_heads"), part.integer("n_heads_in_group")
    if heads % group:
        raise part.invalid("n_heads_in_group", f"must divide num_attention_heads = {heads}")
    values = {**fields.values, "num_key_value_heads": heads // group}
    attention = gqa(Fields(values=values, origin=fields.origin))
    bias = fields.boolean("attention_bias", default=False)
    return replace(attention, qkv_bias=bias, output_bias=bias, window=part.tokens("window_length"))


def _ffn(fields: Fields, block: Fields) -> DenseFfn | None:
    part = _part(block, "ffn")
    if part is None:
        return None
    factor = part.values.get("ffn_mult")
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1000:
        raise part.invalid("ffn_mult", "expected a number from 0 to 1000")
    width = int(2 * factor * fields.integer("hidden_size") / 3)
    return DenseFfn(
        intermediate_size=math.ceil(width / _MULTIPLE) * _MULTIPLE,
        bias=fields.boolean("mlp_bias", default=False),
    )
