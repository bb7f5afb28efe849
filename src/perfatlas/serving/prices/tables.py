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

Every quantity of a step, energy as well as time, is tabulated so, over the borders that its time
needs; the loop reads the tables of time.

Shape legend: N quantities, T tokens of a step (from 0), B sequences (from 0), K borders of mean
context, Q borders of chunk length, P borders of keys before a chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfatlas.pricing import PricedOperators, columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray

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


class QuantityTables(NamedTuple):
    """The integer tables of every quantity of a step, which share their borders.

    Args:
        quantities: Columns of the priced record, time first (N); a tick is what each declares.
        decode_linear_NB: As `decode_linear_B` of `StepPrices`, of each quantity (N, B) [ticks].
        mixed_linear_NT: As `mixed_linear_T` (N, T) [ticks].
        head_NB: As `head_B` (N, B) [ticks].
        context_K: Borders of the mean context (K,) [tokens].
        decode_base_NBK: As `decode_base_BK` (N, B, K) [ticks].
        decode_slope_NBK: As `decode_slope_BK` (N, B, K) [ticks/token].
        queries_Q: Borders of chunk length (Q,) [tokens].
        before_P: Borders of keys before a chunk (P,) [tokens].
        prefill_added_NQP: As `prefill_added_QP` (N, Q, P) [ticks].
        prefill_last_NQP: As `prefill_last_QP` (N, Q, P) [ticks].
        tokens_per_decode: Query tokens of a sequence in a decode step.
    """

    quantities: tuple[str, ...]
    decode_linear_NB: Ticks
    mixed_linear_NT: Ticks
    head_NB: Ticks
    context_K: NDArray[np.int64]
    decode_base_NBK: Ticks
    decode_slope_NBK: Ticks
    queries_Q: NDArray[np.int64]
    before_P: NDArray[np.int64]
    prefill_added_NQP: Ticks
    prefill_last_NQP: Ticks
    tokens_per_decode: int

    def of(self, quantity: str) -> StepPrices:
        """Return the tables of one quantity, without host work.

        Args:
            quantity: A name of `quantities`.
        """
        n = self.quantities.index(quantity)
        return StepPrices(
            decode_linear_B=self.decode_linear_NB[n],
            mixed_linear_T=self.mixed_linear_NT[n],
            head_B=self.head_NB[n],
            context_K=self.context_K,
            decode_base_BK=self.decode_base_NBK[n],
            decode_slope_BK=self.decode_slope_NBK[n],
            queries_Q=self.queries_Q,
            before_P=self.before_P,
            prefill_added_QP=self.prefill_added_NQP[n],
            prefill_last_QP=self.prefill_last_NQP[n],
            host_step=0,
            host_sequence=0,
            host_prefill=0,
            host_overlapped=False,
            tokens_per_decode=self.tokens_per_decode,
        )


def quantity_ticks(values_N: FloatArray, quantities: Sequence[str]) -> Ticks:
    """Return values as whole ticks of their quantities, of the same shape.

    Args:
        values_N: Quantities first (N, ...).
        quantities: Columns of the priced record (N).
    """
    declared = columns_of(PricedOperators)
    whole = [
        np.rint(values * declared[name].ticks_per_unit).astype(np.int64)
        for values, name in zip(values_N, quantities, strict=True)
    ]
    return np.stack(whole)
