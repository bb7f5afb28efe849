"""DeepSeek-V4: attention over recent and compressed keys, hyper-connections, routed experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import decoder
from perfatlas.networks.hf_config.blocks import assemble, group_layers
from perfatlas.networks.layers import CompressedAttention, SparseIndexer

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("deepseek_v4", "deepseek_ref")

_SELECTED = 4  # tokens per key where an indexer selects keys
_HEAVY = 128
_RATIOS = (0, _SELECTED, _HEAVY)
_FAMILY = decoder.Family(fixed={"router_bias": True}, gated=True)
_NOTE = (
    "attention over compressed keys is priced with kernels of multi-head latent attention, its"
    " cache in one format, and hyper-connections by their products and bytes"
)


def read(fields: Fields) -> Architecture:
    """Return a DeepSeek-V4; the first layers choose experts by a table and not by scores.

    Source: DeepSeek-V4 report; transformers, `DeepseekV4Config` and `DeepseekV4DecoderLayer`.
    """
    fields, _ = decoder.completed(fields, _FAMILY)
    depth = fields.num_layers()
    mixers = {ratio: _attention(fields, ratio) for ratio in _RATIOS}
    routed = decoder.experts(fields, _FAMILY)
    hashed = fields.integer("num_hash_layers", default=3, minimum=0)
    layers = (
        (mixers[ratio], replace(routed, router_bias=i >= hashed))
        for i, ratio in enumerate(_ratios(fields, depth))
    )
    architecture = assemble(fields, group_layers(layers), mtp_layers=decoder.mtp_layers(fields))
    streams = fields.integer("hc_mult", default=4, maximum=64)
    return replace(architecture, residual_streams=streams, notes=(_NOTE,))


def _ratios(fields: Fields, depth: int) -> tuple[int, ...]:
    """Return the tokens per compressed key of each layer, 0 for none."""
    stated = fields.integers("compress_ratios", maximum=_HEAVY)[:depth]
    if not stated:
        return tuple(_HEAVY if i < 2 else (_SELECTED, _HEAVY)[i % 2] for i in range(depth))
    if len(stated) < depth or not set(stated) <= set(_RATIOS):
        raise fields.invalid(
            "compress_ratios", f"must be {depth} entries of 0, {_SELECTED} or {_HEAVY}"
        )
    return stated


def _attention(fields: Fields, ratio: int) -> CompressedAttention:
    indexer = SparseIndexer(
        num_heads=fields.integer("index_n_heads", default=64),
        head_dim=fields.integer("index_head_dim", default=128),
        top_k=fields.integer("index_topk", default=512),
    )
    return CompressedAttention(
        num_heads=fields.integer("num_attention_heads"),
        head_dim=fields.integer("head_dim", default=512),
        q_lora_rank=fields.integer("q_lora_rank"),
        output_groups=fields.integer("o_groups"),
        output_rank=fields.integer("o_lora_rank"),
        window=fields.integer("sliding_window", default=128),
        ratio=ratio,
        indexer=indexer if ratio == _SELECTED else None,
    )
