"""The step prices of one candidate, tabulated.

Shape legend: as in `serving.prices`; X sizes that are priced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.models import StepTokens
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.serving.prices.chunk_prices import chunk_prices
from perfatlas.serving.prices.grids import Sizes, needed_sizes, sizes_up_to, spaced_sizes
from perfatlas.serving.prices.parts import TABULATED, StepParts, step_parts
from perfatlas.serving.prices.tables import QuantityTables, StepPrices, Ticks, quantity_ticks
from perfatlas.serving.requests import whole_ticks
from perfatlas.step import decode_step, padded_batch, prefill_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.step import StepContext, StepCost

TOLERANCE: Final = 0.01  # of decode attention, where a line between borders may miss it
# Sizes priced of an octave of tokens, both sides of every tile's step among them. Direct pricing of
# all 8,192 sizes of the models of the tests is missed by 0.7 % at most in 99 of 100 (1.0 % with 64,
# 1.1 % with 32), by 2.7 % at most: an expert's or a cache's step lies on no tile. Without the other
# side of the steps it is 3.6 % and 14 %.
TOKEN_PARTS: Final = 128
BATCH_PARTS: Final = 256  # the same of batches tried for their attention
CONTEXT_PARTS: Final = 32  # the same of contexts
CONTEXT_STEP: Final = 64  # keys of a block of the kernels
SHORT_STEP: Final = 8  # contexts tried below one block
PROBE_GROWTH: Final = 1.25  # of the batches whose attention places the borders of context
PROBE_CONTEXTS: Final = 12  # at which attention places the batches that are priced
EVERY_BATCH: Final = 256  # up to which every batch is priced: waves and splits turn on each


@dataclass(frozen=True, kw_only=True)
class TableLimits:
    """How far a table reaches; each at least 1.

    Args:
        max_num_seqs: Sequences of a step of one scheduler at most.
        max_num_batched_tokens: Tokens of its step at most.
        longest_context: Keys of the longest sequence, its new token included.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    longest_context: int


@dataclass(frozen=True, kw_only=True)
class PriceTable:
    """Step prices of one candidate, and two whole steps that tell what they rest on.

    Args:
        prices: The tables of time, with the host work of the engine.
        tables: The tables of every quantity.
        decode: Cost of the largest batch at half the longest context: its calibrations, tiers,
            notes and share priced at the bound.
        prefill: The same of the longest chunk, without keys before it.
    """

    prices: StepPrices
    tables: QuantityTables
    decode: StepCost
    prefill: StepCost


def price_table(
    context: StepContext, limits: TableLimits, quantities: Sequence[str] = TABULATED
) -> PriceTable:
    """Return the step prices of one candidate.

    The attention of prompts starts once per step, however many chunks it holds: what the
    shortest chunk takes is part of `mixed_linear_T`, and the tables of chunks hold what they take
    beyond it. What decoding sequences run apart from prompts goes with their attention: scans and
    convolutions at the padded batch, the absorbed products of latent attention. What a captured
    graph computes of logits beyond the sequences sampled is part of `decode_linear_B`.

    Args:
        context: Model, engine, system and plan; one candidate.
        limits: How far the table reaches. Cost and size grow with max_num_seqs: give what the
            cache holds where that is less than what the engine admits.
        quantities: Columns of the priced record to tabulate, time first.

    Raises:
        InvalidSpecError: Several candidates.
        UnsupportedError: Pipeline stages.

    Limits: the ranks of attention_dp hold equal tokens. Sequences that decode together are priced
    at their mean context.
    """
    candidates, stages = context.plan.pp.size, int(context.plan.pp[0])
    if candidates != 1:
        raise InvalidSpecError(
            f"{candidates} candidates: a price table is that of one; take one plan at a time"
        )
    if stages > 1:
        raise UnsupportedError(
            f"pp = {stages}: the stages of a pipeline run different steps at the same time, and a"
            " simulated scheduler runs one; use pp = 1, or method formula"
        )
    parts = step_parts(context, quantities)
    tables = _tabulate(parts, limits)
    host = context.profile.host
    prices = tables.of(parts.quantities[0])._replace(
        host_step=int(whole_ticks(host.step_s)),
        host_sequence=int(whole_ticks(host.per_sequence_s)),
        host_prefill=int(whole_ticks(context.architecture.num_layers * host.per_layer_prefill_s)),
        host_overlapped=host.overlapped,
    )
    decode, prefill = _largest_steps(context, limits)
    return PriceTable(prices=prices, tables=tables, decode=decode, prefill=prefill)


