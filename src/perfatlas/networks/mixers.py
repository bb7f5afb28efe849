"""Operators of attention: GQA, and MLA with the sparse indexer; see phases.py.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.formats import get_format
from perfatlas.networks import key_index
from perfatlas.networks.elementwise import rope_and_cache_bytes
from perfatlas.networks.key_index import KeyIndex, scores_and_selection
from perfatlas.operators import ACTIVATION_BYTES, Attention, LatentAttention, Phase

if TYPE_CHECKING:
    from perfatlas.networks.emission import Emission
    from perfatlas.networks.layers import GqaAttention, MlaAttention, SparseIndexer
    from perfatlas.operators import FloatArray, Operator, Shard


ROPE: Final = "rope"  # of queries and keys that are not cached


def block_indexer_operators(
    emission: Emission, indexer: SparseIndexer | None
) -> tuple[Operator, ...]:
    """Return projections, scores and selection of blocks of keys; nothing without an indexer.

    Each score head selects for one group of query heads, so that tensor parallelism divides them.

    Source: transformers, `MiniMaxM3VLIndexer`: scores of every visible key, the largest of each
        block, the best blocks of each head.
    Limits: Index keys are kept in 16 bits, which no source states. The kernel is taken to reduce
        scores to blocks before it writes them. Attention over the selected keys is priced as
        attention in a window of as many keys; its reads of a long cached prefix in prefill are
        undercounted.
    """
    if indexer is None:
        return ()
    heads_C = emission.repeated(indexer.num_heads)
    width_C = heads_C * float(indexer.head_dim)
    moved_C = (width_C + float(indexer.head_dim)) * ACTIVATION_BYTES
    return (
        *emission.gemm("indexer_q_projection", width_C, emission.hidden, "column"),
        *emission.gemm("indexer_k_projection", indexer.head_dim, emission.hidden, "replicated"),
        emission.streaming("indexer_norm", "qk_norm", (moved_C, moved_C), shard="width"),
        emission.streaming(
            "indexer_rope_and_cache", "rope_and_cache", (moved_C, moved_C), shard="width"
        ),
        *scores_and_selection(
            emission,
            KeyIndex(
                num_heads=heads_C,
                head_dim=emission.column(indexer.head_dim),
                selected=emission.column(indexer.top_k),
                key_bytes=indexer.head_dim * ACTIVATION_BYTES,
                scores_per_token=indexer.num_heads / indexer.block_size,
                format="bf16",
                shard="heads",
            ),
        ),
    )


def gqa_operators(emission: Emission, mixer: GqaAttention) -> tuple[Operator, ...]:
    """Return projections, rotary embedding with cache append, and attention of one GQA layer.

    Source: Ainslie et al. 2023 (arXiv 2305.13245); fused column projection q|k|v as in
        Megatron-LM (arXiv 1909.08053).
    """
    query_width = float(mixer.num_heads * mixer.head_dim)
    out_width = float(mixer.num_heads * mixer.value_head_dim)
    kv_heads_C = emission.repeated(mixer.num_kv_heads)
    value_width_C = 0.0 if mixer.key_is_value else kv_heads_C * float(mixer.value_head_dim)
    gate_width = float(mixer.num_heads) if mixer.gate_per_head else out_width
    keys_C = 0.0 * kv_heads_C if mixer.shared_cache else kv_heads_C * float(mixer.head_dim)
    projected_C = query_width + keys_C + (0.0 if mixer.shared_cache else value_width_C)
    if mixer.output_gate:
        projected_C = projected_C + gate_width
    projection = emission.projection_format
    return (
        *emission.gemm(
            "qkv_projection", projected_C, emission.hidden, "column", format_name=projection
        ),
        *_before_attention(emission, mixer, kv_heads_C),
        *block_indexer_operators(emission, mixer.indexer),
        _attention(emission, mixer, kv_heads_C),
        *_output_gate(emission, out_width if mixer.output_gate else 0.0),
        *emission.gemm(
            "output_projection", emission.hidden, out_width, "row", format_name=projection
        ),
    )


def _before_attention(
    emission: Emission, mixer: GqaAttention, kv_heads_C: FloatArray
) -> tuple[Operator, ...]:
    """Return the norms of queries and keys, and the rotary embedding that appends to the cache."""
    query_width = float(mixer.num_heads * mixer.head_dim)
    if mixer.shared_cache:
        query_bytes = query_width * ACTIVATION_BYTES
        normed = ("qk_norm",) if mixer.qk_norm != "none" else ()
        return tuple(
            emission.streaming(name, name, (query_bytes, query_bytes), shard="width")
            for name in (*normed, ROPE)
        )
    if mixer.bidirectional:
        rotated_C = (query_width + kv_heads_C * float(mixer.head_dim)) * ACTIVATION_BYTES
        return (emission.streaming(ROPE, "rope", (rotated_C, rotated_C), shard="width"),)
    kv_width_C = kv_heads_C * float(mixer.head_dim + mixer.value_head_dim)
    kv_bytes = get_format(emission.formats.kv).weight_bytes
    moved = rope_and_cache_bytes(query_width, kv_width_C, kv_bytes)
    append = emission.streaming(
        "rope_and_cache", "rope_and_cache", (moved.read, moved.write), shard="width"
    )
    if mixer.qk_norm == "none":
        return (append,)
    normed_C = (query_width + kv_heads_C * float(mixer.head_dim)) * ACTIVATION_BYTES
    shard: Shard = "width_sums" if mixer.qk_norm == "full" else "width"
    return (emission.streaming("qk_norm", "qk_norm", (normed_C, normed_C), shard=shard), append)


def _output_gate(emission: Emission, width: float) -> tuple[Operator, ...]:
    if not width:
        return ()
    width_bytes = width * ACTIVATION_BYTES
    return (
        emission.streaming(
            "attention_gate", "output_gate", (2.0 * width_bytes, width_bytes), shard="width"
        ),
    )


def _attention(emission: Emission, mixer: GqaAttention, kv_heads_C: FloatArray) -> Attention:
    column, tokens = emission.column, emission.tokens
    return Attention(
        name="attention",
        phase=emission.phase,
        count=emission.count,
        shard="heads",
        batch=tokens.batch,
        q_len=tokens.q_len,
        kv_len=tokens.kv_len,
        num_heads=column(mixer.num_heads),
        num_kv_heads=kv_heads_C,
        head_dim=column(mixer.head_dim),
        value_head_dim=column(mixer.value_head_dim),
        window=column(mixer.window if mixer.indexer is None else mixer.indexer.top_k),
        format=emission.formats.attention,
        kv_format=emission.formats.kv,
        kv_bytes_per_element=get_format(emission.formats.kv).weight_bytes,
        causal=not mixer.bidirectional,
        cache_append=not mixer.bidirectional and not mixer.shared_cache,
    )


def mla_operators(emission: Emission, mixer: MlaAttention) -> tuple[Operator, ...]:
    """Return the operators of one multi-head latent attention layer.

    Prefill expands keys and values for every key, including the cached prefix, with
    `kv_b_projection`. Decode, and sparse attention in both phases, attend in the latent space
    between `latent_q_absorb` and `latent_v_expand`, which use the same weights.

    Source: DeepSeek-V2 (arXiv 2405.04434) section 2.1 and appendix C; sparse attention in the
        latent (MQA) mode: DeepSeek-V3.2-Exp technical report section 2.
    Limits: The two absorbed products are batched over heads; as one GEMM their FLOP and weights
        are exact, but the smaller of their activations is counted once instead of per head.
    """
    indexes = mixer.indexer is not None and not mixer.indexer.shared
    indexer = indexer_operators(emission, mixer, mixer.indexer) if indexes and mixer.indexer else ()
    absorbed = emission.phase == Phase.DECODE or mixer.indexer is not None
    core = _absorbed(emission, mixer) if absorbed else _expanded(emission, mixer)
    return (
        *_latent_projections(emission, mixer),
        *indexer,
        *core,
        *_latent_gate(emission, mixer),
        *emission.gemm(
            "output_projection",
            emission.hidden,
            float(mixer.num_heads * mixer.value_head_dim),
            "row",
            format_name=emission.projection_format,
        ),
    )


def _latent_gate(emission: Emission, mixer: MlaAttention) -> tuple[Operator, ...]:
    """Return the projection of the gate, and its product with the output of attention."""
    if not mixer.output_gate:
        return ()
    width = float(mixer.num_heads * mixer.value_head_dim)
    return (
        *emission.gemm(
            "gate_projection",
            width,
            emission.hidden,
            "column",
            format_name=emission.projection_format,
        ),
        *_output_gate(emission, width),
    )


def _latent_projections(emission: Emission, mixer: MlaAttention) -> tuple[Operator, ...]:
    projection, hidden = emission.projection_format, emission.hidden
    cache_row = mixer.kv_lora_rank + mixer.rope_dim
    query_width = float(mixer.num_heads * (mixer.nope_dim + mixer.rope_dim))
    kv_bytes = get_format(emission.formats.kv).weight_bytes
    latent = float(mixer.q_lora_rank + mixer.kv_lora_rank) * ACTIVATION_BYTES
    rope = float(mixer.num_heads * mixer.rope_dim) * ACTIVATION_BYTES
    names = ("qkv_a_projection", "q_b_projection") if mixer.q_lora_rank else ("kv_a_projection",)
    down = emission.gemm(
        names[0], float(mixer.q_lora_rank + cache_row), hidden, "replicated", format_name=projection
    )
    up = emission.gemm(
        names[-1] if mixer.q_lora_rank else "q_projection",
        query_width,
        mixer.q_lora_rank or hidden,
        "column",
        format_name=projection,
    )
    return (
        *down,
        emission.streaming("latent_norm", "latent_norm", (latent, latent)),
        *up,
        emission.streaming("rope", "rope", (rope, rope), shard="width"),
        emission.streaming(
            "latent_cache_append",
            "cache_append",
            (cache_row * ACTIVATION_BYTES, cache_row * kv_bytes),
        ),
    )


def _expanded(emission: Emission, mixer: MlaAttention) -> tuple[Operator, ...]:
    width = float(mixer.num_heads * (mixer.nope_dim + mixer.value_head_dim))
    expansion = emission.gemm(
        "kv_b_projection",
        width,
        mixer.kv_lora_rank,
        "column",
        format_name=emission.projection_format,
        rows=emission.tokens.batch * emission.tokens.kv_len,
    )
    attention = _latent_attention(emission, mixer, mixer.nope_dim, mixer.value_head_dim)
    return (*expansion, attention)


def _absorbed(emission: Emission, mixer: MlaAttention) -> tuple[Operator, ...]:
    rank, heads, head = mixer.kv_lora_rank, mixer.num_heads, emission.formats.head
    # In prefill LatentAttention counts nope + rope + value per pair: set the latent widths.
    nope, value = (
        (mixer.nope_dim, mixer.value_head_dim) if emission.phase == Phase.DECODE else (rank, rank)
    )
    return (
        *emission.gemm(
            "latent_q_absorb", float(heads * rank), mixer.nope_dim, "column", format_name=head
        ),
        _latent_attention(emission, mixer, nope, value),
        *emission.gemm(
            "latent_v_expand", float(heads * mixer.value_head_dim), rank, "column", format_name=head
        ),
    )


def _latent_attention(
    emission: Emission, mixer: MlaAttention, nope_dim: int, value_dim: int
) -> LatentAttention:
    column, tokens = emission.column, emission.tokens
    return LatentAttention(
        name="latent_attention",
        phase=emission.phase,
        count=emission.count,
        shard="heads",
        batch=tokens.batch,
        q_len=tokens.q_len,
        kv_len=tokens.kv_len,
        num_heads=column(mixer.num_heads),
        kv_lora_rank=column(mixer.kv_lora_rank),
        rope_dim=column(mixer.rope_dim),
        nope_dim=column(nope_dim),
        value_head_dim=column(value_dim),
        selected=column(mixer.indexer.top_k if mixer.indexer else 0),
        format=emission.formats.attention,
        kv_format=emission.formats.kv,
        kv_bytes_per_element=get_format(emission.formats.kv).weight_bytes,
    )


def indexer_operators(
    emission: Emission, mixer: MlaAttention, indexer: SparseIndexer
) -> tuple[Operator, ...]:
    """Return the lightning indexer of sparse attention: projections, scores and selection.

    Every rank computes the scores of all heads, because they are summed over heads before the
    selection; nothing here is divided.

    Source: DeepSeek-V3.2-Exp technical report section 2.1, equation 1: score of query t and key s
        = sum over heads of w(t, head) ReLU(q(t, head) . k(s)).
    """
    projection, head = emission.projection_format, emission.formats.head
    width = float(indexer.num_heads * indexer.head_dim)
    query_source = mixer.q_lora_rank or emission.hidden
    touched = (width + indexer.head_dim) * ACTIVATION_BYTES
    stored = width + indexer.head_dim + key_index.INDEX_SCALE_BYTES * (indexer.num_heads + 1)
    return (
        *emission.gemm(
            "indexer_q_projection", width, query_source, "replicated", format_name=projection
        ),
        *emission.gemm(
            "indexer_k_projection",
            indexer.head_dim,
            emission.hidden,
            "replicated",
            format_name=projection,
        ),
        *emission.gemm(
            "indexer_head_weights",
            indexer.num_heads,
            emission.hidden,
            "replicated",
            format_name=head,
        ),
        emission.streaming("indexer_rope_and_cache", "rope_and_cache", (touched, stored)),
        *key_index.scores_and_selection(
            emission,
            key_index.KeyIndex(
                num_heads=emission.column(indexer.num_heads),
                head_dim=emission.column(indexer.head_dim),
                selected=emission.column(indexer.top_k),
                key_bytes=indexer.head_dim * key_index.INDEX_KEY_BYTES
                + key_index.INDEX_SCALE_BYTES,
            ),
        ),
    )
