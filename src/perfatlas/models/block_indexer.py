"""Operators of the indexer of block-sparse attention (MiniMax-M3); see phases.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.models.elementwise import ACTIVATION_BYTES
from perfatlas.operators import KeyScores, KeySelection

if TYPE_CHECKING:
    from perfatlas.models.architecture import SparseIndexer
    from perfatlas.models.emission import Emission
    from perfatlas.operators import Operator

LOGIT_BYTES: Final = 4.0
POSITION_BYTES: Final = 4.0


def block_indexer_operators(
    emission: Emission, indexer: SparseIndexer | None
) -> tuple[Operator, ...]:
    """Return projections, scores and selection of blocks of keys; nothing without an indexer.

    Each score head selects for one group of query heads, so that tensor parallelism divides them.

    Args:
        emission: The builder of the layer.
        indexer: Its dimensions.

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
        *_scores_and_selection(emission, indexer),
    )


def _scores_and_selection(emission: Emission, indexer: SparseIndexer) -> tuple[Operator, ...]:
    tokens, block = emission.tokens, float(indexer.block_size)
    scores = KeyScores(
        name="indexer_scores",
        phase=emission.phase,
        count=emission.count,
        shard="heads",
        batch=tokens.batch,
        q_len=tokens.q_len,
        kv_len=tokens.kv_len,
        num_heads=emission.repeated(indexer.num_heads),
        head_dim=emission.column(indexer.head_dim),
        key_bytes=indexer.head_dim * ACTIVATION_BYTES,
        score_bytes=LOGIT_BYTES * indexer.num_heads / block,
        format="bf16",
    )
    selection = KeySelection(
        name="indexer_selection",
        phase=emission.phase,
        count=emission.count,
        batch=tokens.batch,
        q_len=tokens.q_len,
        kv_len=tokens.kv_len,
        selected=emission.column(indexer.top_k),
        score_bytes=LOGIT_BYTES * indexer.num_heads / block,
        index_bytes=POSITION_BYTES * indexer.num_heads / block,
    )
    return scores, selection
