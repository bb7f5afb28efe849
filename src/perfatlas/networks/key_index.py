"""Scores and selection of keys in sparse attention, for all kinds of indexers.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perfatlas.operators import KeyScores, KeySelection

if TYPE_CHECKING:
    from perfatlas.networks.emission import Emission
    from perfatlas.operators import FloatArray, Shard

LOGIT_BYTES: Final = 4.0
POSITION_BYTES: Final = 4.0
# Index keys of DeepSeek sparse attention are stored in fp8 with one fp32 scale per key.
# Source: DeepSeek-V3.2-Exp technical report section 2.1 and its inference code (`Indexer`).
INDEX_KEY_BYTES: Final = 1.0
INDEX_SCALE_BYTES: Final = 4.0
INDEX_FORMAT: Final = "fp8_static"


@dataclass(frozen=True, kw_only=True)
class KeyIndex:
    """Sizes of an indexer per token of the context.

    Where a score or key stands for several tokens, its bytes and width are divided by their number.
    """

    num_heads: FloatArray  # Score heads (C,)
    head_dim: FloatArray  # Width of a score head (C,)
    selected: FloatArray  # Tokens kept per query (C,)
    key_bytes: float  # Bytes read per token, with scales [bytes]
    scores_per_token: float = 1.0  # Scores written and read per query and token
    format: str = INDEX_FORMAT  # Format of the products
    # How tensor parallelism divides the scores; the selection is replicated
    shard: Shard = "replicated"


def scores_and_selection(emission: Emission, index: KeyIndex) -> tuple[KeyScores, KeySelection]:
    """Return the scores of all visible keys, and the selection of the best ones."""
    tokens, score_bytes = emission.tokens, LOGIT_BYTES * index.scores_per_token
    scores = KeyScores(
        name="indexer_scores",
        phase=emission.phase,
        count=emission.count,
        shard=index.shard,
        batch=tokens.batch,
        q_len=tokens.q_len,
        kv_len=tokens.kv_len,
        num_heads=index.num_heads,
        head_dim=index.head_dim,
        key_bytes=index.key_bytes,
        score_bytes=score_bytes,
        format=index.format,
    )
    selection = KeySelection(
        name="indexer_selection",
        phase=emission.phase,
        count=emission.count,
        batch=tokens.batch,
        q_len=tokens.q_len,
        kv_len=tokens.kv_len,
        selected=index.selected,
        score_bytes=score_bytes,
        index_bytes=POSITION_BYTES * index.scores_per_token,
    )
    return scores, selection
