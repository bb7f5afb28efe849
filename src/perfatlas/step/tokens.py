"""Split a workload into steps: prefill chunks and padded decode batches.

Shape legend: C candidates, G captured graph sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.networks import StepTokens

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray


@dataclass(frozen=True, kw_only=True)
class PrefillChunks:
    """The chunks that prefill a batch: equal chunks, and last chunks."""

    count: FloatArray  # Number of equal chunks, at least 1 (C,)
    tokens: StepTokens
    # Number of chunks that end a sequence or the batch, 0 for a single chunk (C,)
    last_count: FloatArray
    last_tokens: StepTokens


def prefill_chunks(
    batch: FloatArray, new_tokens: FloatArray, prefix: FloatArray, budget: FloatArray
) -> PrefillChunks:
    """Return the chunks of a chunked prefill of `batch` sequences.

    Engines fill the token budget of a step: chunks contain whole sequences if those fit the budget,
    otherwise a piece of one sequence. Pieces of one sequence see a growing prefix; the mean piece
    sees the mean prefix, so the total number of query-key pairs is exact.

    Args:
        batch: Sequences (C,).
        new_tokens: Tokens to compute per sequence (C,).
        prefix: Cached prefix per sequence (C,).
        budget: Maximum tokens per step, max_num_batched_tokens (C,).

    Limits: A sequence split between two chunks of whole sequences counts as two parts of a sequence
        of full length.

    Example:
        >>> import numpy as np
        >>> from perfatlas.step import prefill_chunks
        >>> one = np.ones(1)
        >>> chunks = prefill_chunks(64 * one, 2048 * one, 0 * one, 8192 * one)
        >>> float(chunks.count[0] + chunks.last_count[0])
        16.0
    """
    whole = new_tokens <= budget
    work = np.where(whole, batch * new_tokens, new_tokens)  # to be split by the budget
    # The last piece is priced separately even if it is full, as it has the longest prefix.
    full = np.ceil(work / budget) - 1.0
    rest = work - full * budget
    size = np.where(full > 0, budget, work)
    pieces = np.maximum(full, 1.0)
    per_batch = np.where(whole, 1.0, batch)
    mean_before = np.where(whole, 0.0, (pieces - 1.0) * budget / 2.0)
    # last pieces of several sequences share a step within the budget
    together = np.where(whole, 1.0, np.minimum(batch, np.floor(budget / np.maximum(rest, 1.0))))
    ends = np.ceil(per_batch / together)
    return PrefillChunks(
        count=pieces * per_batch,
        tokens=StepTokens(
            batch=np.where(whole, size / new_tokens, 1.0),
            q_len=np.where(whole, new_tokens, size),
            kv_len=prefix + np.where(whole, new_tokens, mean_before + size),
        ),
        last_count=np.where(full > 0, ends, 0.0),
        last_tokens=StepTokens(
            batch=np.where(whole, rest / new_tokens, per_batch / ends),
            q_len=np.where(whole, new_tokens, np.maximum(rest, 1.0)),
            kv_len=prefix + new_tokens,
        ),
    )


def padded_batch(batch: FloatArray, graph_sizes: tuple[int, ...]) -> FloatArray:
    """Return the decode batch padded to a captured CUDA graph size (C,).

    Uses the smallest captured size that fits the batch; above the largest one, no padding.

    Args:
        batch: Sequences (C,).
        graph_sizes: Captured sizes in ascending order (G,); empty without CUDA graphs.

    Example:
        >>> import numpy as np
        >>> from perfatlas.step import padded_batch
        >>> padded_batch(np.array([3.0, 9.0, 600.0]), (1, 2, 4, 8, 16)).tolist()
        [4.0, 16.0, 600.0]
    """
    if not graph_sizes:
        return batch
    sizes_G = np.asarray(graph_sizes, dtype=np.float64)
    position = np.searchsorted(sizes_G, batch, side="left")
    inside = position < sizes_G.size
    return np.where(inside, sizes_G[np.minimum(position, sizes_G.size - 1)], batch)
