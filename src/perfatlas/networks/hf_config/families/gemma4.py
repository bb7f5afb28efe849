"""Gemma 4: wider heads in full-attention layers, embeddings per layer, shared caches, experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, gqa, group_layers, layer_types, moe
from perfatlas.networks.layers import DenseFfn

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields
    from perfatlas.networks.layers import Ffn, GqaAttention

MODEL_TYPES = ("gemma4", "gemma4_text", "gemma4_unified_text")

_KINDS = ("full_attention", "sliding_attention")
_PERIOD = 6
# norms of a layer; experts beside the dense network have three, and the scale of their router
_NORMS = {False: 4, True: 8}


def read(fields: Fields) -> Architecture:
    """Return a Gemma 4; the last layer and every sixth have full attention.

    Source: transformers, `Gemma4TextDecoderLayer` and `Gemma4TextAttention`.
    Limits: The look-up of embeddings per layer reads device memory; engines may keep them on the
        host.
    """
    depth = fields.num_layers()
    last = depth - fields.integer("num_kv_shared_layers", default=0, minimum=0, maximum=depth)
    rule = [_KINDS[(i + 1) % _PERIOD > 0 and i + 1 < depth] for i in range(depth)]
    local, full = _attentions(fields)
    kinds = layer_types(fields, _KINDS, rule)
    sparse = fields.boolean("enable_moe_block", default=False)
    ffn: Ffn = _experts(fields) if sparse else dense(fields)
    wider = fields.boolean("use_double_wide_mlp", default=False) and isinstance(ffn, DenseFfn)
    wide = replace(ffn, intermediate_size=2 * ffn.intermediate_size) if wider else ffn
    mixers = [full if kind == "full_attention" else local for kind in kinds]
    layers = group_layers(
        (
            (mixer, ffn) if i < last else (replace(mixer, shared_cache=True), wide)
            for i, mixer in enumerate(mixers)
        ),
        norms=_NORMS[sparse],
    )
    unified = fields.text("model_type") == "gemma4_unified_text"
    width = fields.integer("hidden_size_per_layer_input", default=0 if unified else 256, minimum=0)
    rows = fields.integer("vocab_size_per_layer_input", default=fields.integer("vocab_size"))
    whole = assemble(fields, layers, tied=True)
    return replace(whole, per_layer_width=width, per_layer_rows=rows if width else 0)


def _attentions(fields: Fields) -> tuple[GqaAttention, GqaAttention]:
    """Return the attention of windowed and of full layers."""
    bias = fields.boolean("attention_bias", default=False)
    local = replace(
        gqa(fields, head_dim=256, kv_heads=4),
        window=fields.window(absent=512),
        qkv_bias=bias,
        output_bias=bias,
        qk_norm="head",
    )
    stated = fields.child("per_layer_config")  # what transformers writes for the full layers
    wider = next(filter(None, map(stated.child, stated.values)), fields) if stated else fields
    head_dim = wider.integer("head_dim" if stated else "global_head_dim", default=512)
    full = replace(
        local,
        window=0,
        head_dim=head_dim,
        value_head_dim=head_dim,
        num_kv_heads=wider.integer(
            "num_key_value_heads" if stated else "num_global_key_value_heads",
            default=local.num_kv_heads,
        ),
        key_is_value=fields.boolean("attention_k_eq_v", default=False),
    )
    return local, full


def _experts(fields: Fields) -> Ffn:
    """Return the experts; the dense network beside them counts as a shared expert."""
    renamed = fields.renamed({"top_k_experts": "num_experts_per_tok"})
    return replace(
        moe(renamed, experts=("num_experts",)),
        shared_intermediate_size=fields.integer("intermediate_size"),
        router_bias=True,  # a learned scale of each expert
    )
