"""Latencies of clients that start together: a burst of prompts, from which they drift apart.

Shape legend: C candidates, C candidates; K rounds at which a probability is averaged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.inference.latencies import Latencies, joining_s, pipelined_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.inference.distinct_steps import StepTimes
    from perfatlas.inference.latencies import Joining
    from perfatlas.inference.running_load import RunningLoad
    from perfatlas.operators import FloatArray, IntArray


def mean_progress(prompts: FloatArray, new_tokens: FloatArray, budget: FloatArray) -> FloatArray:
    """Return the mean share of all steps after which one of equal prompts is computed (C,).

    Steps hold `budget` tokens of prompts in their order, the last one what is left. Prompt i ends
    with step ceil(i new / budget).

    Args:
        prompts: Prompts that start together (C,).
        new_tokens: Tokens to compute of each (C,).
        budget: Maximum tokens per step (C,).

    Limits: Whole prompts and tokens. A step takes a time in proportion to its tokens.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference.opening_burst import mean_progress
        >>> one = np.ones(1)
        >>> float(mean_progress(4 * one, 100 * one, 200 * one)[0])  # two after half, two at the end
        0.75
    """
    count, new, most = (
        np.maximum(np.rint(column), 1.0).astype(np.int64)
        for column in (prompts, new_tokens, budget)
    )
    steps = -(-count * new // most)
    ended = ceil_sum(count, new, most) * most  # tokens computed when each ends, over all prompts
    in_last = count - (steps - 1) * most // new
    ended -= in_last * (steps * most - count * new)
    share_C: FloatArray = ended / (count * count * new)
    return share_C


def ceil_sum(number: IntArray, numerator: IntArray, denominator: IntArray) -> IntArray:
    """Return the sum of ceil(i numerator / denominator) for i from 1 to a number (C,).

    As many iterations as the algorithm of Euclid takes for numerator and denominator.

    Args:
        number: Terms, at least 1 (C,).
        numerator: At least 0 (C,).
        denominator: At least 1 (C,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference.opening_burst import ceil_sum
        >>> int(ceil_sum(np.array([3]), np.array([2]), np.array([3]))[0])  # 1 + 2 + 2
        5
    """
    n, a, m = number.copy(), numerator.copy(), denominator.copy()
    b = a + m - 1  # sum of floor((a i + b) / m) for i from 0 to n - 1
    total = np.zeros_like(n)
    while n.any():
        total += n * (n - 1) // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        top = a * n + b
        n, b = top // m, top % m
        a, m = m, np.where(n > 0, a, 1)
    return total


NODES: Final = 16  # of the mean over rounds
MIN_SCALE: Final = 1e-9  # steps; a scale of equal positions
PERIODS: Final = 3  # in either direction, in which another client may be a round ahead or behind
_erf = np.vectorize(math.erf, otypes=[np.float64])


class Drift(NamedTuple):
    """Clients of a benchmark, counted in decode steps, each (C,)."""

    rounds: FloatArray  # Requests of every client
    steps: FloatArray  # Decode steps of a mean output
    deviation: FloatArray  # Standard deviation of the steps of an output
    stagger: FloatArray  # Steps over which the prompts of all clients that start together end
    # Steps from the end of a request until the next one of the client is prefilled
    window: FloatArray
    others: FloatArray


def together_share(drift: Drift) -> FloatArray:
    """Return how much of the other clients' prompts a request meets as at the start (C,).

    All meet in the first round. While prompts run before all decodes, no sequence decodes; counted
    in decode steps, every client takes a random walk whose step is the length of its output, and
    after k rounds two of them are apart by a deviation of sqrt(2 k) outputs' deviations, modulo an
    output. They meet again where they are apart by less than the steps that one of them is away:
    equal outputs keep all together for ever, and different ones drift apart until the positions are
    independent. In steps shared with decodes, prompts that start together end in different ones.

    Limits: Positions are normal, uniform where they fill an output. Outputs are independent.

    Source: derived; the simulation is compared in docs/models/step.md.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference.opening_burst import Drift, together_share
        >>> one = np.ones(1)
        >>> equal = Drift(10 * one, 100 * one, 0 * one, 0 * one, 2 * one, 3 * one)
        >>> apart = equal._replace(deviation=30 * one)
        >>> [round(float(together_share(one)[0]), 3) for one in (equal, apart)]
        [1.0, 0.135]
    """
    later_C = np.maximum(drift.rounds - 1.0, 0.0)
    node_K, weight_K = np.polynomial.legendre.leggauss(NODES)
    first_C, last_C = math.sqrt(0.5), np.sqrt(later_C + 0.5)  # square roots of rounds
    half_C = np.maximum(last_C - first_C, 0.0) / 2.0
    root_CK = first_C + half_C[:, None] * (1.0 + node_K)
    met_CK = _meets(drift, root_CK**2)
    mean_C = np.sum(met_CK * 2.0 * root_CK * weight_K, axis=1) * half_C
    share_C: FloatArray = (1.0 + mean_C) / drift.rounds
    return share_C


def _meets(drift: Drift, round_CK: FloatArray) -> FloatArray:
    """Return the probability that another client meets a request of a round (C, K).

    Those who follow the first of a group within its window are prefilled right after it, and the
    next one begins a new group: of y that follow within a window on average, a group holds
    y (2 + y) / (1 + y) others of a member, 2 y where clients are far apart and y where not.
    """
    window_CK = np.broadcast_to(drift.window[:, None], round_CK.shape)
    following_CK = drift.others[:, None] * _distance_cdf(window_CK, drift, round_CK) / 2.0
    window_CK = window_CK * (1.0 + following_CK / 2.0) / (1.0 + following_CK)
    return _distance_cdf(window_CK, drift, round_CK)


def _distance_cdf(window_CK: FloatArray, drift: Drift, round_CK: FloatArray) -> FloatArray:
    """Return the probability that two clients are apart by less than some steps (C, K)."""
    steps_C1 = drift.steps[:, None]
    variance_CK = 2.0 * round_CK * drift.deviation[:, None] ** 2
    variance_CK = variance_CK + drift.stagger[:, None] ** 2 / 6.0  # of two uniform positions
    scale_CK = np.maximum(np.sqrt(2.0 * variance_CK), MIN_SCALE)
    less_CK = np.zeros_like(round_CK)
    for period in range(-PERIODS, PERIODS + 1):
        upper_CK, lower_CK = (
            _erf((period * steps_C1 + side * window_CK) / scale_CK) for side in (1.0, -1.0)
        )
        less_CK += (upper_CK - lower_CK) / 2.0
    uniform_CK = np.minimum(2.0 * window_CK / steps_C1, 1.0)
    return np.clip(less_CK, uniform_CK, 1.0)


class Burst(NamedTuple):
    """Prompts of clients that start together."""

    load: RunningLoad  # What runs at the same time, with the chunks of all prompts
    chunk: StepTimes  # A full chunk of them
    last: StepTimes  # The last chunk

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
    """Time of the prompts of clients that start together."""

    load: RunningLoad  # What runs at the same time, with the chunks of all prompts
    total_s: FloatArray  # Time of these chunks (C,) [s]


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
        alone: Time to prefill a prompt that arrives alone, and of an output token without prompts,
            each (C,) [s].

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
