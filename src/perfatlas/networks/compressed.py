"""Operators of attention over compressed keys (DeepSeek-V4), and of its hyper-connections.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.formats import get_format
from perfatlas.networks.key_index import INDEX_SCALE_BYTES, KeyIndex, scores_and_selection
from perfatlas.operators import ACTIVATION_BYTES, LatentAttention, visible_pairs

if TYPE_CHECKING:
    from perfatlas.networks.emission import Emission
    from perfatlas.networks.layers import CompressedAttention
    from perfatlas.operators import FloatArray, Operator


def compressed_operators(emission: Emission, mixer: CompressedAttention) -> tuple[Operator, ...]:
    """Return the operators of one layer of attention over recent and compressed keys.

    Every query sees the keys of a window and those that stand for `ratio` tokens each: all of
    them, or the ones that an indexer selects. One row is both key and value of all heads.

    Source: DeepSeek-V4 report, section 2.3; transformers, `DeepseekV4Attention`.
    Limits: The last, incomplete group of tokens counts as compressed in proportion.
    """
    head, hidden = float(mixer.head_dim), emission.hidden
    heads, projection = float(mixer.num_heads), emission.projection_format
    latent = (mixer.q_lora_rank + head) * ACTIVATION_BYTES
    query = heads * head * ACTIVATION_BYTES
    kv_bytes = get_format(emission.formats.kv).weight_bytes
    return (
        *emission.gemm(
            "qkv_a_projection",
            float(mixer.q_lora_rank) + head,
            hidden,
            "replicated",
            format_name=projection,
        ),
        emission.streaming("latent_norm", "latent_norm", (latent, latent)),
        *emission.gemm(
            "q_b_projection", heads * head, mixer.q_lora_rank, "column", format_name=projection
        ),
        emission.streaming("rope", "rope", (query, query), shard="width"),
        emission.streaming(
            "latent_cache_append", "cache_append", (head * ACTIVATION_BYTES, head * kv_bytes)
        ),
        *_compressor(emission, mixer, head, "compressor"),
        *_indexer(emission, mixer),
        _attention(emission, mixer),
        *emission.gemm(
            "output_a_projection",
            float(mixer.output_groups * mixer.output_rank),
            heads * head / mixer.output_groups,
            "column",
            format_name=projection,
        ),
        *emission.gemm(
            "output_projection",
            hidden,
            float(mixer.output_groups * mixer.output_rank),
            "row",
            format_name=projection,
        ),
    )


def _compressor(
    emission: Emission, mixer: CompressedAttention, width: float, name: str
) -> tuple[Operator, ...]:
    """Return the projection to keys and their weights, and the weighted sum of each group."""
    if not mixer.ratio:
        return ()
    projected = 2.0 * mixer.series * width
    written = width * ACTIVATION_BYTES / mixer.ratio
    return (
        *emission.gemm(
            f"{name}_projection",
            projected,
            emission.hidden,
            "replicated",
            format_name=emission.formats.head,
        ),
        emission.streaming(name, "latent_norm", (projected * ACTIVATION_BYTES, written)),
    )


def _indexer(emission: Emission, mixer: CompressedAttention) -> tuple[Operator, ...]:
    indexer = mixer.indexer
    if indexer is None:
        return ()
    width, ratio = float(indexer.num_heads * indexer.head_dim), mixer.ratio
    touched = width * ACTIVATION_BYTES
    return (
        *_compressor(emission, mixer, float(indexer.head_dim), "index_compressor"),
        *emission.gemm(
            "indexer_q_projection",
            width,
            mixer.q_lora_rank,
            "replicated",
            format_name=emission.projection_format,
        ),
        *emission.gemm(
            "indexer_head_weights",
            indexer.num_heads,
            emission.hidden,
            "replicated",
            format_name=emission.formats.head,
        ),
        emission.streaming("indexer_rope", "rope", (touched, width)),
        *scores_and_selection(
            emission,
            KeyIndex(
                num_heads=emission.column(indexer.num_heads),
                head_dim=emission.column(indexer.head_dim / ratio),  # a key is of `ratio` tokens
                selected=emission.column(indexer.top_k * ratio),
                key_bytes=(indexer.head_dim + INDEX_SCALE_BYTES) / ratio,
                scores_per_token=1.0 / ratio,
            ),
        ),
    )


def keys_per_query(mixer: CompressedAttention, q_len: FloatArray, kv_len: FloatArray) -> FloatArray:
    """Return the mean number of keys that a query attends to (C,).

    Args:
        q_len: Queries per sequence (C,).
        kv_len: Tokens per sequence, including the queries (C,).

    Example: At 4,096 tokens a window of 128 and one key for 128 tokens: 128 + 32 = 160 keys.
    """
    recent = visible_pairs(q_len, kv_len, 0.0 * q_len + mixer.window)
    if not mixer.ratio:
        return recent / q_len
    limit = 0.0 if mixer.indexer is None else float(mixer.indexer.top_k * mixer.ratio)
    pairs: FloatArray = recent + visible_pairs(q_len, kv_len, 0.0 * q_len + limit) / mixer.ratio
    return pairs / q_len


def _attention(emission: Emission, mixer: CompressedAttention) -> LatentAttention:
    """Return attention of all heads over one row per key, which is key and value.

    Every query is given the mean number of keys, cached before the queries.
    """
    tokens, column = emission.tokens, emission.column
    keys_C = keys_per_query(mixer, tokens.q_len, tokens.kv_len)
    return LatentAttention(
        name="latent_attention",
        phase=emission.phase,
        count=emission.count,
        shard="heads",
        batch=tokens.batch,
        q_len=tokens.q_len,
        kv_len=tokens.q_len + keys_C,
        num_heads=column(mixer.num_heads),
        kv_lora_rank=column(mixer.head_dim),
        rope_dim=column(0),
        nope_dim=column(mixer.head_dim),
        value_head_dim=column(mixer.head_dim),
        selected=keys_C,
        format=emission.formats.attention,
        kv_format=emission.formats.kv,
        kv_bytes_per_element=get_format(emission.formats.kv).weight_bytes,
    )


def hyper_connection(emission: Emission, streams: int, name: str) -> tuple[Operator, ...]:
    """Return the mixing of residual streams around one block; nothing for one stream.

    Weights of collapsing, expanding and mixing the streams follow from all of them; the streams
    are read twice and written once.

    Args:
        name: Block, "mixer" or "ffn".

    Source: manifold-constrained hyper-connections, DeepSeek-V4 report section 2.2; transformers,
        `DeepseekV4HyperConnection`.
    Limits: Products of streams x streams matrices are counted as bytes only.
    """
    if streams == 1:
        return ()
    width = float(streams * emission.hidden)
    moved = width * ACTIVATION_BYTES
    return (
        *emission.gemm(
            f"{name}_streams_projection",
            float((2 + streams) * streams),
            width,
            "replicated",
            format_name=emission.formats.head,
        ),
        emission.streaming(f"{name}_streams", "norm", (2.0 * moved, moved)),
    )


def collapse_streams(emission: Emission, streams: int) -> tuple[Operator, ...]:
    """Return the collapse of residual streams into one before the final norm; nothing for one.

    Source: transformers, `DeepseekV4HyperHead`.
    """
    if streams == 1:
        return ()
    width = float(streams * emission.hidden)
    value = emission.hidden * ACTIVATION_BYTES
    return (
        *emission.gemm(
            "streams_collapse_projection",
            float(streams),
            width,
            "replicated",
            format_name=emission.formats.head,
        ),
        emission.streaming("streams_collapse", "norm", (width * ACTIVATION_BYTES, value)),
    )
