"""MiniMax-M3: attention over selected blocks of keys, routed and shared experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, flags, gqa, group_layers, moe
from perfatlas.networks.layers import DenseFfn, SparseIndexer

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text")

_FIRST_DENSE = 3
_NOTE = (
    "attention over selected blocks is priced as attention in a window of as many keys; index keys"
    " are assumed to be cached in 16 bits"
)


def read(fields: Fields) -> Architecture:
    """Return a MiniMax-M3: the first layers are dense in attention and feed-forward.

    Source: transformers, `MiniMaxM3VLAttention`, `MiniMaxM3VLIndexer`, `MiniMaxM3VLSparseMoeBlock`.
    """
    depth = fields.num_layers()
    rule = [i >= _FIRST_DENSE for i in range(depth)]
    full = replace(gqa(fields, head_dim=128, kv_heads=4), qk_norm="head")
    sparse = replace(full, indexer=_indexer(fields))
    options = fields.child("sparse_attention_config")
    selects = _listed(fields, "layer_types", "full_attention", rule)
    if options:
        selects = flags(options, "sparse_attention_freq", depth, rule)
    experts = replace(
        moe(fields, experts=("num_local_experts",), width="intermediate_size"),
        shared_intermediate_size=fields.integer("shared_intermediate_size", default=3072),
        router_bias=fields.boolean("use_routing_bias", default=True),
    )
    dense = DenseFfn(intermediate_size=fields.integer("dense_intermediate_size"))
    stated = _listed(fields, "mlp_layer_types", "dense", rule)
    routed = flags(fields, "moe_layer_freq", depth, stated)
    layers = group_layers(
        (sparse if select else full, experts if route else dense)
        for select, route in zip(selects, routed, strict=True)
    )
    mtp_layers = fields.integer(
        "num_nextn_predict_layers", "num_mtp_modules", default=0, minimum=0, maximum=64
    )
    return assemble(fields, layers, mtp_layers=mtp_layers, notes=(_NOTE,))


def _listed(fields: Fields, name: str, plain: str, rule: list[bool]) -> tuple[bool, ...]:
    """Return which layers a list of transformers, instead of flags, names otherwise than plain."""
    kinds = fields.texts(name)
    return tuple(kind != plain for kind in kinds) if len(kinds) == len(rule) else tuple(rule)


def _indexer(fields: Fields) -> SparseIndexer:
    """Return the indexer, of the published config or that of transformers."""
    options = fields.child("sparse_attention_config") or fields
    block = options.integer("sparse_block_size", "index_block_size", default=128)
    blocks = options.integer("sparse_topk_blocks", "index_topk_blocks", default=16)
    return SparseIndexer(
        num_heads=options.integer("sparse_num_index_heads", "index_n_heads", default=4),
        head_dim=options.integer("sparse_index_dim", "index_head_dim", default=128),
        top_k=block * blocks,
        block_size=block,
    )
