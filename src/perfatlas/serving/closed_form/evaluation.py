"""Closed-form evaluation of all candidates at once.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.parallelism import MemoryColumns, stage_share
from perfatlas.serving.closed_form.energy import TokenEnergy, Waves, token_energy
from perfatlas.serving.closed_form.front_end import client_side
from perfatlas.serving.closed_form.intervals import (
    StepTails,
    fastest_s,
    slowest_s,
    step_tails,
)
from perfatlas.serving.closed_form.latencies import (
    ClientSide,
    Joining,
    Latencies,
    aggregated_latencies,
    at_client,
    pipelined_s,
    static_latencies,
)
from perfatlas.serving.closed_form.prompts import beside_prompt
from perfatlas.serving.closed_form.utilization import Utilization, utilization_of
from perfatlas.step import (
    ALONE,
    PrefillChunks,
    StepCost,
    candidate_memory,
    decode_work,
    padded_batch,
    prefill_chunks,
    prefill_work,
    step_costs,
    take_columns,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates


# Fraction of a step below which operators without calibrations do not void the interval.
MIN_BOUND_SHARE: Final = 0.005


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Closed-form results of candidates.

    Args:
        latencies: Predicted latencies.
        low: 5% quantiles of all times.
        high: 95% quantiles of all times, NaN where there is none.
        memory: Memory of the rank with the highest usage.
        prefill: Cost of one full prefill chunk.
        last: Cost of the smaller last chunk of a prefill.
        decode: Cost of one decode step.
        chunks: Prefill chunks of the batch (static) or of one request (aggregated).
        served: Concurrently running sequences per replica (C,).
        utilization: MFU and MBU of the full chunk and the decode step.
        energy: Energy of output tokens.
    """

    latencies: Latencies
    low: Latencies
    high: Latencies
    memory: MemoryColumns
    prefill: StepCost
    last: StepCost
    decode: StepCost
    chunks: PrefillChunks
    served: FloatArray
    utilization: Utilization
    energy: TokenEnergy

    def take(self, rows: list[int]) -> Evaluation:
        """Return the latencies and memory of the candidates at the given positions."""
        index = np.array(rows, np.int64)
        return replace(
            self,
            latencies=Latencies(*(v[index] for v in self.latencies)),
            low=Latencies(*(v[index] for v in self.low)),
            high=Latencies(*(v[index] for v in self.high)),
            memory=MemoryColumns(**take_columns(self.memory, index)),
            served=self.served[index],
            utilization=Utilization(*(v[index] for v in self.utilization)),
            energy=self.energy.take(index),
        )


def evaluate(question: Candidates, tails: StepTails | None = None) -> Evaluation:
    """Return latencies, memory and step costs of candidates with valid plans.

    Static mode: one batch of equal requests. Aggregated mode: continuous batching in closed form.

    Args:
        question: The candidates.
        tails: Errors of measured runs, by default those of the engine and between laboratories.
    """
    context = question.context()
    memory = candidate_memory(question)
    aggregated = question.aggregated_C
    served = np.where(aggregated, _served(question, memory), question.load.sequences)
    # pipeline stages process different micro-batches at the same time
    on_rank = np.ceil(served / question.plan.attention_dp)
    micro_batches = np.minimum(question.plan.pp, on_rank)
    batch = np.ceil(on_rank / micro_batches)
    load = question.load
    chunks, prompts = _chunks(question, on_rank, batch)
    # attention-DP ranks without a prompt send no tokens to the experts
    busy_ranks = np.minimum(served / on_rank, question.plan.attention_dp)
    steps = [
        decode_work(context, batch, load.isl + load.osl / 2.0),
        prefill_work(context, chunks.tokens, busy_ranks),
    ]
    if np.any(chunks.last_count):
        steps.append(prefill_work(context, chunks.last_tokens, busy_ranks))
    # priced together, so that shared shapes are priced once
    decode, prefill, *others = step_costs(steps, context)
    last = others[0] if others else prefill
    parts = _Parts(
        question=question,
        served=served,
        on_rank=on_rank,
        micro_batches=micro_batches,
        chunks=chunks,
        prompts=prompts,
        aggregated=aggregated,
        decode_alone=_alone(decode, prefill),
    )
    known = step_tails(question) if tails is None else tails
    latencies, low, high = _predicted(parts, (prefill, last, decode), known)
    return Evaluation(
        latencies=latencies,
        low=low,
        high=high,
        memory=memory,
        prefill=prefill,
        last=last,
        decode=decode,
        chunks=chunks,
        served=served,
        utilization=utilization_of(question, prefill, decode, _occupied(question, batch)),
        energy=token_energy(
            question, (prefill, last, decode), chunks, _waves(parts, busy_ranks, (prefill, decode))
        ),
    )


