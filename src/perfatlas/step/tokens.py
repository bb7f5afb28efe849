"""How a workload becomes steps: prefill chunks and padded decode batches.

Shape legend: C candidates, G captured graph sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.models import StepTokens

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray


@dataclass(frozen=True, kw_only=True)
class PrefillChunks:
    """The chunks that together prefill a batch: equal ones, and the one that ends it.

    Args:
        count: Equal chunks, at least 1 (C,).
        tokens: Tokens of one of them.
        last_count: Chunks that end a sequence or the batch, 0 where one chunk does it all (C,).
        last_tokens: Tokens of one of those.
    """

    count: FloatArray
    tokens: StepTokens
    last_count: FloatArray
    last_tokens: StepTokens


def prefill_chunks(
    batch: FloatArray, new_tokens: FloatArray, prefix: FloatArray, budget: FloatArray
) -> PrefillChunks:
    """Return the chunks of a chunked prefill of `batch` sequences.

    Engines fill the token budget of a step: chunks hold whole sequences where those fit the budget,
    else a piece of one sequence. Pieces of one sequence see a growing prefix; the mean piece sees
    the mean of them, which keeps the number of query-key pairs over all pieces exact.

    Args:
        batch: Sequences (C,).
        new_tokens: Tokens to compute per sequence (C,).
        prefix: Cached tokens before them (C,).
        budget: Tokens a step may hold, max_num_batched_tokens (C,).

    Limits: a sequence cut at the border of two chunks of whole sequences is counted as two parts
        of a sequence of full length.

    Example:
        >>> import numpy as np
        >>> from perfatlas.step import prefill_chunks
        >>> one = np.ones(1)
        >>> chunks = prefill_chunks(64 * one, 2048 * one, 0 * one, 8192 * one)
        >>> float(chunks.count[0] + chunks.last_count[0])
        16.0
    """
    whole = new_tokens <= budget
    work = np.where(whole, batch * new_tokens, new_tokens)  # cut into budgets
    # The last piece is priced apart even where it is full: it sees the longest past.
    full = np.ceil(work / budget) - 1.0
    rest = work - full * budget
    size = np.where(full > 0, budget, work)
    pieces = np.maximum(full, 1.0)
    per_batch = np.where(whole, 1.0, batch)
    mean_before = np.where(whole, 0.0, (pieces - 1.0) * budget / 2.0)
    # ends of several sequences share a step as far as the budget goes
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
    """Return the decode batch a captured CUDA graph runs (C,).

    The smallest captured size that holds the batch; above the largest one the step runs unpadded.

    Args:
        batch: Sequences (C,).
        graph_sizes: Captured sizes, rising (G,); empty for no graphs.

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
