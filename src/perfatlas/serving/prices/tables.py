"""What a step costs, as integer tables that a compiled loop reads.

A step of one scheduler holds n sequences that decode, with S keys in their caches together, those
of the tokens it computes included, and chunks of prompts. Its time is

    linear(tokens) + head(sequences sampled) + decode_attention(n, S)
        + sum over chunks added(queries, keys before) + max over chunks last(queries, keys before)
        + host

with `linear` read at the padded batch of the captured graph where only sequences decode, and at all
tokens of the step where a chunk runs. Decode attention is affine in S between the borders of a
table cell: k steps of one batch inside a cell take k a + b (k S + n k (k - 1)/2) picoseconds,
exactly. The cell is that of S // n; the last one has no upper border. Tables of chunks are linear
along the queries at both borders of keys, then along the keys, each rounded down. Ranks that step
together share linear(most tokens of a rank) and wait for the longest sum of the rest.

Shape legend: T tokens of a step (from 0), B sequences (from 0), K borders of mean context,
Q borders of chunk length, P borders of keys before a chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ticks = NDArray[np.int64]


class StepPrices(NamedTuple):
    """Integer tables of one model on one system under one engine and plan.

    Args:
        decode_linear_B: Linear layers, norms and links of a step that only decodes, at its padded
            batch (B,) [ps].
        mixed_linear_T: The same of a step with prompts, by all of its tokens (T,) [ps].
        head_B: Logits and sampling, by sequences sampled (B,) [ps].
        context_K: Borders of the mean context of decoding sequences (K,) [tokens], rising from 0.
        decode_base_BK: Decode attention of n sequences at the lower border of a cell (B, K) [ps].
        decode_slope_BK: Its growth per key of all sequences together (B, K) [ps/token].
        queries_Q: Borders of chunk length (Q,) [tokens], rising from 0.
        before_P: Borders of keys before a chunk (P,) [tokens], rising from 0.
        prefill_added_QP: Attention of a chunk, and what else it runs apart, among others like it
            (Q, P) [ps]; bilinear between borders.
        prefill_last_QP: What it takes beyond that where it ends last (Q, P) [ps]: one chunk leaves
            processors idle while its longest tiles end, among others only the last to end does.
            Below 0 where it starts faster than the shortest chunk, whose start is linear.
        host_step: Host work of a step [ps].
        host_sequence: Host work per sequence of a step [ps].
        host_prefill: Host work of a step with prompts that no whole-step graph covers [ps].
        host_overlapped: Only the host work longer than the device's shows.
        tokens_per_decode: Query tokens of a sequence in a decode step, 1 and its drafts. What is
            read at B sequences that decode holds so many tokens for each, drafting included;
            `mixed_linear_T` and `head_B` are read at as many tokens and rows of each.
    """

    decode_linear_B: Ticks
    mixed_linear_T: Ticks
    head_B: Ticks
    context_K: NDArray[np.int64]
    decode_base_BK: Ticks
    decode_slope_BK: Ticks
    queries_Q: NDArray[np.int64]
    before_P: NDArray[np.int64]
    prefill_added_QP: Ticks
    prefill_last_QP: Ticks
    host_step: int
    host_sequence: int
    host_prefill: int
    host_overlapped: bool
    tokens_per_decode: int = 1
