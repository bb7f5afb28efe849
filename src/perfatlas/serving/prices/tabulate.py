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
from perfatlas.serving.prices.parts import StepParts, step_parts
from perfatlas.serving.prices.tables import StepPrices, Ticks
from perfatlas.serving.requests import whole_ticks
from perfatlas.step import decode_step, padded_batch, prefill_step

if TYPE_CHECKING:
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
        prices: The tables.
        decode: Cost of the largest batch at half the longest context: its calibrations, tiers,
            notes and share priced at the bound.
        prefill: The same of the longest chunk, without keys before it.
    """

    prices: StepPrices
    decode: StepCost
    prefill: StepCost


def price_table(context: StepContext, limits: TableLimits) -> PriceTable:
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
    parts = step_parts(context)
    most = limits.max_num_seqs
    queries = 1 + context.drafts
    head_s_T = _head(parts, most * queries)
    linear_B, apart_B = _decode(parts, most, head_s_T)
    context_K, base_BK, slope_BK = _decode_keyed(parts, most, limits.longest_context)
    chunks = chunk_prices(parts, limits.max_num_batched_tokens, limits.longest_context)
    host = context.profile.host
    prices = StepPrices(
        decode_linear_B=linear_B,
        mixed_linear_T=_mixed(parts, limits.max_num_batched_tokens) + chunks.start,
        head_B=whole_ticks(head_s_T[: most * queries + 1]),
        context_K=context_K,
        decode_base_BK=base_BK + apart_B[:, None],
        decode_slope_BK=slope_BK,
        queries_Q=chunks.queries_Q,
        before_P=chunks.before_P,
        prefill_added_QP=chunks.added_QP,
        prefill_last_QP=chunks.last_QP,
        host_step=int(whole_ticks(host.step_s)),
        host_sequence=int(whole_ticks(host.per_sequence_s)),
        host_prefill=int(whole_ticks(context.architecture.num_layers * host.per_layer_prefill_s)),
        host_overlapped=host.overlapped,
        tokens_per_decode=queries,
    )
    decode, prefill = _largest_steps(context, limits)
    return PriceTable(prices=prices, decode=decode, prefill=prefill)


def _largest_steps(context: StepContext, limits: TableLimits) -> tuple[StepCost, StepCost]:
    one = np.ones(1)
    longest, most = float(limits.longest_context), float(limits.max_num_batched_tokens)
    tokens = min(most, longest) * one
    decode = decode_step(context, limits.max_num_seqs * one, np.maximum(longest / 2.0, one))
    return decode, prefill_step(context, StepTokens(batch=one, q_len=tokens, kv_len=tokens))


def _head(parts: StepParts, most: int) -> FloatArray:
    """Return logits and sampling, by sequences sampled, up to the largest padded batch [s]."""
    graphs = parts.context.profile.scheduler.graph_sizes
    padded = int(padded_batch(np.array([float(most)]), graphs)[0])
    sizes_X = _token_sizes(padded)
    time_s = np.interp(np.arange(padded + 1), sizes_X, parts.head_s(sizes_X.astype(np.float64)))
    time_s[0] = 0.0
    return time_s


def _decode(parts: StepParts, most: int, head_s_T: FloatArray) -> tuple[Ticks, Ticks]:
    """Return linear part and what hangs on no keys of a decode step, by batch, each (B,) [ps]."""
    graphs, queries = parts.context.profile.scheduler.graph_sizes, 1 + parts.context.drafts
    tried_X = _token_sizes(most)
    # both sides of every step of the padding: of all tokens, and of those of later drafts
    for tokens in {1, queries}:
        full = np.array([size // tokens for size in graphs], np.int64)
        tried_X = np.union1d(tried_X, np.append(full, full + 1))
    tried_X = tried_X[(tried_X > 0) & (tried_X <= most)]
    linear_s_X, apart_s_X = parts.decode_s(tried_X.astype(np.float64))
    every_B = np.arange(most + 1)
    padded_B = padded_batch(queries * np.arange(most + 1.0), graphs)
    padded_B[0] = 0.0
    padding_s_B = head_s_T[padded_B.astype(np.int64)] - head_s_T[queries * every_B]
    linear_s_B = np.interp(every_B, tried_X, linear_s_X) + padding_s_B
    apart_s_B = np.interp(every_B, tried_X, apart_s_X)
    linear_s_B[0] = apart_s_B[0] = 0.0
    return whole_ticks(linear_s_B), whole_ticks(apart_s_B)


def _mixed(parts: StepParts, most: int) -> Ticks:
    """Return the linear part of steps with prompts, by tokens (T,) [ps]."""
    sizes_X = _token_sizes(most)
    time_s_X = parts.mixed_s(sizes_X.astype(np.float64))
    return whole_ticks(
        np.interp(np.arange(most + 1), np.append(0, sizes_X), np.append(0.0, time_s_X))
    )


def _token_sizes(most: int) -> Sizes:
    """Return the numbers of tokens that are priced (X,), rising.

    Messages are tokens times a width, and an engine's all-reduce may leave its kernels below a
    power of two: each comes with the size before it.
    """
    powers = 2 ** np.arange(1, most.bit_length())
    return np.union1d(sizes_up_to(most, least_step=1, parts=TOKEN_PARTS), powers - 1)


def _decode_keyed(parts: StepParts, most: int, longest: int) -> tuple[Sizes, Ticks, Ticks]:
    """Return borders of context (K,), attention at them and its growth per key, each (B, K).

    Borders and the batches that are priced lie where the kernels need them.
    """
    contexts = sizes_up_to(longest, least_step=CONTEXT_STEP, parts=CONTEXT_PARTS, around=(-1, 0, 1))
    contexts = np.union1d(contexts, np.arange(1, min(longest, CONTEXT_STEP), SHORT_STEP))
    batches = sizes_up_to(most, least_step=1, parts=BATCH_PARTS)
    probes = spaced_sizes(most, 2 + int(np.log(most) / np.log(PROBE_GROWTH)))
    contexts = needed_sizes(contexts, _keyed_grid_s(parts, probes, contexts).T, TOLERANCE)
    few = spaced_sizes(longest, PROBE_CONTEXTS)
    needed = needed_sizes(batches, _keyed_grid_s(parts, batches, few), TOLERANCE)
    batches = np.union1d(np.arange(1, min(most, EVERY_BATCH) + 1), needed)
    time_s_XK = _keyed_grid_s(parts, batches, contexts)
    every_B = np.arange(most + 1)
    time_s_BK = np.stack([np.interp(every_B, batches, time_s) for time_s in time_s_XK.T], axis=1)
    time_s_BK[0] = 0.0
    keys_BK = np.maximum(every_B, 1)[:, None] * np.diff(contexts)
    slope_s_BK = np.diff(time_s_BK, axis=1) / keys_BK
    # nothing is below one key, and the last border continues the cell before it, but never down
    none_B1 = np.zeros((most + 1, 1))
    last_B1 = np.maximum(slope_s_BK[:, -1:], 0.0) if contexts.size > 1 else none_B1
    slope_s_BK = np.hstack((none_B1, slope_s_BK, last_B1))
    time_s_BK = np.hstack((time_s_BK[:, :1], time_s_BK))
    return np.append(0, contexts), whole_ticks(time_s_BK), whole_ticks(slope_s_BK)


def _keyed_grid_s(parts: StepParts, batch_X: Sizes, keys_Y: Sizes) -> FloatArray:
    """Return decode attention of batches at mean contexts (X, Y) [s]."""
    batch_XY, keys_XY = np.meshgrid(batch_X, keys_Y, indexing="ij")
    time_s = parts.decode_keyed_s(
        batch_XY.ravel().astype(np.float64), keys_XY.ravel().astype(np.float64)
    )
    return time_s.reshape(batch_XY.shape)
