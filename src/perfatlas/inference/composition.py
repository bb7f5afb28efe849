"""Latencies of candidates from the times of their prefill chunks and decode steps.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.inference.front_end import client_ends, client_side
from perfatlas.inference.intervals import fastest_s, slowest_s, step_tails
from perfatlas.inference.latencies import (
    Joining,
    Latencies,
    aggregated_latencies,
    at_client,
    pipelined_s,
    static_latencies,
)
from perfatlas.inference.opening_burst import with_opening

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.inference.distinct_steps import StepTimes
    from perfatlas.inference.intervals import StepTails
    from perfatlas.inference.latencies import ClientSide
    from perfatlas.inference.mixed_steps import LoadSteps
    from perfatlas.inference.opening_burst import Burst, BurstTimes
    from perfatlas.inference.running_load import RunningLoad
    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates


# Fraction of a step below which operators without calibrations do not void the interval.
MIN_BOUND_SHARE: Final = 0.005


def prompts_in_stages(
    load: RunningLoad, added_s: FloatArray, first_s: FloatArray, *, filled: bool = False
) -> FloatArray:
    """Return the time that prompts that start together delay all micro-batches (C,) [s].

    Every micro-batch returns to the first stage after all others have entered it. A step that is
    longer by c thus delays all of them by c at each of the p stages, p c in total, as the decodes
    behind it leave the other stages idle. The k chunks of a prompt follow each other through the
    pipeline: (k + p - 1) c. Only chunks in another micro-batch that pass in the same cycle of m
    micro-batches add nothing to that. With q starts of prompts per step, each costs

        at even intervals: (k + p - 1) c / max(1, q (k + m - 1))
        at random ones:    (k + p - 1) c / (1 + q (m - 1))

    and k c, as in a full pipeline, once every step has a chunk (q k = 1). Requests of equal lengths
    start at even intervals, or together where their clients started together: their prompts then
    follow one another and fill the pipeline. One stage has no bubbles: k c.

    Args:
        added_s: What all chunks of the prompts add to their steps, through all stages (C,) [s].
        first_s: What the first chunk adds (C,) [s].
        filled: Whether prompts of all micro-batches follow one another.

    Limits: Chunks follow each other although TensorRT-LLM waits for the one before. Decodes of all
        micro-batches take the same time.

    Source: derived: the step n of a stage starts after step n - 1 of the same stage, after step n
        of the stage before and, in the first stage, after step n - m of the last one; the time is
        the longest path through these. Even intervals: all of it passes the longest steps; random
        ones: a path that takes each such step in all stages and misses the m - 1 steps behind it.
    """
    pass_s = pipelined_s(added_s, first_s, load.question.plan.pp, load.stage_share)
    number = load.chunks.count + load.chunks.last_count
    starts = np.minimum(load.mixed_steps / load.micro_batches, 1.0) / number
    behind = np.minimum(load.micro_batches, 1.0 / load.stage_share) - 1.0
    even = np.maximum(1.0, starts * (number + behind))
    at_once: FloatArray = np.where(load.evenly, even, 1.0 + starts * behind)
    together = filled | (load.evenly & ~np.isnan(load.question.load.rounds))
    beside_s = np.where(together, added_s * load.stage_share, pass_s / at_once)
    return np.where(behind > 0.0, beside_s, pass_s)


def predicted(
    load: RunningLoad,
    steps: LoadSteps,
    tails: StepTails | None = None,
    burst: Burst | None = None,
) -> tuple[Latencies, Latencies, Latencies]:
    """Return predicted latencies, and the lower and upper ends of their interval.

    No interval ends at the throughput of the predicted front end (`client_ends`).

    Args:
        burst: The prompts of clients that start together, None without such clients.
    """
    tails = step_tails(load.question) if tails is None else tails
    client = client_side(load.question)
    fast_client, slow_client = client_ends(load.question)

    def composed(
        time_s: Callable[[StepTimes], FloatArray], side: ClientSide, *, filled: bool = False
    ) -> Latencies:
        times = _Times(*(time_s(step) for step in steps))
        opening = None if burst is None else burst.timed(time_s)
        return _compose(load, times, side, opening, filled=filled)

    latencies = composed(lambda step: step.total_s(), client)
    low = composed(lambda step: fastest_s(step, tails), fast_client, filled=True)
    high = composed(lambda step: slowest_s(step, tails), slow_client)
    least = composed(lambda step: step.least_s(), fast_client, filled=True)
    times = (np.maximum(a, b) for a, b in zip(low[:3], least[:3], strict=True))
    rate = np.minimum(low.output_tokens_per_s, least.output_tokens_per_s)
    ttft_s, tpot_s, latency_s = times
    # Clients that start together stay so, where the scheduler runs prompts first and their lengths
    # are equal: TTFT then has the wait that TPOT has otherwise.
    busy_C = np.maximum(load.micro_batches * load.stage_share, 1.0)
    step_s_C = fastest_s(steps.decode, tails)
    alone_s_C = step_s_C * busy_C / load.question.tokens_per_step_to_end
    unknown_C = np.isnan(load.question.load.rounds)  # clients of a benchmark have a known phase
    together_C = load.question.aggregated_C & ~load.mixed() & unknown_C
    tpot_s = np.minimum(tpot_s, np.where(together_C, alone_s_C, tpot_s))
    low = Latencies(ttft_s, tpot_s, latency_s, rate)
    low, high = _containing(latencies, low, high)
    return latencies, low, _where_known(high, load, steps)


def _containing(value: Latencies, low: Latencies, high: Latencies) -> tuple[Latencies, Latencies]:
    """Return the ends of the interval, extended to the value.

    What prompts add to a decode step is a difference of two steps and at least 0, so that slower
    steps may add less.
    """
    shorter, longer = (
        Latencies(
            ttft_s=least(end.ttft_s, value.ttft_s),
            tpot_s=least(end.tpot_s, value.tpot_s),
            request_latency_s=least(end.request_latency_s, value.request_latency_s),
            output_tokens_per_s=most(end.output_tokens_per_s, value.output_tokens_per_s),
        )
        for end, least, most in ((low, np.minimum, np.maximum), (high, np.maximum, np.minimum))
    )
    return shorter, longer


class _Times(NamedTuple):
    """Time of a full chunk, the last chunk and a decode step, each through all layers (C,).

    Chunks include the decodes of the running sequences where both share steps.
    """

    chunk_s: FloatArray
    last_s: FloatArray
    step_s: FloatArray


def _compose(
    load: RunningLoad,
    times: _Times,
    client: ClientSide,
    burst: BurstTimes | None,
    *,
    filled: bool,
) -> Latencies:
    """Compose chunks and decode steps into latencies."""
    question, chunks = load.question, load.chunks
    stages, step_s = question.plan.pp, times.step_s
    busy = load.micro_batches * load.stage_share
    waited_s = step_s * np.maximum(busy, 1.0)
    decode_s = waited_s / question.tokens_per_step_to_end
    prefill_s = chunks.count * times.chunk_s + chunks.last_count * times.last_s
    batch_s = pipelined_s(prefill_s, times.chunk_s, stages, load.stage_share)
    static = static_latencies(batch_s, decode_s, question.load.sequences, question.load.osl)
    if not np.any(question.aggregated_C):
        return static
    cost_s, mean_s = _added(load, times, prefill_s, filled=filled)
    joining = Joining(
        step_s=np.where(load.staggered, mean_s, waited_s),
        others=load.served - 1.0,
        ahead=steps_ahead(question) + load.held_steps,
        away_s=client.turnaround_s,
        reads=question.limits.scheduler_recv_interval,
    )
    at_engine = aggregated_latencies(
        batch_s, cost_s, decode_s, load.together, question.load.osl, joining
    )
    on_rank = at_engine.output_tokens_per_s * (load.on_rank / load.together)
    at_engine = at_engine._replace(output_tokens_per_s=on_rank)
    if burst is not None:
        at_engine = with_opening(at_engine, burst, (batch_s, decode_s), joining)
    per_rank = at_client(at_engine, client, load.on_rank, question.load.osl)
    ranks = load.served / load.on_rank
    served = per_rank._replace(output_tokens_per_s=per_rank.output_tokens_per_s * ranks)
    chosen = (np.where(question.aggregated_C, a, s) for a, s in zip(served, static, strict=True))
    return Latencies(*chosen)


def _added(
    load: RunningLoad, times: _Times, prefill_s: FloatArray, *, filled: bool
) -> tuple[FloatArray, FloatArray]:
    """Return what a prompt adds to the steps of other requests, and the mean step, each (C,) [s].

    Attention-DP ranks step together: a prompt of any rank delays the sequences of all. An arrival
    follows the end of a request, and thereby of a step, so that the next ones are mean steps.
    """
    chunks, step_s = load.chunks, times.step_s
    number = chunks.count + chunks.last_count
    share = load.concurrent_decode_share()
    beside_s = np.where(share > 0.0, share * step_s, 0.0)
    added_s = np.maximum(prefill_s - number * beside_s, 0.0)
    first_s = np.minimum(np.maximum(times.chunk_s - beside_s, 0.0), added_s)
    ranks = np.where(load.staggered, load.busy_ranks, 1.0)
    cost_s = prompts_in_stages(load, added_s, first_s, filled=filled) / (load.prompts * ranks)
    chunk_s = np.maximum(prefill_s / number, step_s)
    # a rank that computes prompts alone decodes in fewer of the steps
    often = np.minimum(load.mixed_steps / (1.0 + load.mixed_steps * (1.0 - share)), 1.0)
    mean_s: FloatArray = often * chunk_s + (1.0 - often) * step_s
    return cost_s, mean_s


def batches_in_flight(load: RunningLoad, steps: LoadSteps) -> FloatArray:
    """Return how many batches of prompts a pipeline runs at the same time (C,), at least 1.

    The first stage accepts a batch as soon as it has run all chunks of the one before: after
    total * share of pipelined_s(total, first, stages, share). Their KV caches must fit together.
    """
    chunks, first_s = load.chunks, steps.chunk.total_s()
    total_s = chunks.count * first_s + chunks.last_count * steps.last.total_s()
    stages, share = load.question.plan.pp, load.stage_share
    busy_s = np.where(stages > 1, total_s * share, total_s)
    most = pipelined_s(total_s, first_s, stages, share) / busy_s
    fitting = np.floor(load.memory.max_sequences / load.on_rank)
    return np.clip(fitting, 1.0, np.maximum(most, 1.0))


def steps_ahead(question: Candidates) -> FloatArray:
    """Return the number of steps scheduled ahead of the running one (C,).

    Limits: Assumed to be 0 with pipeline parallelism.
    """
    ahead_C: FloatArray = np.where(
        question.plan.pp == 1, float(question.profile.host.overlapped), 0
    )
    return ahead_C


def _where_known(high: Latencies, load: RunningLoad, steps: LoadSteps) -> Latencies:
    """Return the upper ends of the interval, NaN where unknown.

    Times priced at the bound, and TTFT without queueing, are lower limits and have no upper end;
    nor has the latency of requests of which some queue.
    """
    prefill, last, decode = (step.bound_share() >= MIN_BOUND_SHARE for step in steps)
    slow = prefill | ((load.chunks.last_count > 0) & last)
    queued = load.question.aggregated_C & (load.served < load.question.load.sequences)
    return Latencies(
        ttft_s=np.where(slow | load.question.aggregated_C, np.nan, high.ttft_s),
        tpot_s=np.where(decode, np.nan, high.tpot_s),
        request_latency_s=np.where(slow | decode | queued, np.nan, high.request_latency_s),
        output_tokens_per_s=np.where(slow | decode, np.nan, high.output_tokens_per_s),
    )