def _waves(parts: _Parts, busy_ranks: FloatArray, costs: tuple[StepCost, StepCost]) -> Waves:
    """Return the requests of a replica that share its steps, from a chunk and a decode step."""
    prefill, decode = costs
    mixed = parts.aggregated & (parts.on_rank > 1) & parts.question.profile.scheduler.mixes
    return Waves(
        decoding=parts.served / parts.micro_batches,
        prompts=parts.prompts * busy_ranks,
        mixed=mixed * (1.0 - _energy_alone(decode, prefill)),
    )


def _occupied(question: Candidates, batch_C: FloatArray) -> FloatArray:
    """Return the tokens of a decode step over those of the graph that runs it (C,)."""
    tokens_C = batch_C * (1.0 + question.drafts)
    share_C: FloatArray = tokens_C / padded_batch(tokens_C, question.profile.scheduler.graph_sizes)
    return share_C


def _predicted(
    parts: _Parts, costs: tuple[StepCost, ...], tails: StepTails
) -> tuple[Latencies, Latencies, Latencies]:
    """Return predicted latencies, and the lower and upper ends of their interval.

    The front end is assumed, so that no interval ends at its throughput.
    """
    client = client_side(parts.question)
    unlimited = client._replace(stream_s=np.zeros_like(client.stream_s))
    sent = np.where(parts.aggregated, parts.on_rank / parts.micro_batches, 0.0)
    latencies = _compose(parts, _Times(*(cost.total_s() for cost in costs)), client)
    low = _compose(parts, _Times(*(fastest_s(cost, tails) for cost in costs)), unlimited)
    high = _compose(parts, _Times(*(slowest_s(cost, tails, sent) for cost in costs)), client)
    least = _compose(parts, _Times(*(cost.least_s() for cost in costs)), unlimited)
    times = (np.maximum(a, b) for a, b in zip(low[:3], least[:3], strict=True))
    rate = np.minimum(low.output_tokens_per_s, least.output_tokens_per_s)
    ttft_s, tpot_s, latency_s = times
    low = Latencies(ttft_s, tpot_s, latency_s, rate)
    return latencies, low, _where_known(high, parts, costs)


def _chunks(
    question: Candidates, on_rank: FloatArray, batch: FloatArray
) -> tuple[PrefillChunks, FloatArray]:
    """Return the chunks of prompts that are prefilled together, and the number of prompts (C,).

    A static batch prefills all its prompts. With continuous batching, as many prompts start per
    step as sequences end, (B - 1)/steps, at least one if any. Engines with mixed steps decode all
    running sequences, padded like a decode step, and fill the rest of the budget with prompts.
    """
    load, mixes = question.load, question.profile.scheduler.mixes
    new, queries = load.isl - load.prefix, 1.0 + question.drafts
    padded = padded_batch(batch * queries, question.profile.scheduler.graph_sizes)
    others = question.aggregated_C & (on_rank > 1)
    decodes = np.where(others & mixes, padded - queries, 0.0)
    room = np.maximum(question.limits.max_num_batched_tokens - decodes, 1.0)
    if not question.profile.scheduler.chunked_prefill:
        room = np.maximum(room, new)  # padding does not count against the limit
    ending = (on_rank - 1.0) * question.tokens_per_step / load.osl
    arriving = np.clip(ending, 1.0, np.maximum(room / new, 1.0))
    prompts = np.where(question.aggregated_C, arriving, on_rank)
    chunks = prefill_chunks(prompts, new, load.prefix, room)
    mixed = replace(
        chunks,
        tokens=replace(chunks.tokens, decodes=decodes),
        last_tokens=replace(chunks.last_tokens, decodes=decodes),
    )
    return mixed, prompts


def _served(question: Candidates, memory: MemoryColumns) -> FloatArray:
    """Return the concurrently running requests per replica, limited by memory and engine.

    If prefills and decodes share steps, B running sequences cause B isl/osl prompt tokens per step,
    which must fit the token budget besides the decodes: B <= budget osl/(isl + osl). Others wait.
    An engine that does not split prompts starts one only where it fits whole beside the decodes.
    With speculative decoding a request takes fewer steps, of several tokens each.
    """
    load, limits = question.load, question.limits
    on_rank = np.minimum(memory.max_sequences, limits.max_num_seqs)
    if question.profile.scheduler.mixes:
        new, steps = load.isl - load.prefix, load.osl / question.tokens_per_step
        fed = limits.max_num_batched_tokens * steps / (new + steps * (1.0 + question.drafts))
        on_rank = np.minimum(on_rank, 1.0 + np.floor(fed))
        on_rank = np.minimum(on_rank, beside_prompt(question))
    admitted = on_rank * question.plan.attention_dp
    return np.maximum(np.minimum(load.sequences, admitted), 1.0)


@dataclass(frozen=True, kw_only=True)
class _Parts:
    question: Candidates
    served: FloatArray
    on_rank: FloatArray
    micro_batches: FloatArray
    chunks: PrefillChunks
    prompts: FloatArray
    aggregated: NDArray[np.bool_]
    decode_alone: FloatArray


