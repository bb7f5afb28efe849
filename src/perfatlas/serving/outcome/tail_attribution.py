"""Why the slowest requests are slow: their latency by what it was spent on.

Shape legend: N requests, K of them in the tail, M steps of their prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.serving.outcome.metrics import AT_ENGINE, Seen, request_latencies
from perfatlas.serving.prices import StepLoads, step_s
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.serving.config import Kind
    from perfatlas.serving.outcome.columns import Outcome
    from perfatlas.serving.requests import Requests

SHARE: Final = 0.01  # of the requests are the tail


def tail_parts(
    requests: Requests,
    outcome: Outcome,
    kinds: Sequence[Kind],
    seen: Seen = AT_ENGINE,
) -> dict[str, dict[str, float]]:
    """Return what the slowest 1 % spent their time on, means over them [s]; {} where none ended.

    Of `tail_ttft_s`, the requests of the longest TTFT: `http`, `tokenize` (with the wait for it),
    `stream` (how late the front end sends the token), `queue`, `prompt` (its own steps, had it been
    alone), `shared` (what those steps took longer because others ran in them or between them). Of
    `tail_request_latency_s`, those of the longest latency: the same, and `decode` (its own output,
    prompts of others taken off), `interference` (those prompts) and `preemption`. Between two pools
    also `transfer`, from the end of the prompt to the arrival of its cache, and `join`, from there
    until it decodes, with the first step where that gives the first token. Where replicas fail,
    both have `failure`: what was lost with them, up to the last try; with cache below the GPU
    `load`, what steps waited for the copies of the request itself before its first token. The parts
    of each sum to its mean.

    Args:
        requests: What arrived.
        outcome: What came of it.
        kinds: Engines, in the order of their numbers.
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
        way_K = _way(outcome, place_K)
        between_s_K = (way_K.prompt_end - outcome.scheduled_N[place_K]) / TICKS_PER_SECOND
        prompt_s_K = np.minimum(_alone_s(requests, outcome, kinds, place_K), between_s_K)
        failure_s_K = _failure_s(outcome, place_K)
        columns = {
            "http": np.full(count, seen.request_s + seen.token_s),
            "queue": found.queue_s[slowest_K] - failure_s_K,
            "prompt": prompt_s_K,
            "shared": between_s_K - prompt_s_K,
        }
        if outcome.fronted.read_N.size:
            columns["tokenize"] = found.read_s[slowest_K]
        if outcome.fronted.late_last_N.size:
            columns["stream"] = _late_s(outcome, place_K, name)
        if outcome.offloaded.moved_N.size:
            moved_s_K = outcome.offloaded.moved_N[place_K] / TICKS_PER_SECOND
            columns["load"] = np.minimum(moved_s_K, columns["shared"])
            columns["shared"] = columns["shared"] - columns["load"]
        if outcome.operated.again_N.size:
            columns["failure"] = failure_s_K
        if name == "request_latency_s":
            columns |= _decoding(outcome, place_K, way_K)
        if outcome.travels.handed_N.size:
            late = name == "request_latency_s"
            columns |= {
                "transfer": (way_K.transfer if late else way_K.transfer_before) / TICKS_PER_SECOND,
                "join": (way_K.join if late else way_K.join_before) / TICKS_PER_SECOND,
            }
        parts[f"tail_{name}"] = {part: float(column.mean()) for part, column in columns.items()}
    return parts


class _Way(NamedTuple):
    """Of requests between two pools, each (K,) [ps]; nothing without pools.

    Args:
        prompt_end: When the prompt had ended; without pools, when the first token was there.
        transfer: To the arrival of its cache.
        join: From there to the first token, or to decoding where that was there before.
        transfer_before: Of these, before the first token.
        join_before: The same.
    """

    prompt_end: NDArray[np.int64]
    transfer: NDArray[np.int64]
    join: NDArray[np.int64]
    transfer_before: NDArray[np.int64]
    join_before: NDArray[np.int64]


