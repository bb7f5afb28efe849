"""The step prices of one candidate, tabulated.

Shape legend: as in `serving.prices`; R rows that are priced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.models import StepTokens
from perfatlas.quantities import UnsupportedError
from perfatlas.serving.price_grids import Sizes, needed_sizes, sizes_up_to
from perfatlas.serving.price_parts import StepParts, step_parts
from perfatlas.serving.prices import StepPrices, Ticks
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.step import decode_step, padded_batch, prefill_step

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.step import StepContext, StepCost

TOLERANCE: Final = 0.01  # of decode attention, where a line between borders may miss it
TOKEN_PARTS: Final = 64  # sizes of an octave of tokens, steps of tiles included
BATCH_PARTS: Final = 256
CONTEXT_STEP: Final = 64  # keys of a block of the kernels
CONTEXT_PARTS: Final = 32
CHUNK_STEP: Final = 16  # queries of the smallest tile
CHUNK_PARTS: Final = 8
PROBE_GROWTH: Final = 1.25  # of the batches whose attention places the borders of context
PROBE_CONTEXTS: Final = 12  # at which attention places the batches that are priced


@dataclass(frozen=True, kw_only=True)
class TableLimits:
    """How far a table reaches.

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
    """Step prices, and two whole steps that tell what they rest on.

    Args:
        prices: The tables.
        decode: Cost of the largest batch at half the longest context: calibrations, tiers, notes,
            share priced at the bound.
        prefill: The same of the longest chunk, without keys before it.
    """

    prices: StepPrices
    decode: StepCost
    prefill: StepCost


def price_table(context: StepContext, limits: TableLimits) -> PriceTable:
    """Return the step prices of one candidate.

    A prompt's attention starts once per step, however many chunks it holds: what the smallest
    chunk takes is part of `mixed_linear_T`, and `prefill_QP` is what a chunk takes beyond it. What
    decoding sequences run apart from prompts goes with their attention: scans and convolutions
    at the padded batch, the absorbed products of latent attention.

    Args:
        context: Model, engine, system and plan; one candidate.
        limits: How far the table reaches. Cost and size grow with max_num_seqs: give what the
            cache holds rather than what the engine would admit.

    Raises:
        UnsupportedError: Pipeline stages.

    Limits: the ranks of attention_dp hold equal tokens. Chunks of one step take the sum of their
    attention, each alone on the device. Sequences that decode together are priced at their mean
    context.
    """
    stages = int(context.plan.pp[0])
    if stages > 1:
        raise UnsupportedError(
            f"pp = {stages}: the stages of a pipeline run different steps at the same time, and a"
            " simulated engine runs one; use pp = 1, or method formula"
        )
    parts = step_parts(context)
    linear_B, apart_B = _decode(parts, limits.max_num_seqs)
    context_K, base_BK, slope_BK = _decode_keyed(parts, limits)
    queries_Q, before_P, chunk_QP = _chunks(parts, limits)
    host = context.profile.host
    prices = StepPrices(
        decode_linear_B=linear_B,
        mixed_linear_T=_mixed(parts, limits) + _ticks(chunk_QP[1, 0]),
        head_B=_head(parts, limits.max_num_seqs),
        context_K=context_K,
        decode_base_BK=base_BK + apart_B[:, None],
        decode_slope_BK=slope_BK,
        queries_Q=queries_Q,
        before_P=before_P,
        prefill_QP=_ticks(np.maximum(chunk_QP - chunk_QP[1, 0], 0.0)),
        host_step=int(_ticks(host.step_s)),
        host_sequence=int(_ticks(host.per_sequence_s)),
        host_prefill=int(_ticks(context.architecture.num_layers * host.per_layer_prefill_s)),
        host_overlapped=host.overlapped,
    )
    return _with_evidence(prices, context, limits)


