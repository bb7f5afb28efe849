"""Llama 4 Scout and Maverick (text): chunked attention, one routed and one shared expert."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, gqa, group_layers, layer_types, moe

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields
    from perfatlas.networks.layers import Ffn, GqaAttention

MODEL_TYPES = ("llama4", "llama4_text")

_KINDS = ("full_attention", "chunked_attention")
_CHUNKS = (
    "chunked attention is modeled as a sliding window of one chunk, an upper bound of its work"
)


def read(fields: Fields) -> Architecture:
    """Return a Llama 4: every fourth layer has full attention and no rotary embedding."""
    depth = fields.num_layers()
    mixers = _mixers(fields, depth)
    notes = (_CHUNKS,) if any(mixer.window for mixer in mixers) else ()
    return assemble(
        fields, group_layers(zip(mixers, _ffns(fields, depth), strict=True)), notes=notes
    )


def _mixers(fields: Fields, depth: int) -> tuple[GqaAttention, ...]:
    interval = fields.integer("no_rope_layer_interval", default=4)
    rotary = fields.integers("no_rope_layers", maximum=1)  # despite the name, 1 means rotary
    if not rotary:
        rotary = tuple(int((i + 1) % interval != 0) for i in range(depth))
    if len(rotary) != depth:
        raise fields.invalid(
            "no_rope_layers", f"has {len(rotary)} entries for num_hidden_layers = {depth}"
        )
    bias = fields.boolean("attention_bias", default=False)
    norm = "head" if fields.boolean("use_qk_norm", default=True) else "none"
    full = replace(
        gqa(fields, head_dim=128, kv_heads=8),
        qkv_bias=bias,
        output_bias=bias,
        qk_norm_weight=False,
    )
    window = fields.window("attention_chunk_size", absent=8192)
    kinds = layer_types(fields, _KINDS, [_KINDS[flag] for flag in rotary])
    return tuple(
        replace(
            full,
            window=window if kind == "chunked_attention" else 0,
            qk_norm=norm if flag else "none",
        )
        for kind, flag in zip(kinds, rotary, strict=True)
    )


def _ffns(fields: Fields, depth: int) -> tuple[Ffn, ...]:
    step = fields.integer("interleave_moe_layer_step", default=1)
    sparse = set(fields.integers("moe_layers", maximum=depth - 1))
    if fields.has("moe_layers") is None:
        sparse = set(range(step - 1, depth, step))
    routed = moe(fields, experts=("num_local_experts",), width="intermediate_size")
    experts = replace(routed, shared_intermediate_size=routed.intermediate_size)
    if len(sparse) == depth:
        return (experts,) * depth
    plain = replace(dense(fields), intermediate_size=fields.integer("intermediate_size_mlp"))
    return tuple(experts if i in sparse else plain for i in range(depth))