class _Times(NamedTuple):
    """Time of a full chunk, the last chunk and a decode step, each through all layers (C,)."""

    chunk_s: FloatArray
    last_s: FloatArray
    step_s: FloatArray


def _compose(parts: _Parts, times: _Times, client: ClientSide) -> Latencies:
    """Compose chunks and decode steps into latencies."""
    question, chunks = parts.question, parts.chunks
    stages, step_s = question.plan.pp, times.step_s
    share = stage_share(question.model.architecture, question.plan)
    busy = parts.micro_batches * np.where(stages > 1, share, 1.0)
    waited_s = step_s * np.maximum(busy, 1.0)
    decode_s = waited_s / question.tokens_per_step_to_end
    prefill_s = chunks.count * times.chunk_s + chunks.last_count * times.last_s
    batch_s = pipelined_s(prefill_s, times.chunk_s, stages, share)
    static = static_latencies(batch_s, decode_s, question.load.sequences, question.load.osl)
    if not np.any(parts.aggregated):
        return static
    shared = (parts.on_rank > 1) & question.profile.scheduler.mixes
    alone_s = np.where(shared, parts.decode_alone * step_s, 0.0)
    number = chunks.count + chunks.last_count
    own_s = pipelined_s(prefill_s + number * alone_s, times.chunk_s + alone_s, stages, share)
    added_s = prefill_s + number * (alone_s - np.where(shared, step_s, 0.0))
    cost_s = np.maximum(added_s, 0.0) / parts.prompts * np.where(stages > 1, share, 1.0)
    # at most all steps are mixed
    steps = question.load.osl / question.tokens_per_step
    mixed_steps = number * (parts.on_rank - 1.0) / (parts.prompts * steps)
    cost_s = cost_s / np.where(shared, np.maximum(mixed_steps, 1.0), 1.0)
    joining = Joining(
        step_s=waited_s,
        others=parts.served - 1.0,
        ahead=steps_ahead(question),
        away_s=client.turnaround_s,
    )
    per_rank = at_client(
        aggregated_latencies(own_s, cost_s, decode_s, parts.on_rank, question.load.osl, joining),
        client,
        parts.on_rank,
        question.load.osl,
    )
    ranks = parts.served / parts.on_rank
    served = per_rank._replace(output_tokens_per_s=per_rank.output_tokens_per_s * ranks)
    chosen = (np.where(parts.aggregated, a, s) for a, s in zip(served, static, strict=True))
    return Latencies(*chosen)


def steps_ahead(question: Candidates) -> FloatArray:
    """Return the number of steps scheduled ahead of the running one (C,).

    Args:
        question: The candidates.

    Limits: Assumed to be 0 with pipeline parallelism.
    """
    ahead_C: FloatArray = np.where(
        question.plan.pp == 1, float(question.profile.host.overlapped), 0
    )
    return ahead_C


def _where_known(high: Latencies, parts: _Parts, costs: tuple[StepCost, ...]) -> Latencies:
    """Return the upper ends of the interval, NaN where unknown.

    Times priced at the bound, and TTFT without queueing, are lower limits and have no upper end.
    """
    prefill, last, decode = (cost.bound_share() >= MIN_BOUND_SHARE for cost in costs)
    slow = prefill | ((parts.chunks.last_count > 0) & last)
    return Latencies(
        ttft_s=np.where(slow | parts.aggregated, np.nan, high.ttft_s),
        tpot_s=np.where(decode, np.nan, high.tpot_s),
        request_latency_s=np.where(slow | decode, np.nan, high.request_latency_s),
        output_tokens_per_s=np.where(slow | decode, np.nan, high.output_tokens_per_s),
    )


def _alone(decode: StepCost, prefill: StepCost) -> FloatArray:
    """Return the fraction of a decode step that a mixed step runs in addition to the prefill (C,).

    Linear layers process the tokens of both together; attention, scans, decode-only operators and
    host work are separate.
    """
    columns = _columns_alone(decode, prefill)
    alone_C = (decode.count_CO * decode.prices.time_s_CO)[:, columns].sum(axis=1) + decode.host_s_C
    share_C: FloatArray = alone_C / decode.total_s()
    return share_C


def _energy_alone(decode: StepCost, prefill: StepCost) -> FloatArray:
    """Return the share of the energy of a decode step that a mixed step adds to its chunk (C,)."""
    energy_CO = decode.operator_energy_j()
    alone_C = energy_CO[:, _columns_alone(decode, prefill)].sum(axis=1)
    share_C: FloatArray = alone_C / np.maximum(energy_CO.sum(axis=1), np.finfo(np.float64).tiny)
    return share_C


def _columns_alone(decode: StepCost, prefill: StepCost) -> list[int]:
    """Return the operators of a decode step that a mixed step runs in addition to the prefill."""
    shared = {op.name for op in prefill.operators if not isinstance(op, ALONE)}
    return [i for i, op in enumerate(decode.operators) if op.name not in shared]
