"""What operators have in common whose queries read keys, and the pairs under a mask.

Shape legend: C candidates. A column is float64 of shape (C,), with integer values for counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from perfatlas.operators.copies import with_fields
from perfatlas.operators.operator import Operator

if TYPE_CHECKING:
    from perfatlas.operators.operator import Ranks, WorkClass
    from perfatlas.operators.work import FloatArray

# The backward pass of flash attention multiplies five matrices per tile where the forward pass
# multiplies two: it recomputes the scores.
# Source: FlashAttention-2 (arXiv 2307.08691), section 3.1.2.
ATTENTION_BACKWARD: Final = 2.5


@dataclass(frozen=True, kw_only=True)
class KeyReader(Operator):
    """An operator whose queries read keys of their sequence.

    The last q_len of kv_len tokens are queries.

    Args:
        batch: Sequences (C,).
        q_len: Queries per sequence; 1 in decode (C,).
        kv_len: Keys per sequence, including the cached prefix and the queries (C,).
    """

    work_class: ClassVar[WorkClass] = "attention"
    per_sequence: ClassVar[bool] = True
    backward_passes: ClassVar[float] = ATTENTION_BACKWARD

    batch: FloatArray
    q_len: FloatArray
    kv_len: FloatArray

    def key_limit(self) -> FloatArray:
        """Return the maximum keys of a query, 0 for all (C,)."""
        return np.zeros_like(self.q_len)

    def divided(self, ranks: Ranks) -> Self:
        """Return the queries of one rank, with a balanced part of the causal work.

        Args:
            ranks: Ranks that divide it.
        """
        if ranks.cp is None:
            return self
        q_len, kv_len = _balanced(self.q_len, self.kv_len, self.key_limit(), ranks.cp)
        return with_fields(self, q_len=q_len, kv_len=kv_len)

    def verifying(self, batch: FloatArray, queries: int) -> Self:
        """Return it in a decode step that verifies several tokens per sequence.

        Every query reads its own keys.

        Args:
            batch: Sequences (C,).
            queries: Tokens per sequence.
        """
        return with_fields(self, batch=batch * queries)


@dataclass(frozen=True, kw_only=True)
class HeadReader(KeyReader):
    """Query heads, which a tensor-parallel group divides.

    Args:
        num_heads: Query or score heads on the rank (C,).
    """

    num_heads: FloatArray

    def divided(self, ranks: Ranks) -> Self:
        """Return the heads of one rank over its queries.

        Args:
            ranks: Ranks that divide it.
        """
        local = super().divided(ranks)
        return local.head_part(ranks.tp) if self.tensor_parallel else local

    def head_part(self, tp: FloatArray) -> Self:
        """Return the heads of one of `tp` ranks.

        Args:
            tp: Tensor-parallel ranks (C,).
        """
        return with_fields(self, num_heads=self.num_heads / tp)

    def verifying(self, batch: FloatArray, queries: int) -> Self:
        """Return it in a decode step that verifies several tokens per sequence.

        All queries read the same keys, as if they were heads.

        Args:
            batch: Sequences (C,).
            queries: Tokens per sequence.
        """
        return with_fields(self, batch=batch, num_heads=self.num_heads * queries)


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


def _balanced(
    q_len: FloatArray, kv_len: FloatArray, limit: FloatArray, parts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (queries, keys) of one of `parts` ranks with balanced causal work, each (C,).

    A rank has q = Q/parts queries. The keys are set so that its visible pairs are exactly those of
    the sequence divided by `parts`. Without a limit that is K - (Q - q)/2: with two ranks and no
    prefix, half the queries see three quarters of the keys.
    """
    pairs = visible_pairs(q_len, kv_len, limit) / parts
    queries = q_len / parts
    cap = np.where(limit > 0, limit, np.inf)
    growing = pairs / queries - (queries - 1.0) / 2.0  # keys of the first query, none capped
    # With a limit, pairs = q cap - m(m + 1)/2 if the first m queries are below the cap.
    finite = np.where(limit > 0, limit, 0.0)
    deficit = np.maximum(queries * finite - pairs, 0.0)
    below = (np.sqrt(1.0 + 8.0 * deficit) - 1.0) / 2.0
    capped = (limit > 0) & (below <= queries)
    first = np.where(capped, np.minimum(finite - below, cap), growing)
    whole = parts == 1.0
    keys = np.where(whole, kv_len, first + queries - 1.0)
    return np.where(whole, q_len, queries), keys
