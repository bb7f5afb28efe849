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
# tables of energy, and the tables of time that have the same shape
ENERGY_TABLES: Final = {
    "decode_linear_energy_B": "decode_linear_B",
    "mixed_linear_energy_T": "mixed_linear_T",
    "decode_experts_energy_B": "decode_experts_B",
    "mixed_experts_energy_T": "mixed_experts_T",
    "head_energy_B": "head_B",
    "decode_base_energy_BK": "decode_base_BK",
    "decode_slope_energy_BK": "decode_slope_BK",
    "prefill_added_energy_QP": "prefill_added_QP",
    "prefill_last_energy_QP": "prefill_last_QP",
}


class StepPrices(NamedTuple):
    """Integer price tables of one model, system, engine and plan."""

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
    """Dynamic energy of a step on one GPU, by the terms of `StepPrices`, and power of its GPUs."""

    decode_linear_energy_B: Ticks  # As `decode_linear_B` (B,) [nJ]
    mixed_linear_energy_T: Ticks  # As `mixed_linear_T` (T,) [nJ]
    decode_experts_energy_B: Ticks  # As `decode_experts_B` (B,) [nJ]
    mixed_experts_energy_T: Ticks  # As `mixed_experts_T` (T,) [nJ]
    head_energy_B: Ticks  # As `head_B` (B,) [nJ]
    decode_base_energy_BK: Ticks  # As `decode_base_BK` (B, K) [nJ]
    decode_slope_energy_BK: Ticks  # As `decode_slope_BK` (B, K) [nJ/token]
    prefill_added_energy_QP: Ticks  # As `prefill_added_QP` (Q, P) [nJ]
    prefill_last_energy_QP: Ticks  # As `prefill_last_QP` (Q, P) [nJ]
    dynamic_power: float  # Dynamic power that the limit of a GPU leaves to a step [nJ/ps]
    on_power: float  # Power of a GPU without kernels [nJ/ps]
    # GPUs of one scheduler, each of which does the work of the one that is priced; with pipeline
    # stages those of one stage
    rank_gpus: int


def no_energy(prices: StepPrices) -> EnergyPrices:
    """Return energies of zero for steps whose device has none."""
    tables = {time: np.zeros_like(getattr(prices, time)) for time in ENERGY_TABLES.values()}
    named = {name: tables[time] for name, time in ENERGY_TABLES.items()}
    return EnergyPrices(**named, dynamic_power=0.0, on_power=0.0, rank_gpus=0)


class QuantityTables(NamedTuple):
    """Integer tables of all quantities of a step, with shared breakpoints."""

    # Columns of the priced record, time first (N), in ticks of each column
    quantities: tuple[str, ...]
    decode_linear_NB: Ticks  # As `decode_linear_B` of `StepPrices`, per quantity (N, B) [ticks]
    mixed_linear_NT: Ticks  # As `mixed_linear_T` (N, T) [ticks]
    decode_experts_NB: Ticks  # As `decode_experts_B` (N, B) [ticks]
    mixed_experts_NT: Ticks  # As `mixed_experts_T` (N, T) [ticks]
    head_NB: Ticks  # As `head_B` (N, B) [ticks]
    context_K: NDArray[np.int64]  # Breakpoints of the mean context (K,) [tokens]
    decode_base_NBK: Ticks  # As `decode_base_BK` (N, B, K) [ticks]
    decode_slope_NBK: Ticks  # As `decode_slope_BK` (N, B, K) [ticks/token]
    queries_Q: NDArray[np.int64]  # Breakpoints of chunk length (Q,) [tokens]
    before_P: NDArray[np.int64]  # Breakpoints of keys before a chunk (P,) [tokens]
    prefill_added_NQP: Ticks  # As `prefill_added_QP` (N, Q, P) [ticks]
    prefill_last_NQP: Ticks  # As `prefill_last_QP` (N, Q, P) [ticks]
    tokens_per_decode: int  # Query tokens per sequence and decode step

    def of(self, quantity: str) -> StepPrices:
        """Return the tables of one quantity, without host time.

        Args:
            quantity: A name of `quantities`.
        """
        n = self.quantities.index(quantity)
        return StepPrices(
            decode_linear_B=self.decode_linear_NB[n],
            mixed_linear_T=self.mixed_linear_NT[n],
            decode_experts_B=self.decode_experts_NB[n],
            mixed_experts_T=self.mixed_experts_NT[n],
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