def _tabulate(parts: StepParts, limits: TableLimits) -> QuantityTables:
    """Return the tables of every quantity of the steps."""
    most, queries = limits.max_num_seqs, 1 + parts.context.drafts
    head_NT = _head(parts, most * queries)
    linear_NB, apart_NB = _decode(parts, most, head_NT)
    context_K, base_NBK, slope_NBK = _decode_keyed(parts, most, limits.longest_context)
    chunks = chunk_prices(parts, limits.max_num_batched_tokens, limits.longest_context)
    mixed_NT = _mixed(parts, limits.max_num_batched_tokens)
    return QuantityTables(
        quantities=parts.quantities,
        decode_linear_NB=linear_NB,
        mixed_linear_NT=mixed_NT + chunks.start_N[:, None],
        head_NB=quantity_ticks(head_NT[:, : most * queries + 1], parts.quantities),
        context_K=context_K,
        decode_base_NBK=base_NBK + apart_NB[:, :, None],
        decode_slope_NBK=slope_NBK,
        queries_Q=chunks.queries_Q,
        before_P=chunks.before_P,
        prefill_added_NQP=chunks.added_NQP,
        prefill_last_NQP=chunks.last_NQP,
        tokens_per_decode=queries,
    )


def _largest_steps(context: StepContext, limits: TableLimits) -> tuple[StepCost, StepCost]:
    one = np.ones(1)
    longest, most = float(limits.longest_context), float(limits.max_num_batched_tokens)
    tokens = min(most, longest) * one
    decode = decode_step(context, limits.max_num_seqs * one, np.maximum(longest / 2.0, one))
    return decode, prefill_step(context, StepTokens(batch=one, q_len=tokens, kv_len=tokens))


def _head(parts: StepParts, most: int) -> FloatArray:
    """Return logits and sampling, by sequences sampled, up to the largest padded batch (N, T)."""
    graphs = parts.context.profile.scheduler.graph_sizes
    padded = int(padded_batch(np.array([float(most)]), graphs)[0])
    sizes_X = _token_sizes(padded)
    head_NT = _between(np.arange(padded + 1), sizes_X, parts.head(sizes_X.astype(np.float64)))
    head_NT[:, 0] = 0.0
    return head_NT