def _with_evidence(prices: StepPrices, context: StepContext, limits: TableLimits) -> PriceTable:
    half = max(limits.longest_context // 2, 1)
    chunk = np.full(1, float(min(limits.max_num_batched_tokens, limits.longest_context)))
    return PriceTable(
        prices=prices,
        decode=decode_step(context, np.full(1, float(limits.max_num_seqs)), np.full(1, float(half))),
        prefill=prefill_step(context, StepTokens(batch=np.ones(1), q_len=chunk, kv_len=chunk)),
    )


def _ticks(time_s: FloatArray | float) -> Ticks:
    """Return seconds as whole picoseconds."""
    return np.rint(np.asarray(time_s) * TICKS_PER_SECOND).astype(np.int64)


def _from_nothing(most: int, sizes_X: Sizes, time_s_X: FloatArray) -> Ticks:
    """Return the times of every size from 0, which takes none, to `most` (most + 1,) [ps]."""
    time_s = np.interp(np.arange(most + 1), sizes_X, time_s_X)
    time_s[0] = 0.0
    return _ticks(time_s)


def _decode(parts: StepParts, most: int) -> tuple[Ticks, Ticks]:
    """Return linear part and what hangs on no keys of a decode step, by batch, each (B,) [ps]."""
    graphs = parts.context.profile.scheduler.graph_sizes
    tried_X = sizes_up_to(most, least_step=1, parts=TOKEN_PARTS)
    sizes_R = np.unique(padded_batch(np.union1d(tried_X, [g for g in graphs if g < most]), graphs))
    padded_B = padded_batch(np.arange(1.0, most + 1.0), graphs)
    linear_B, apart_B = (
        np.append(0.0, np.interp(padded_B, sizes_R, time_s_R))
        for time_s_R in parts.decode_s(sizes_R.astype(np.float64))
    )
    return _ticks(linear_B), _ticks(apart_B)


def _mixed(parts: StepParts, limits: TableLimits) -> Ticks:
    """Return the linear part of steps with prompts, by tokens (T,) [ps]."""
    most = limits.max_num_batched_tokens
    sizes_X = sizes_up_to(most, least_step=1, parts=TOKEN_PARTS)
    return _from_nothing(most, sizes_X, parts.mixed_s(sizes_X.astype(np.float64)))


def _head(parts: StepParts, most: int) -> Ticks:
    """Return logits and sampling, by sequences sampled (B,) [ps]."""
    sizes_X = sizes_up_to(most, least_step=1, parts=TOKEN_PARTS)
    return _from_nothing(most, sizes_X, parts.head_s(sizes_X.astype(np.float64)))


def _grid_s(parts: StepParts, batch_X: Sizes, keys_Y: Sizes) -> FloatArray:
    """Return decode attention of batches at contexts (X, Y) [s]."""
    batch_XY, keys_XY = np.meshgrid(batch_X, keys_Y, indexing="ij")
    time_s = parts.decode_keyed_s(
        batch_XY.ravel().astype(np.float64), keys_XY.ravel().astype(np.float64)
    )
    return time_s.reshape(batch_XY.shape)


def _decode_keyed(parts: StepParts, limits: TableLimits) -> tuple[Sizes, Ticks, Ticks]:
    """Return borders of context (K,), attention at them and its growth per key, each (B, K).

    Borders and batches lie where the kernels need them.
    """
    most, longest = limits.max_num_seqs, limits.longest_context
    contexts = sizes_up_to(
        longest, least_step=CONTEXT_STEP, parts=CONTEXT_PARTS, around=(-1, 0, 1)
    )
    contexts = np.union1d(contexts, np.arange(1, min(longest, CONTEXT_STEP), 8))
    batches = sizes_up_to(most, least_step=1, parts=BATCH_PARTS)
    octaves = int(np.log(most) / np.log(PROBE_GROWTH)) + 1
    probes = np.unique(np.rint(PROBE_GROWTH ** np.arange(octaves)).astype(np.int64))
    contexts = needed_sizes(contexts, _grid_s(parts, probes, contexts).T, TOLERANCE)
    some = np.unique(np.rint(np.geomspace(1, longest, PROBE_CONTEXTS)).astype(np.int64))
    batches = needed_sizes(batches, _grid_s(parts, batches, some), TOLERANCE)
    time_s_XK = _grid_s(parts, batches, contexts)
    every_B = np.arange(most + 1)
    time_s_BK = np.stack([np.interp(every_B, batches, time_s) for time_s in time_s_XK.T], axis=1)
    time_s_BK[0] = 0.0
    # a sequence has a key: the border at none continues the first cell
    keys_B1 = np.maximum(every_B, 1)[:, None]
    width_K = np.maximum(np.diff(contexts), 1)
    slope_s_BK = np.diff(time_s_BK, axis=1) / (keys_B1 * width_K)
    last_BK = slope_s_BK[:, -1:] if contexts.size > 1 else np.zeros((most + 1, 1))
    slope_s_BK = np.concatenate((slope_s_BK, last_BK), axis=1)
    time_s_BK[:, 0] -= slope_s_BK[:, 0] * every_B
    return np.append(0, contexts[1:]), _ticks(time_s_BK), _ticks(slope_s_BK)


def _chunks(parts: StepParts, limits: TableLimits) -> tuple[Sizes, Sizes, FloatArray]:
    """Return borders of queries (Q,) and of keys before (P,), and what a chunk takes (Q, P) [s]."""
    queries = sizes_up_to(
        limits.max_num_batched_tokens, least_step=CHUNK_STEP, parts=CHUNK_PARTS
    )
    before = np.append(
        0, sizes_up_to(limits.longest_context, least_step=CONTEXT_STEP, parts=CHUNK_PARTS, around=(0,))
    )
    queries_QP, before_QP = np.meshgrid(queries, before, indexing="ij")
    time_s = parts.chunk_s(
        queries_QP.ravel().astype(np.float64), before_QP.ravel().astype(np.float64)
    ).reshape(queries_QP.shape)
    # without queries as with one: nothing beyond the start
    return np.append(0, queries), before, np.concatenate((time_s[:1], time_s))
