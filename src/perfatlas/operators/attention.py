"""Attention operators.

Shape legend: C candidates. A column is float64 of shape (C,), with integer values for counts.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final, Self

import numpy as np

from perfatlas.formats import get_format
from perfatlas.operators.copies import with_fields
from perfatlas.operators.key_readers import HeadReader, KeyReader, visible_pairs
from perfatlas.operators.operator import ACTIVATION_BYTES
from perfatlas.operators.phases import Phase
from perfatlas.operators.work import FloatArray, Work

STATISTICS_BYTES: Final = 4.0  # of the softmax in flash attention, fp32 per query and head


@dataclass(frozen=True, kw_only=True)
class _Softmax(HeadReader):
    """Softmax over the scores of queries and keys."""

    def context_elements(self) -> FloatArray:
        """Return the keys and values that a rank sends to the others of its sequence (C,)."""
        return self.batch * self.q_len * self.key_row()

    @abstractmethod
    def key_row(self) -> FloatArray:
        """Return elements of keys and values per token on the rank (C,)."""

    @abstractmethod
    def query_width(self) -> FloatArray:
        """Return the width of a query head (C,)."""

    def saved_inputs(self) -> FloatArray:
        """Return queries, keys and values; the output is kept by the next product (C,) [bytes]."""
        row = self.num_heads * self.query_width() + self.key_row()
        return self.batch * self.q_len * row * ACTIVATION_BYTES

    def softmax_rows(self) -> FloatArray:
        """Return the queries of all heads (C,)."""
        return self.batch * self.q_len * self.num_heads

    def scores(self) -> FloatArray:
        """Return the scores, masked ones too (C,)."""
        return self.softmax_rows() * self.kv_len


@dataclass(frozen=True, kw_only=True)
class Attention(_Softmax):
    """Softmax attention with H query and KV key-value heads (MHA, GQA, MQA).

    A window of 0 means none.

    Args:
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

    def key_limit(self) -> FloatArray:
        """Return the window, 0 for none (C,)."""
        return self.window

    def head_part(self, tp: FloatArray) -> Self:
        """Return the heads of one of `tp` ranks; key-value heads are repeated if there are fewer.

        Args:
            tp: Tensor-parallel ranks (C,).
        """
        local = super().head_part(tp)
        return with_fields(local, num_kv_heads=np.maximum(self.num_kv_heads / tp, 1.0))

    def key_row(self) -> FloatArray:
        """Return elements of keys and values per token on the rank (C,)."""
        return self.num_kv_heads * (self.head_dim + self.value_head_dim)

    def query_width(self) -> FloatArray:
        """Return the width of a query head (C,)."""
        return self.head_dim

    def kept_outputs(self) -> FloatArray:
        """Return queries, values, outputs and statistics of the softmax (C,) [bytes]."""
        heads = self.num_heads * (self.head_dim + self.value_head_dim)
        row = (heads + self.num_kv_heads * self.value_head_dim) * ACTIVATION_BYTES
        return self.batch * self.q_len * (row + self.num_heads * STATISTICS_BYTES)

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
class LatentAttention(_Softmax):
    """Multi-head latent attention (MLA): all heads share one compressed cache row.

    Prefill expands keys and values per head; decode attends in the latent space (absorbed).

    Args:
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
    input_module: ClassVar[str] = "mla_up_proj"

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

    def key_limit(self) -> FloatArray:
        """Return the selected keys, 0 for all (C,)."""
        return self.selected

    def verifying(self, batch: FloatArray, queries: int) -> Self:
        """Return it in a decode step that verifies several tokens per sequence.

        With key selection, every query reads its own keys; else all read the same.

        Args:
            batch: Sequences (C,).
            queries: Tokens per sequence.
        """
        if queries > 1 and np.any(self.selected > 0):
            return with_fields(self, batch=batch * queries)
        return super().verifying(batch, queries)

    def key_row(self) -> FloatArray:
        """Return elements per token that ranks exchange: the latent row, in training all heads.

        In training, keys and values are expanded before they are exchanged.
        """
        if self.phase == Phase.PREFILL:
            return self.kv_lora_rank + self.rope_dim
        return self.num_heads * (self.query_width() + self.value_head_dim)

    def query_width(self) -> FloatArray:
        """Return the width of an expanded query head (C,)."""
        return self.nope_dim + self.rope_dim

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
class KeyScores(HeadReader):
    """Index scores of sparse attention: every query against every visible key.

    Args:
        head_dim: Width of a score head (C,).
        key_bytes: Bytes per cached key with its scale [bytes].
        score_bytes: Bytes per score written [bytes].
        format: Format of the products.
    """

    kind: ClassVar[str] = "key_scores"

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
class KeySelection(KeyReader):
    """Top-k selection of the keys of each query in sparse attention.

    Args:
        selected: Keys kept per query (C,).
        score_bytes: Bytes per score read [bytes].
        index_bytes: Bytes per selected index written [bytes].
    """

    kind: ClassVar[str] = "key_selection"

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
