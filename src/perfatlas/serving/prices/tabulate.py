"""Tabulation of the step prices of one candidate.

Shape legend: as in `serving.prices`; X priced sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.networks import StepTokens
from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.prices.chunk_prices import chunk_prices
from perfatlas.serving.prices.grids import Sizes, needed_sizes, sizes_up_to, spaced_sizes
from perfatlas.serving.prices.parts import TABULATED, LinearPart, StepParts, step_parts
from perfatlas.serving.prices.tables import (
    TERMS,
    EnergyPrices,
    StepPrices,
    Ticks,
    quantity_ticks,
)
from perfatlas.serving.requests import whole_ticks
from perfatlas.step import SharedSteps, assumes_losses, decode_step, padded_batch, prefill_step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.step import StepContext, StepCost

ROOFLINE: Final = "bound_s_CO"
ENERGIES: Final = ("chip_energy_j_CO", "memory_energy_j_CO")
NANOJOULE_PER_PICOSECOND: Final = 1e-3  # of one watt
TOLERANCE: Final = 0.01  # relative error of interpolated decode attention
# Priced sizes per octave of tokens, including both sides of each tile multiple. Against direct
# pricing of all 8,192 sizes of the test models, 99% of the errors are below 0.7% (1.0% with 64,
# 1.1% with 32), and the maximum is 2.7%, at jumps of MoE layers and caches that are not tile
# multiples. Without both sides of the multiples these are 3.6% and 14%.
TOKEN_PARTS: Final = 128
BATCH_PARTS: Final = 256  # batches per octave for attention
CONTEXT_PARTS: Final = 32  # contexts per octave
CONTEXT_STEP: Final = 64  # keys per block of the kernels
SHORT_STEP: Final = 8  # step of contexts below one block
PROBE_GROWTH: Final = 1.25  # ratio of the batches used to place the breakpoints of context
PROBE_CONTEXTS: Final = 12  # contexts used to select the priced batches
NO_HOST: Final[dict[str, Any]] = {
    **dict.fromkeys(("host_step", "host_sequence", "host_prefill"), 0),
    "host_overlapped": False,
}
MAX_STEP: Final = 1 << 40  # tokens: more than any step has
EVERY_BATCH: Final = 256  # all batches up to this size are priced, as waves and splits vary


@dataclass(frozen=True, kw_only=True)
class TableLimits:
    """Range of a price table; each limit is at least 1."""

    max_num_seqs: int  # Maximum sequences per step of one scheduler
    max_num_batched_tokens: int  # Maximum tokens per step
    longest_context: int  # Maximum keys of a sequence, including its new token


@dataclass(frozen=True, kw_only=True)
class PriceTable:
    """Step prices of one candidate, and two whole steps as evidence."""

    prices: StepPrices  # The tables of time, with the host time of the engine
    energy: EnergyPrices | None  # The tables of dynamic energy; None for a device without energies
    # The tables of each tabulated column of the priced record, time first, in its ticks
    tables: Mapping[str, StepPrices]
    # Decode step of the maximum batch at half the maximum context, for its calibrations, tiers,
    # notes and share priced at the bound
    decodes: SharedSteps
    prefills: SharedSteps  # Prefill step of the maximum chunk without prefix, for the same
    # Prices at the roofline where the losses of the device are assumed, else None
    roofline: StepPrices | None


def price_table(
    context: StepContext,
    limits: TableLimits,
    quantities: Sequence[str] | None = None,
    *,
    reuse: PriceTable | None = None,
) -> PriceTable:
    """Return the step prices of one candidate.

    With pipeline stages they are those of all stages, one after the other, with their transfers.

    The fixed cost of prompt attention occurs once per step, for any number of chunks: the cost of
    the shortest chunk is part of `mixed_linear_T`, and the chunk tables contain the cost beyond
    it. Decode operators outside the linear part are tabulated with decode attention: scans and
    convolutions at the padded batch, and the absorbed products of latent attention. Logits that a
    captured graph computes beyond the sampled sequences are part of `decode_linear_B`.

    Args:
        limits: Range of the table. Cost and size grow with max_num_seqs: use the number of
            sequences that fit the KV cache if that is lower than the engine's limit.
        quantities: Columns of the priced record to tabulate, time first; by default time, and the
            energies if the device has them.
        reuse: A table of the same candidate and quantities whose limits differ only in
            max_num_seqs: its prices of steps with prompts are reused.

    Raises:
        InvalidSpecError: There are several candidates.

    Limits: Decoding sequences are priced at their mean context. Operators that hide behind experts
        do so as where all attention-DP ranks have equal tokens. The host's launches of a vision
        encoder are left out.
    """
    candidates = context.plan.pp.size
    if candidates != 1:
        raise InvalidSpecError(
            f"{candidates} candidates: a price table needs exactly one; tabulate one plan at a time"
        )
    if quantities is None:
        has_power = bool(np.isfinite(context.placement.power().on_w[0]))
        quantities = TABULATED if has_power else TABULATED[:1]
    decodes, prefills = map(SharedSteps.one, _largest_steps(context, limits))
    assumed = assumes_losses((decodes, prefills))[0]
    if assumed:
        quantities = (*quantities, ROOFLINE)
    parts = step_parts(context, quantities, keys=max(limits.longest_context / 2.0, 1.0))
    tables = _tabulate(parts, limits, None if reuse is None else reuse.tables)
    host, padded = context.profile.host, context.profile.scheduler.padded_tokens
    launch_s = context.launch_s(context.network.num_layers, parts.prefill_launches)
    of_engine: dict[str, Any] = {
        "host_step": int(whole_ticks(host.step_s)),
        "host_sequence": int(whole_ticks(float(np.mean(context.sequence_host_s())))),
        "host_prefill": int(whole_ticks(float(launch_s[0]))),
        "host_overlapped": host.overlapped,
        "padded_decode": int(min(padded.decode, MAX_STEP)),
        "padded_mixed": int(min(padded.mixed, MAX_STEP)),
    }
    prices = tables[parts.quantities[0]]._replace(**of_engine)
    energy = _energy_prices(tables, context) if set(ENERGIES) <= set(quantities) else None
    return PriceTable(
        prices=prices,
        energy=energy,
        tables=tables,
        decodes=decodes,
        prefills=prefills,
        roofline=tables[ROOFLINE]._replace(**of_engine) if assumed else None,
    )


def _energy_prices(tables: Mapping[str, StepPrices], context: StepContext) -> EnergyPrices:
    """Return the dynamic energy of steps and the power of their GPUs."""
    chip, memory = (tables[name] for name in ENERGIES)
    power, plan = context.placement.power(), context.plan
    return EnergyPrices(
        chip._replace(**{name: getattr(chip, name) + getattr(memory, name) for name in TERMS}),
        dynamic_power=float(power.cap_w[0] - power.on_w[0]) * NANOJOULE_PER_PICOSECOND,
        on_power=float(power.on_w[0]) * NANOJOULE_PER_PICOSECOND,
        rank_gpus=int(plan.gpus_per_replica[0] // (plan.attention_dp[0] * plan.pp[0])),
    )


def _tabulate(
    parts: StepParts, limits: TableLimits, reuse: Mapping[str, StepPrices] | None
) -> dict[str, StepPrices]:
    """Return the tables of all quantities of the steps; `reuse` provides those of prompts."""
    if parts.context.network.item:
        return _passes(parts, limits)
    most, queries = limits.max_num_seqs, 1 + parts.context.drafts
    head_NT = _head(parts, most * queries)
    linear, separate_NB = _decode(parts, most, head_NT)
    context_K, base_NBK, slope_NBK = _decode_keyed(parts, most, limits.longest_context)
    terms_N = {
        "decode_linear_B": quantity_ticks(linear.whole_NR, parts.quantities),
        "decode_experts_B": quantity_ticks(linear.experts_NR, parts.quantities),
        "head_B": quantity_ticks(head_NT[:, : most * queries + 1], parts.quantities),
        "decode_base_BK": base_NBK + quantity_ticks(separate_NB, parts.quantities)[:, :, None],
        "decode_slope_BK": slope_NBK,
    }
    shared: dict[str, Any] = {"context_K": context_K}
    if reuse is None:
        chunks = chunk_prices(parts, limits.max_num_batched_tokens, limits.longest_context)
        mixed = _mixed(parts, limits.max_num_batched_tokens)
        mixed_NT, experts_NT = (quantity_ticks(part_NT, parts.quantities) for part_NT in mixed)
        terms_N |= {
            "mixed_linear_T": mixed_NT + chunks.start_N[:, None],
            "mixed_experts_T": experts_NT,
            "prefill_added_QP": chunks.added_NQP,
            "prefill_last_QP": chunks.last_NQP,
        }
        shared |= {"queries_Q": chunks.queries_Q, "before_P": chunks.before_P}
        shared |= {"tokens_per_decode": queries}
    return _by_quantity(parts.quantities, terms_N, shared, reuse)


def _passes(parts: StepParts, limits: TableLimits) -> dict[str, StepPrices]:
    """Return the tables of a graph: a request is an item of one pass, and nothing is decoded."""
    number = len(parts.quantities)
    none_NB = np.zeros((number, limits.max_num_seqs + 1), np.int64)
    none_NQP = np.zeros((number, 2, 2), np.int64)
    passes = _mixed(parts, limits.max_num_batched_tokens)
    mixed_NT, none_NT = (quantity_ticks(part_NT, parts.quantities) for part_NT in passes)
    return _by_quantity(
        parts.quantities,
        {
            **dict.fromkeys(("decode_linear_B", "decode_experts_B", "head_B"), none_NB),
            "mixed_linear_T": mixed_NT,
            "mixed_experts_T": none_NT,
            **dict.fromkeys(("decode_base_BK", "decode_slope_BK"), none_NB[:, :, None]),
            **dict.fromkeys(("prefill_added_QP", "prefill_last_QP"), none_NQP),
        },
        {
            "context_K": np.zeros(1, np.int64),
            "queries_Q": np.array([0, limits.max_num_batched_tokens]),
            "before_P": np.array([0, limits.longest_context]),
        },
    )


def _by_quantity(
    quantities: Sequence[str],
    terms_N: Mapping[str, Ticks],
    shared: Mapping[str, Any],
    reuse: Mapping[str, StepPrices] | None = None,
) -> dict[str, StepPrices]:
    """Return the tables of each quantity, without host time, from terms of all (N, ...)."""
    tables = {}
    for n, quantity in enumerate(quantities):
        values = {name: values_N[n] for name, values_N in terms_N.items()} | dict(shared)
        tables[quantity] = (
            StepPrices(**NO_HOST, **values) if reuse is None else reuse[quantity]._replace(**values)
        )
    return tables


def _largest_steps(context: StepContext, limits: TableLimits) -> tuple[StepCost, StepCost]:
    column = np.ones(1)
    if context.network.item:
        items = limits.max_num_batched_tokens * column
        largest = prefill_step(context, StepTokens(batch=items, q_len=column, kv_len=column))
        return largest, largest
    longest, most = float(limits.longest_context), float(limits.max_num_batched_tokens)
    tokens = min(most, longest) * column
    decode = decode_step(context, limits.max_num_seqs * column, np.maximum(longest / 2.0, column))
    return decode, prefill_step(context, StepTokens(batch=column, q_len=tokens, kv_len=tokens))


def _head(parts: StepParts, most: int) -> FloatArray:
    """Return logits and sampling by sampled sequences, up to the maximum padded batch (N, T)."""
    graphs = parts.context.profile.scheduler.graph_sizes
    padded = int(padded_batch(np.array([float(most)]), graphs)[0])
    sizes_X = _token_sizes(padded)
    head_NT = _between(np.arange(padded + 1), sizes_X, parts.head(sizes_X.astype(np.float64)))
    head_NT[:, 0] = 0.0
    return head_NT


def _decode(parts: StepParts, most: int, head_NT: FloatArray) -> tuple[LinearPart, FloatArray]:
    """Return the linear part and the other key-independent part of decode steps, each (N, B)."""
    graphs, queries = parts.context.profile.scheduler.graph_sizes, 1 + parts.context.drafts
    tried_X = _token_sizes(most)
    # both sides of every padding boundary, for all tokens and for those of later drafts
    for tokens in {1, queries}:
        full = np.array([size // tokens for size in graphs], np.int64)
        tried_X = np.union1d(tried_X, np.append(full, full + 1))
    tried_X = tried_X[(tried_X > 0) & (tried_X <= most)]
    linear, separate_NX = parts.decode(tried_X.astype(np.float64))
    every_B = np.arange(most + 1)
    padded_B = padded_batch(queries * np.arange(most + 1.0), graphs)
    padded_B[0] = 0.0
    padding_NB = head_NT[:, padded_B.astype(np.int64)] - head_NT[:, queries * every_B]
    whole_NB, experts_NB, separate_NB = (
        _between(every_B, tried_X, values_NX) for values_NX in (*linear, separate_NX)
    )
    whole_NB = whole_NB + padding_NB
    for values_NB in (whole_NB, experts_NB, separate_NB):
        values_NB[:, 0] = 0.0
    return LinearPart(whole_NB, experts_NB), separate_NB


def _mixed(parts: StepParts, most: int) -> LinearPart:
    """Return the linear part of steps with prompts, by tokens (N, T)."""
    sizes_X = _token_sizes(most)
    # fewer tokens than context-parallel ranks leave whole tokens on some, and none on others
    ranks = 1.0 if parts.context.network.item else float(np.max(parts.context.plan.cp))
    mixed = parts.mixed(np.maximum(sizes_X.astype(np.float64), ranks))
    none_N1 = np.zeros((mixed.whole_NR.shape[0], 1))
    every_T, from_0_X = np.arange(most + 1), np.append(0, sizes_X)
    return LinearPart(
        *(_between(every_T, from_0_X, np.hstack((none_N1, values_NX))) for values_NX in mixed)
    )


def _between(wanted_Y: Sizes, sizes_X: Sizes, values_NX: FloatArray) -> FloatArray:
    """Return all quantities at some sizes, interpolated between the priced ones (N, Y)."""
    return np.stack([np.interp(wanted_Y, sizes_X, values_X) for values_X in values_NX])


def _token_sizes(most: int) -> Sizes:
    """Return the priced numbers of tokens in ascending order (X,).

    Messages are tokens times a width, and an engine's all-reduce may switch kernels at a power of
    two, so the size before each is included.
    """
    powers = 2 ** np.arange(1, most.bit_length())
    return np.union1d(sizes_up_to(most, least_step=1, parts=TOKEN_PARTS), powers - 1)


def _decode_keyed(parts: StepParts, most: int, longest: int) -> tuple[Sizes, Ticks, Ticks]:
    """Return context breakpoints (K,), attention at them and its slope per key, each (N, B, K).

    Breakpoints and priced batches are placed adaptively.
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
        # there is no cell below one key; the last one continues the slope before it, if not
        # negative
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
