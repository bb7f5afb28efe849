"""Operators of the indexer of block-sparse attention (MiniMax-M3); see phases.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.networks.key_index import KeyIndex, scores_and_selection
from perfatlas.operators import ACTIVATION_BYTES

if TYPE_CHECKING:
    from perfatlas.networks.emission import Emission
    from perfatlas.networks.layers import SparseIndexer
    from perfatlas.operators import Operator


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
