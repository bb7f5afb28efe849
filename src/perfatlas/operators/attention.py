"""Attention operators, and the query-key pairs under a mask.

Shape legend: C candidates. A column is float64 of shape (C,), with integer values for counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.operators.columns import Operator
from perfatlas.operators.phases import Phase
from perfatlas.operators.work import FloatArray, Work

# The backward pass of flash attention multiplies five matrices per tile where the forward pass
# multiplies two: it recomputes the scores.
# Source: FlashAttention-2 (arXiv 2307.08691), section 3.1.2.
ATTENTION_BACKWARD: Final = 2.5


@dataclass(frozen=True, kw_only=True)
class Attention(Operator):
    """Softmax attention with H query and KV key-value heads (MHA, GQA, MQA).

    The last q_len of kv_len tokens are queries; a window of 0 means none.

    Args:
        batch: Sequences (C,).
        q_len: Queries per sequence; 1 in decode (C,).
        kv_len: Keys per sequence, including the cached prefix and the queries (C,).
        num_heads: Query heads on the rank (C,).
        num_kv_heads: Key-value heads on the rank, at least 1 (C,).
        head_dim: Width of a query and key head (C,).
        value_head_dim: Width of a value head (C,).
        window: Sliding window in tokens, 0 for none (C,).
        format: Format of the products.
        kv_format: Format of the cache.
        kv_bytes_per_element: Bytes of a cached element.
        causal: Whether a query sees only the keys up to its own; else it sees all.
        cache_append: Whether the time of a prefill includes the append of new keys and values to
            the cache, as in an engine's call.
    """

    kind: ClassVar[str] = "attention"

    batch: FloatArray
    q_len: FloatArray
    kv_len: FloatArray
    num_heads: FloatArray
    num_kv_heads: FloatArray
    head_dim: FloatArray
    value_head_dim: FloatArray
    window: FloatArray
    format: str = "bf16"
    kv_format: str = "bf16"
    kv_bytes_per_element: float = 2.0
    causal: bool = True
    cache_append: bool = True

    @property
    def compute_format(self) -> str:
        """Format of the products."""
        return self.format

    def visible_pairs(self) -> FloatArray:
        """Return unmasked query-key pairs per sequence and head (C,)."""
        if not self.causal:
            return self.q_len * self.kv_len
        return visible_pairs(self.q_len, self.kv_len, self.window)

    def cached_tokens(self) -> FloatArray:
        """Return keys that the kernel must read per sequence (C,)."""
        limit = np.where(self.window > 0, self.window + self.q_len - 1.0, np.inf)
        return np.minimum(self.kv_len, limit)

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        pairs = self.batch * self.num_heads * self.visible_pairs()
        width = self.head_dim + self.value_head_dim
        kv_elements = self.batch * self.num_kv_heads * width
        fresh = kv_elements * self.q_len * self.kv_bytes_per_element
        cached = kv_elements * np.maximum(self.cached_tokens() - self.q_len, 0.0)
        return Work(
            flop=2.0 * pairs * width,
            cold_bytes=cached * self.kv_bytes_per_element,
            activation_bytes=self.batch * self.q_len * self.num_heads * width * 2.0 + fresh,
        )


@dataclass(frozen=True, kw_only=True)
class LatentAttention(Operator):
    """Multi-head latent attention (MLA): all heads share one compressed cache row.

    Prefill expands keys and values per head; decode attends in the latent space (absorbed).

    Args:
        batch: Sequences (C,).
        q_len: Queries per sequence (C,).
        kv_len: Keys per sequence (C,).
        num_heads: Query heads on the rank (C,).
        kv_lora_rank: Latent width (C,).
        rope_dim: Decoupled rotary width (C,).
        nope_dim: Non-rotary width of an expanded key head (C,).
        value_head_dim: Width of an expanded value head (C,).
        selected: Maximum keys per query (sparse attention), 0 for all (C,).
        format: Format of the products.
        kv_format: Format of the cache.
        kv_bytes_per_element: Bytes of a cached element.
    """

    kind: ClassVar[str] = "latent_attention"

    batch: FloatArray
    q_len: FloatArray
    kv_len: FloatArray
    num_heads: FloatArray
    kv_lora_rank: FloatArray
    rope_dim: FloatArray
    nope_dim: FloatArray
    value_head_dim: FloatArray
    selected: FloatArray
    format: str = "bf16"
    kv_format: str = "bf16"
    kv_bytes_per_element: float = 2.0

    @property
    def compute_format(self) -> str:
        """Format of the products."""
        return self.format

    def pair_width(self) -> FloatArray:
        """Return multiply-adds per query-key pair and head (C,)."""
        absorbed = 2.0 * self.kv_lora_rank + self.rope_dim
        expanded = self.nope_dim + self.rope_dim + self.value_head_dim
        return absorbed if self.phase == Phase.DECODE else expanded

    def visible_pairs(self) -> FloatArray:
        """Return query-key pairs of one sequence and head (C,)."""
        return visible_pairs(self.q_len, self.kv_len, self.selected)

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        pairs = self.batch * self.num_heads * self.visible_pairs()
        row = (self.kv_lora_rank + self.rope_dim) * self.kv_bytes_per_element
        touched = np.where(
            self.selected > 0,
            np.minimum(self.kv_len, self.selected * self.q_len),
            self.kv_len,
        )
        width = self.pair_width()
        return Work(
            flop=2.0 * pairs * width,
            cold_bytes=self.batch * np.maximum(touched - self.q_len, 0.0) * row,
            activation_bytes=self.batch * self.q_len * (self.num_heads * width * 2.0 + row),
        )


@dataclass(frozen=True, kw_only=True)
class KeyScores(Operator):
    """Index scores of sparse attention: every query against every visible key.

    Args:
        batch: Sequences (C,).
        q_len: Queries per sequence (C,).
        kv_len: Keys per sequence, including the queries (C,).
        num_heads: Score heads, summed per query and key (C,).
        head_dim: Width of a score head (C,).
        key_bytes: Bytes per cached key with its scale [bytes].
        score_bytes: Bytes per score written [bytes].
        format: Format of the products.
    """

    kind: ClassVar[str] = "key_scores"

    batch: FloatArray
    q_len: FloatArray
    kv_len: FloatArray
    num_heads: FloatArray
    head_dim: FloatArray
    key_bytes: float
    score_bytes: float
    format: str

    @property
    def compute_format(self) -> str:
        """Format of the products."""
        return self.format

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        pairs = self.batch * visible_pairs(self.q_len, self.kv_len, np.zeros_like(self.q_len))
        width = self.num_heads * self.head_dim
        queries = self.batch * self.q_len * width * get_format(self.format).activation_bytes
        return Work(
            flop=2.0 * pairs * width,
            cold_bytes=self.batch * self.kv_len * self.key_bytes,
            activation_bytes=queries + pairs * self.score_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class KeySelection(Operator):
    """Top-k selection of the keys of each query in sparse attention.

    Args:
        batch: Sequences (C,).
        q_len: Queries per sequence (C,).
        kv_len: Scored keys per sequence, including the queries (C,).
        selected: Keys kept per query (C,).
        score_bytes: Bytes per score read [bytes].
        index_bytes: Bytes per selected index written [bytes].
    """

    kind: ClassVar[str] = "key_selection"

    batch: FloatArray
    q_len: FloatArray
    kv_len: FloatArray
    selected: FloatArray
    score_bytes: float
    index_bytes: float

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        zero = np.zeros_like(self.q_len)
        # A query with no more visible keys than it keeps needs no scores.
        choosing = np.clip(self.kv_len - self.selected, 0.0, self.q_len)
        scores = self.batch * visible_pairs(choosing, self.kv_len, zero)
        chosen = self.batch * self.q_len * self.selected
        return Work(
            flop=zero,
            cold_bytes=zero,
            activation_bytes=scores * self.score_bytes + chosen * self.index_bytes,
        )


def visible_pairs(q_len: FloatArray, kv_len: FloatArray, limit: FloatArray) -> FloatArray:
    """Return query-key pairs per sequence under a causal mask and a key limit (C,).

    The i-th of q queries (i = 1..q) sees kv - q + i keys, at most `limit` if limit > 0.

    Args:
        q_len: Queries (C,).
        kv_len: Keys, including the queries (C,).
        limit: Window or selection in keys, 0 for none (C,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.operators import visible_pairs
        >>> float(visible_pairs(np.array([4.0]), np.array([4.0]), np.array([0.0]))[0])
        10.0
    """
    cap = np.where(limit > 0, limit, np.inf)
    first = kv_len - q_len + 1.0
    growing = np.clip(cap - first, 0.0, q_len)  # queries whose key count is still below the cap
    growing = np.where(np.isfinite(growing), growing, q_len)
    below = growing * first + growing * (growing - 1.0) / 2.0
    capped = q_len - growing
    return below + np.where(capped > 0, capped * np.minimum(cap, kv_len), 0.0)