def _way(outcome: Outcome, place_K: NDArray[np.int64]) -> _Way:
    """Return how long requests were between two pools."""
    first_K = outcome.first_token_N[place_K]
    nothing_K = np.zeros_like(first_K)
    if not outcome.travels.handed_N.size:
        return _Way(first_K, *4 * (nothing_K,))
    handed_K, arrived_K, resumed_K, _ = (column[place_K] for column in outcome.travels)
    went_K = handed_K >= 0
    late_K = went_K & (first_K > handed_K)  # the first token comes when the cache is there
    transfer_K = np.where(went_K, arrived_K - handed_K, 0)
    join_K = np.where(late_K, first_K - arrived_K, np.where(went_K, resumed_K - arrived_K, 0))
    return _Way(
        np.where(went_K, handed_K, first_K),
        transfer_K,
        join_K,
        np.where(late_K, transfer_K, 0),
        np.where(late_K, join_K, 0),
    )


def _late_s(outcome: Outcome, place_K: NDArray[np.int64], name: str) -> FloatArray:
    """Return how late clients got the token that ends a latency (K,) [s]."""
    fronted = outcome.fronted
    late_N = fronted.late_first_N if name == "ttft_s" else fronted.late_last_N
    late_s_K: FloatArray = late_N[place_K] / TICKS_PER_SECOND
    return late_s_K


def _failure_s(outcome: Outcome, place_K: NDArray[np.int64]) -> FloatArray:
    """Return the time from the first arrivals of requests to their last (K,) [s]."""
    if not outcome.operated.again_N.size:
        return np.zeros(place_K.size)
    again_K = outcome.operated.again_N[place_K]
    read_N = outcome.fronted.read_N if outcome.fronted.read_N.size else outcome.arrival_N
    spent_K = np.where(again_K >= 0, again_K - read_N[place_K], 0)
    spent_s_K: FloatArray = spent_K / TICKS_PER_SECOND
    return spent_s_K


def _decoding(outcome: Outcome, place_K: NDArray[np.int64], way_K: _Way) -> dict[str, FloatArray]:
    """Return what requests spent after their first token on, by part (K,) [s]."""
    between_K = (outcome.finished_N - outcome.first_token_N)[place_K]
    between_K = between_K - (way_K.transfer - way_K.transfer_before)
    between_K = between_K - (way_K.join - way_K.join_before)
    interference_K = np.minimum(outcome.interference_N[place_K], between_K)
    # one thrown out before its first token has lost that time there
    lost_K = np.minimum(outcome.lost_N[place_K], between_K - interference_K)
    return {
        "decode": (between_K - interference_K - lost_K) / TICKS_PER_SECOND,
        "interference": interference_K / TICKS_PER_SECOND,
        "preemption": lost_K / TICKS_PER_SECOND,
    }


def _alone_s(
    requests: Requests, outcome: Outcome, kinds: Sequence[Kind], place_K: NDArray[np.int64]
) -> FloatArray:
    """Return what prompts would take with every step to themselves, where they ran (K,) [s]."""
    total_s_K = np.zeros(place_K.size)
    replica_K = outcome.replica_N[place_K]
    first = 0
    for kind in kinds:
        there_K = (replica_K >= first) & (replica_K < first + kind.number)
        first += kind.number
        if there_K.any():
            total_s_K[there_K] = _alone_at_s(requests, outcome, kind, place_K[there_K])
    return total_s_K


def _alone_at_s(
    requests: Requests, outcome: Outcome, kind: Kind, place_K: NDArray[np.int64]
) -> FloatArray:
    """Return the same of prompts that ran on engines of one kind (K,) [s]."""
    limits = kind.limits
    cached_K = outcome.cached_N[place_K]
    left_K = requests.isl_N[place_K] - cached_K
    steps_K = -(-left_K // limits.max_num_batched_tokens)
    of_M = np.repeat(np.arange(place_K.size), steps_K)
    number_M = np.arange(of_M.size) - np.repeat(np.cumsum(steps_K) - steps_K, steps_K)
    done_M = number_M * limits.max_num_batched_tokens
    nothing_M = np.zeros(of_M.size, np.int64)
    time_s_M = step_s(
        kind.prices,
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
