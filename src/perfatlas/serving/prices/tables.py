"""Integer price tables of a step for the compiled event loop.

A step of one scheduler contains n decoding sequences with S keys in total, including those of the
new tokens, and prompt chunks. Its time is

    linear(tokens) + head(sampled sequences) + decode_attention(n, S)
        + sum over chunks added(queries, keys before) + max over chunks last(queries, keys before)
        + host

where `linear` is evaluated at the padded batch of the captured graph for decode-only steps, and at
all tokens of the step otherwise. Decode attention is affine in S within a table cell: k steps of
one batch inside a cell take exactly k a + b (k S + n k (k - 1)/2) picoseconds. The cell is that of
S // n; the last one is unbounded. Chunk tables are interpolated linearly along the queries, then
along the keys, each rounded down.

Attention-DP ranks step together and wait for the slowest. The linear part of a rank with T tokens,
S of all R ranks, takes linear(T) - experts(T) + experts(S/R): experts compute the tokens of all
ranks, wherever they come from. An engine that pads all ranks to the busiest one runs linear(its
tokens) on each.

All quantities of a step are tabulated with the breakpoints of its time; the event loop reads the
tables of time and of energy. The dynamic energy of a step has the same terms, without host, and is
limited by the power that the device leaves to it.

Shape legend: N quantities, T tokens of a step (from 0), B sequences (from 0), K breakpoints of mean
context, Q breakpoints of chunk length, P breakpoints of keys before a chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfatlas.pricing import PricedOperators, columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray

Ticks = NDArray[np.int64]
# the terms of a step that every quantity has; breakpoints are shared
TERMS: Final = (
    *("decode_linear_B", "mixed_linear_T", "decode_experts_B", "mixed_experts_T", "head_B"),
    *("decode_base_BK", "decode_slope_BK", "prefill_added_QP", "prefill_last_QP"),
)


class StepPrices(NamedTuple):
    """Integer price tables of one model, system, engine and plan.

    The tables of another quantity of a step have the same `TERMS`, in its ticks instead of ps, and
    no host time.
    """

    # Linear layers, norms and collectives of a decode-only step, at its padded batch (B,) [ps]
    decode_linear_B: Ticks
    mixed_linear_T: Ticks  # The same for a step with prompts, by its total tokens (T,) [ps]
    # Part of `decode_linear_B` whose work depends on the tokens of all attention-DP ranks (B,)
    # [ps], where all have equal tokens; 0 for one rank
    decode_experts_B: Ticks
    mixed_experts_T: Ticks  # The same part of `mixed_linear_T` (T,) [ps]
    head_B: Ticks  # Logits and sampling, by sampled sequences (B,) [ps]
    # Breakpoints of the mean context of decodes (K,) [tokens], ascending from 0
    context_K: NDArray[np.int64]
    decode_base_BK: Ticks  # Decode attention at the lower breakpoint of a cell (B, K) [ps]
    decode_slope_BK: Ticks  # Growth of decode attention per key in total (B, K) [ps/token]
    queries_Q: NDArray[np.int64]  # Breakpoints of chunk length (Q,) [tokens], ascending from 0
    # Breakpoints of keys before a chunk (P,) [tokens], ascending from 0
    before_P: NDArray[np.int64]
    # Marginal time of attention and other separate operators of a chunk among equal ones (Q, P)
    # [ps]; bilinear between breakpoints
    prefill_added_QP: Ticks
    # Further time of the chunk that finishes last (Q, P) [ps]: a single chunk leaves SMs idle while
    # its longest tiles finish; among several, only the last one does. Negative if its fixed time is
    # below that of the shortest chunk, which is part of the linear tables.
    prefill_last_QP: Ticks
    host_step: int  # Host time per step [ps]
    host_sequence: int  # Host time per sequence of a step [ps]
    host_prefill: int  # Host time of a step with prompts, without a full CUDA graph [ps]
    host_overlapped: bool  # Whether host time counts only where it exceeds device time
    # Query tokens per sequence and decode step: 1 plus drafts. Decode tables at B sequences include
    # this many tokens per sequence, with drafting; `mixed_linear_T` and `head_B` are read at B
    # times this many tokens and rows.
    tokens_per_decode: int = 1
    # Tokens of the busiest rank up to which a step without prompts pads all attention-DP ranks to
    # it
    padded_decode: int = 0
    padded_mixed: int = 0  # The same of a step with prompts
    # Micro-batches that alternate between two machines in a step without prompts; decode tables at
    # B sequences are then those of one of them, and prompts are computed beside all
    micro_batches: int = 1
    # Linear layers and heads of all micro-batches on the machine of attention (B,) [ps]
    decode_turns_B: Ticks = np.zeros(0, np.int64)
    # All micro-batches on the other machine or in one direction of the network, whichever is slower
    # (B,) [ps]
    decode_away_B: Ticks = np.zeros(0, np.int64)


class EnergyPrices(NamedTuple):
    """Dynamic energy of a step on one GPU, and power of its GPUs."""

    tables: StepPrices  # Energy [nJ]
    dynamic_power: float  # Dynamic power that the limit of a GPU leaves to a step [nJ/ps]
    on_power: float  # Power of a GPU without kernels [nJ/ps]
    # GPUs of one scheduler, each of which does the work of the one that is priced; with pipeline
    # stages those of one stage
    rank_gpus: int


def no_energy(prices: StepPrices) -> EnergyPrices:
    """Return energies of zero for steps whose device has none."""
    none = prices._replace(**{name: np.zeros_like(getattr(prices, name)) for name in TERMS})
    return EnergyPrices(none, dynamic_power=0.0, on_power=0.0, rank_gpus=0)


def quantity_ticks(values_N: FloatArray, quantities: Sequence[str]) -> Ticks:
    """Return values as integer ticks of their quantities.

    Args:
        quantities: Columns of the priced record (N).
    """
    declared = columns_of(PricedOperators)
    whole = [
        np.rint(values * declared[name].ticks_per_unit).astype(np.int64)
        for values, name in zip(values_N, quantities, strict=True)
    ]
    return np.stack(whole)