def _decode(parts: StepParts, most: int, head_NT: FloatArray) -> tuple[Ticks, Ticks]:
    """Return linear part and what hangs on no keys of a decode step, by batch, each (N, B)."""
    graphs, queries = parts.context.profile.scheduler.graph_sizes, 1 + parts.context.drafts
    tried_X = _token_sizes(most)
    # both sides of every step of the padding: of all tokens, and of those of later drafts
    for tokens in {1, queries}:
        full = np.array([size // tokens for size in graphs], np.int64)
        tried_X = np.union1d(tried_X, np.append(full, full + 1))
    tried_X = tried_X[(tried_X > 0) & (tried_X <= most)]
    linear_NX, apart_NX = parts.decode(tried_X.astype(np.float64))
    every_B = np.arange(most + 1)
    padded_B = padded_batch(queries * np.arange(most + 1.0), graphs)
    padded_B[0] = 0.0
    padding_NB = head_NT[:, padded_B.astype(np.int64)] - head_NT[:, queries * every_B]
    linear_NB = _between(every_B, tried_X, linear_NX) + padding_NB
    apart_NB = _between(every_B, tried_X, apart_NX)
    linear_NB[:, 0] = apart_NB[:, 0] = 0.0
    return (
        quantity_ticks(linear_NB, parts.quantities),
        quantity_ticks(apart_NB, parts.quantities),
    )


def _mixed(parts: StepParts, most: int) -> Ticks:
    """Return the linear part of steps with prompts, by tokens (N, T) [ticks]."""
    sizes_X = _token_sizes(most)
    # fewer tokens than context-parallel ranks leave whole tokens on some, and none on others
    ranks = float(np.max(parts.context.plan.cp))
    mixed_NX = parts.mixed(np.maximum(sizes_X.astype(np.float64), ranks))
    none_N1 = np.zeros((mixed_NX.shape[0], 1))
    mixed_NT = _between(np.arange(most + 1), np.append(0, sizes_X), np.hstack((none_N1, mixed_NX)))
    return quantity_ticks(mixed_NT, parts.quantities)


def _between(wanted_Y: Sizes, sizes_X: Sizes, values_NX: FloatArray) -> FloatArray:
    """Return the values of every quantity at some sizes, linear between those priced (N, Y)."""
    return np.stack([np.interp(wanted_Y, sizes_X, values_X) for values_X in values_NX])


def _token_sizes(most: int) -> Sizes:
    """Return the numbers of tokens that are priced (X,), rising.

    Messages are tokens times a width, and an engine's all-reduce may leave its kernels below a
    power of two: each comes with the size before it.
    """
    powers = 2 ** np.arange(1, most.bit_length())
    return np.union1d(sizes_up_to(most, least_step=1, parts=TOKEN_PARTS), powers - 1)


def _decode_keyed(parts: StepParts, most: int, longest: int) -> tuple[Sizes, Ticks, Ticks]:
    """Return borders of context (K,), attention at them and its growth per key, each (N, B, K).

    Borders and the batches that are priced lie where the times of the kernels need them.
    """
    contexts = sizes_up_to(longest, least_step=CONTEXT_STEP, parts=CONTEXT_PARTS, around=(-1, 0, 1))
    contexts = np.union1d(contexts, np.arange(1, min(longest, CONTEXT_STEP), SHORT_STEP))
    batches = sizes_up_to(most, least_step=1, parts=BATCH_PARTS)
    probes = spaced_sizes(most, 2 + int(np.log(most) / np.log(PROBE_GROWTH)))
    contexts = needed_sizes(contexts, _keyed_grid(parts, probes, contexts)[0].T, TOLERANCE)
    few = spaced_sizes(longest, PROBE_CONTEXTS)
    needed = needed_sizes(batches, _keyed_grid(parts, batches, few)[0], TOLERANCE)
    batches = np.union1d(np.arange(1, min(most, EVERY_BATCH) + 1), needed)
    every_B = np.arange(most + 1)
    bases, slopes = [], []
    for priced_XK in _keyed_grid(parts, batches, contexts):
        at_BK = np.stack([np.interp(every_B, batches, each_X) for each_X in priced_XK.T], axis=1)
        at_BK[0] = 0.0
        keys_BK = np.maximum(every_B, 1)[:, None] * np.diff(contexts)
        slope_BK = np.diff(at_BK, axis=1) / keys_BK
        # nothing is below one key, and the last border continues the cell before it, but never down
        none_B1 = np.zeros((most + 1, 1))
        last_B1 = np.maximum(slope_BK[:, -1:], 0.0) if contexts.size > 1 else none_B1
        slopes.append(np.hstack((none_B1, slope_BK, last_B1)))
        bases.append(np.hstack((at_BK[:, :1], at_BK)))
    return (
        np.append(0, contexts),
        quantity_ticks(np.stack(bases), parts.quantities),
        quantity_ticks(np.stack(slopes), parts.quantities),
    )


def _keyed_grid(parts: StepParts, batch_X: Sizes, keys_Y: Sizes) -> FloatArray:
    """Return decode attention of batches at mean contexts (N, X, Y)."""
    batch_XY, keys_XY = np.meshgrid(batch_X, keys_Y, indexing="ij")
    attention_NR = parts.decode_keyed(
        batch_XY.ravel().astype(np.float64), keys_XY.ravel().astype(np.float64)
    )
    return attention_NR.reshape(-1, *batch_XY.shape)
