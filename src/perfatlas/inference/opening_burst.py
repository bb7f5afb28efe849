"""Latencies of clients that start together: a burst of prompts, from which they drift apart.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.inference.client_rounds import Drift, together_share
from perfatlas.inference.latencies import Latencies, joining_s, pipelined_s
from perfatlas.inference.prompt_order import mean_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.inference.latencies import Joining
    from perfatlas.inference.running_load import RunningLoad
    from perfatlas.inference.step_totals import StepTimes
    from perfatlas.operators import FloatArray


class Burst(NamedTuple):
    """Prompts of clients that start together.

    Args:
        load: What runs at the same time, with the chunks of all prompts.
        chunk: A full chunk of them.
        last: The last chunk.
    """

    load: RunningLoad
    chunk: StepTimes
    last: StepTimes

    def timed(self, time_s: Callable[[StepTimes], FloatArray]) -> BurstTimes:
        """Return the time of all chunks.

        Args:
            time_s: Returns the time of a step (C,) [s].
        """
        load, chunks = self.load, self.load.chunks
        chunk_s = time_s(self.chunk)
        total_s = chunks.count * chunk_s + chunks.last_count * time_s(self.last)
        return BurstTimes(
            load, pipelined_s(total_s, chunk_s, load.question.plan.pp, load.stage_share)
        )


class BurstTimes(NamedTuple):
    """Time of the prompts of clients that start together.

    Args:
        load: What runs at the same time, with the chunks of all prompts.
        total_s: Time of these chunks (C,) [s].
    """

    load: RunningLoad
    total_s: FloatArray


def with_opening(
    spread: Latencies,
    burst: BurstTimes,
    alone: tuple[FloatArray, FloatArray],
    joining: Joining,
) -> Latencies:
    """Return mean latencies of clients that start together, where any do.

    In the opening burst, a client waits for the prompts before its own, so that TTFT is about half
    of the time of all prompts; for those after its own it waits between its first two tokens,
    unless steps are shared: then it decodes meanwhile. Later rounds are a mixture of this and of
    clients spread evenly over their outputs (`together_share`). The mean of the latency over all
    rounds is that of the steady state, as the requests of the last round, which no others follow,
    lack the prompts that those of the first round met twice: TPOT is what remains beside TTFT.

    Args:
        spread: Latencies of evenly spread clients at the engine.
        burst: The prompts of all clients.
        alone: Time to prefill a prompt that arrives alone, and of an output token without prompts,
            each (C,) [s].
        joining: State of the engine when a request arrives.

    Limits: Nothing waits for memory or the scheduler. Decode steps of the last round, with fewer
        and fewer requests, take the time of the others.

    Source: derived.
    """
    load, question = burst.load, burst.load.question
    steps = question.load.osl / question.tokens_per_step
    first_s, decode_s = alone
    first_s = np.where(load.prompts < load.on_rank, first_s, 0.0)
    chunks = load.chunks.count + load.chunks.last_count
    new = question.load.isl - question.load.prefix
    progress = mean_progress(load.prompts, new, question.limits.max_num_batched_tokens)
    ttft = first_s + progress * burst.total_s * load.prompts / load.on_rank
    # steps of the burst in which a client already decodes
    meanwhile = np.where(load.mixed(), (np.minimum(chunks, steps) - 1.0) / 2.0, 0.0)
    latency = first_s + burst.total_s + decode_s * (question.load.osl - 1.0 - meanwhile)
    away_s = joining.away_s + joining_s(joining, spread.request_latency_s)
    share = together_share(
        Drift(
            rounds=question.load.rounds,
            steps=steps,
            deviation=steps * question.load.osl_spread / np.sqrt(3.0),  # of a uniform distribution
            stagger=np.where(load.mixed(), chunks, 0.0),
            window=away_s / joining.step_s + 0.5,
            others=load.on_rank - 1.0,
        )
    )
    mean_ttft = (1.0 - share) * spread.ttft_s + share * ttft
    mean_latency = (1.0 - share) * spread.request_latency_s + share * latency
    gaps = question.load.osl - 1.0
    # of one output token, each round after the first waits for the prompts of all others
    queued = (ttft + (question.load.rounds - 1.0) * latency) / question.load.rounds
    mean_ttft = np.where(gaps > 0.0, mean_ttft, queued)
    mean_latency = np.where(gaps > 0.0, mean_latency, queued)
    tpot = np.where(gaps > 0.0, (mean_latency - mean_ttft) / np.maximum(gaps, 1.0), spread.tpot_s)
    whole = np.where(gaps > 0.0, mean_latency, latency)  # a round ends with its last prompt
    rate = load.on_rank * question.load.osl / whole
    met = Latencies(mean_ttft, tpot, mean_latency, rate)
    several = np.isfinite(question.load.rounds) & (load.on_rank > 1.0)
    return Latencies(*(np.where(several, a, b) for a, b in zip(met, spread, strict=True)))
