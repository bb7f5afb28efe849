"""Why the slowest requests are slow: their latency by what it was spent on.

Shape legend: N requests, K of them in the tail, M steps of their prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.serving.metrics import AT_ENGINE, Seen, request_latencies
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.table_steps import StepLoads, step_s

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.serving.limits import Limits
    from perfatlas.serving.outcome import Outcome
    from perfatlas.serving.prices import StepPrices
    from perfatlas.serving.requests import Requests

SHARE: Final = 0.01  # of the requests are the tail


def tail_parts(
    requests: Requests,
    outcome: Outcome,
    prices: StepPrices,
    limits: Limits,
    seen: Seen = AT_ENGINE,
) -> dict[str, dict[str, float]]:
    """Return what the slowest 1 % spent their time on, means over them [s]; {} where none ended.

    Of `tail_ttft_s`, the requests of the longest TTFT: `http` (with tokenizing and streaming),
    `queue`, `prompt` (its own steps, had it been alone), `shared` (what those steps took longer
    because others ran in them or between them). Of `tail_request_latency_s`, those of the longest
    latency: the same, and `decode` (its own output, prompts of others taken off), `interference`
    (those prompts) and `preemption`. Where replicas fail, both have `failure`: what was lost with
    them, up to the last try. The parts of each sum to its mean.

    Args:
        requests: What arrived.
        outcome: What came of it.
        prices: What a step costs.
        limits: Of a scheduler.
        seen: What lies between the engine and the client.
    """
    found = request_latencies(requests, outcome, seen)
    if not found.place_N.size:
        return {}
    count = max(1, round(SHARE * found.place_N.size))
    parts = {}
    for name in ("ttft_s", "request_latency_s"):
        slowest_K = np.argsort(-getattr(found, name), kind="stable")[:count]
        place_K = found.place_N[slowest_K]
        prompt_s_K = np.minimum(
            _alone_s(requests, outcome, prices, limits, place_K),
            (outcome.first_token_N - outcome.scheduled_N)[place_K] / TICKS_PER_SECOND,
        )
        ttft_s_K = found.ttft_s[slowest_K] - seen.request_s - seen.token_s
        failure_s_K = _failure_s(outcome, place_K)
        columns = {
            "http": np.full(count, seen.request_s + seen.token_s),
            "queue": found.queue_s[slowest_K] - failure_s_K,
            "prompt": prompt_s_K,
            "shared": ttft_s_K - found.queue_s[slowest_K] - prompt_s_K,
        }
        if outcome.operated.again_N.size:
            columns["failure"] = failure_s_K
        if name == "request_latency_s":
            columns |= _decoding(outcome, place_K)
        parts[f"tail_{name}"] = {part: float(column.mean()) for part, column in columns.items()}
    return parts


def _failure_s(outcome: Outcome, place_K: NDArray[np.int64]) -> FloatArray:
    """Return the time from the first arrivals of requests to their last (K,) [s]."""
    if not outcome.operated.again_N.size:
        return np.zeros(place_K.size)
    again_K = outcome.operated.again_N[place_K]
    spent_K = np.where(again_K >= 0, again_K - outcome.arrival_N[place_K], 0)
    spent_s_K: FloatArray = spent_K / TICKS_PER_SECOND
    return spent_s_K


def _decoding(outcome: Outcome, place_K: NDArray[np.int64]) -> dict[str, FloatArray]:
    """Return what requests spent after their first token on, by part (K,) [s]."""
    between_K = (outcome.finished_N - outcome.first_token_N)[place_K]
    interference_K = np.minimum(outcome.interference_N[place_K], between_K)
    # one thrown out before its first token has lost that time there
    lost_K = np.minimum(outcome.lost_N[place_K], between_K - interference_K)
    return {
        "decode": (between_K - interference_K - lost_K) / TICKS_PER_SECOND,
        "interference": interference_K / TICKS_PER_SECOND,
        "preemption": lost_K / TICKS_PER_SECOND,
    }


def _alone_s(
    requests: Requests,
    outcome: Outcome,
    prices: StepPrices,
    limits: Limits,
    place_K: NDArray[np.int64],
) -> FloatArray:
    """Return what prompts would take with every step to themselves (K,) [s]."""
    cached_K = outcome.cached_N[place_K]
    left_K = requests.isl_N[place_K] - cached_K
    steps_K = -(-left_K // limits.max_num_batched_tokens)
    of_M = np.repeat(np.arange(place_K.size), steps_K)
    number_M = np.arange(of_M.size) - np.repeat(np.cumsum(steps_K) - steps_K, steps_K)
    done_M = number_M * limits.max_num_batched_tokens
    nothing_M = np.zeros(of_M.size, np.int64)
    time_s_M = step_s(
        prices,
        StepLoads(
            decodes_R=nothing_M,
            keys_R=nothing_M,
            sampled_R=(number_M == steps_K[of_M] - 1).astype(np.int64),
            step_M=np.arange(of_M.size),
            queries_M=np.minimum(left_K[of_M] - done_M, limits.max_num_batched_tokens),
            before_M=cached_K[of_M] + done_M,
        ),
    )
    total_s_K = np.zeros(place_K.size)
    np.add.at(total_s_K, of_M, time_s_M)
    return total_s_K
