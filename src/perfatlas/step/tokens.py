"""How a workload becomes steps: prefill chunks and padded decode batches.

Shape legend: C candidates, G captured graph sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.models import StepTokens

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray


class PrefillChunks(NamedTuple):
    """Equal chunks that together prefill a batch.

    Args:
        chunks: Steps needed (C,).
        tokens: Tokens of the mean chunk.
    """

    chunks: FloatArray
    tokens: StepTokens


def prefill_chunks(
    batch: FloatArray, new_tokens: FloatArray, prefix: FloatArray, budget: FloatArray
) -> PrefillChunks:
    """Return the chunks of a chunked prefill of `batch` sequences.

    A chunk holds whole sequences where they fit the token budget, else a piece of one sequence.
    Pieces of one sequence see a growing prefix; the mean piece sees the mean of them, which keeps
    the number of query-key pairs over all pieces exact.

    Args:
        batch: Sequences (C,).
        new_tokens: Tokens to compute per sequence (C,).
        prefix: Cached tokens before them (C,).
        budget: Tokens a step may hold, max_num_batched_tokens (C,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.step import prefill_chunks
        >>> one = np.ones(1)
        >>> float(prefill_chunks(64 * one, 2048 * one, 0 * one, 8192 * one).chunks[0])
        16.0
    """
    whole = new_tokens <= budget
    chunks_whole = np.ceil(batch * new_tokens / budget)
    pieces = np.ceil(new_tokens / budget)
    chunks = np.where(whole, chunks_whole, batch * pieces)
    q_len = np.where(whole, new_tokens, new_tokens / pieces)
    mean_before = np.where(whole, 0.0, (new_tokens - q_len) / 2.0)
    return PrefillChunks(
        chunks,
        StepTokens(
            batch=np.where(whole, batch / chunks_whole, 1.0),
            q_len=q_len,
            kv_len=prefix + mean_before + q_len,
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
