"""Breakdown of the latency of the slowest requests.

Shape legend: N requests, K of them in the tail, M steps of their prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.serving.outcome import metrics
from perfatlas.serving.policies import find_policy
from perfatlas.serving.prices import StepLoads, step_s
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.serving.config import ReplicaGroup
    from perfatlas.serving.outcome.columns import Outcome
    from perfatlas.serving.requests import Requests

SHARE: Final = 0.01  # fraction of the requests in the tail


def tail_parts(
    requests: Requests,
    outcome: Outcome,
    groups: Sequence[ReplicaGroup],
    seen: metrics.ClientDelays = metrics.AT_ENGINE,
) -> dict[str, dict[str, float]]:
    """Return the mean latency breakdown of the slowest 1% [s]; {} if no request completed.

    `tail_ttft_s`, over the requests with the highest TTFT: `http`, `tokenize` (incl. queueing),
    `stream` (delay of the token in the front end), `queue`, `prompt` (its own prefill steps, if it
    were alone), `shared` (time added to those steps by batching with others, or between them).
    `tail_request_latency_s`, over the requests with the highest latency: the same, plus `decode`
    (its own output, without prefill interference), `interference` (prefills of others) and
    `preemption`. With two pools also `transfer`, from the end of the prompt to the arrival of its
    KV cache, and `join`, from there until it decodes, including the first step if that produces the
    first token. With outages also `failure`: time lost up to the last try; with cache tiers below
    the GPU also `load`: time that steps waited for copies of the request before its first token.
    The parts sum to the mean.

    Args:
        groups: Engines, in order of their indices.
        seen: Delays between engine and client.
    """
    latencies = metrics.request_latencies(requests, outcome, seen)
    if not latencies.place_N.size:
        return {}
    count = max(1, round(SHARE * latencies.place_N.size))
    parts = {}
    for name in ("ttft_s", "request_latency_s"):
        slowest_K = np.argsort(-getattr(latencies, name), kind="stable")[:count]
        metrics.release_columns(requests, outcome, latencies)
        place_K = latencies.place_N[slowest_K]
        transfer_K = _transfer_times(outcome, place_K)
        between_s_K = (transfer_K.prompt_end - outcome.scheduled_N[place_K]) / TICKS_PER_SECOND
        alone_s_K = np.zeros(place_K.size)
        replica_K = outcome.replica_N[place_K]
        first = 0
        for group in groups:
            there_K = (replica_K >= first) & (replica_K < first + group.number)
            first += group.number
            if there_K.any():
                alone_s_K[there_K] = _alone_at_s(requests, outcome, group, place_K[there_K])
        prompt_s_K = np.minimum(alone_s_K, between_s_K)
        failure_s_K = _failure_s(outcome, place_K)
        columns = {
            "http": np.full(count, seen.request_s + seen.token_s),
            "queue": latencies.queue_s[slowest_K] - failure_s_K,
            "prompt": prompt_s_K,
            "shared": between_s_K - prompt_s_K,
        }
        if outcome.fronted.read_N.size:
            columns["tokenize"] = latencies.read_s[slowest_K]
        if outcome.fronted.late_last_N.size:
            fronted = outcome.fronted
            late_N = fronted.late_first_N if name == "ttft_s" else fronted.late_last_N
            columns["stream"] = late_N[place_K] / TICKS_PER_SECOND
        if outcome.offloaded.moved_N.size:
            moved_s_K = outcome.offloaded.moved_N[place_K] / TICKS_PER_SECOND
            columns["load"] = np.minimum(moved_s_K, columns["shared"])
            columns["shared"] = columns["shared"] - columns["load"]
        if outcome.operated.again_N.size:
            columns["failure"] = failure_s_K
        if name == "request_latency_s":
            columns |= _decoding(outcome, place_K, transfer_K)
        if outcome.travels.handed_N.size:
            late = name == "request_latency_s"
            columns |= {
                "transfer": (transfer_K.transfer if late else transfer_K.transfer_before)
                / TICKS_PER_SECOND,
                "join": (transfer_K.join if late else transfer_K.join_before) / TICKS_PER_SECOND,
            }
        parts[f"tail_{name}"] = {part: float(column.mean()) for part, column in columns.items()}
    return parts


class _TransferTimes(NamedTuple):
    """Times of requests between two pools, each (K,) [ps]; 0 without pools."""

    prompt_end: NDArray[np.int64]  # End of the prompt; without pools, the first token
    transfer: NDArray[np.int64]  # Until the arrival of its KV cache
    # From there to the first token, or to decoding if the first token was earlier
    join: NDArray[np.int64]
    transfer_before: NDArray[np.int64]  # Part of `transfer` before the first token
    join_before: NDArray[np.int64]  # Part of `join` before the first token


def _transfer_times(outcome: Outcome, place_K: NDArray[np.int64]) -> _TransferTimes:
    """Return the times of requests between two pools."""
    first_K = outcome.first_token_N[place_K]
    nothing_K = np.zeros_like(first_K)
    if not outcome.travels.handed_N.size:
        return _TransferTimes(first_K, *4 * (nothing_K,))
    handed_K, arrived_K, resumed_K, _ = (column[place_K] for column in outcome.travels)
    went_K = handed_K >= 0
    late_K = went_K & (first_K > handed_K)  # the first token comes after the transfer
    transfer_K = np.where(went_K, arrived_K - handed_K, 0)
    join_K = np.where(late_K, first_K - arrived_K, np.where(went_K, resumed_K - arrived_K, 0))
    return _TransferTimes(
        np.where(went_K, handed_K, first_K),
        transfer_K,
        join_K,
        np.where(late_K, transfer_K, 0),
        np.where(late_K, join_K, 0),
    )


def _failure_s(outcome: Outcome, place_K: NDArray[np.int64]) -> FloatArray:
    """Return the time from the first arrival of requests to their last retry (K,) [s]."""
    if not outcome.operated.again_N.size:
        return np.zeros(place_K.size)
    again_K = outcome.operated.again_N[place_K]
    read_N = outcome.fronted.read_N if outcome.fronted.read_N.size else outcome.arrival_N
    spent_K = np.where(again_K >= 0, again_K - read_N[place_K], 0)
    spent_s_K: FloatArray = spent_K / TICKS_PER_SECOND
    return spent_s_K


def _decoding(
    outcome: Outcome, place_K: NDArray[np.int64], transfer_K: _TransferTimes
) -> dict[str, FloatArray]:
    """Return the breakdown of the time after the first token (K,) [s]."""
    between_K = outcome.finished_N[place_K] - outcome.first_token_N[place_K]
    between_K = between_K - (transfer_K.transfer - transfer_K.transfer_before)
    between_K = between_K - (transfer_K.join - transfer_K.join_before)
    interference_K = np.minimum(outcome.interference_N[place_K], between_K)
    # preemption before the first token is part of TTFT
    lost_K = np.minimum(outcome.lost_N[place_K], between_K - interference_K)
    return {
        "decode": (between_K - interference_K - lost_K) / TICKS_PER_SECOND,
        "interference": interference_K / TICKS_PER_SECOND,
        "preemption": lost_K / TICKS_PER_SECOND,
    }


def _alone_at_s(
    requests: Requests, outcome: Outcome, group: ReplicaGroup, place_K: NDArray[np.int64]
) -> FloatArray:
    """Return the time of prompts if they ran alone on engines of one type (K,) [s].

    Chunks that follow one another through pipeline stages take the time of the slowest stage each.
    """
    limits = group.limits
    cached_K = outcome.cached_N[place_K]
    left_K = requests.isl_N[place_K] - cached_K
    steps_K = -(-left_K // limits.max_num_batched_tokens)
    of_M = np.repeat(np.arange(place_K.size), steps_K)
    number_M = np.arange(of_M.size) - np.repeat(np.cumsum(steps_K) - steps_K, steps_K)
    done_M = number_M * limits.max_num_batched_tokens
    nothing_M = np.zeros(of_M.size, np.int64)
    time_s_M = step_s(
        group.prices,
        StepLoads(
            decodes_R=nothing_M,
            keys_R=nothing_M,
            sampled_R=(number_M == steps_K[of_M] - 1).astype(np.int64),
            step_M=np.arange(of_M.size),
            queries_M=np.minimum(left_K[of_M] - done_M, limits.max_num_batched_tokens),
            before_M=cached_K[of_M] + done_M,
        ),
    )
    if group.stage_layers and find_policy(limits.rules, group.role).overlaps_chunks:
        time_s_M[number_M > 0] *= max(group.stage_layers) / sum(group.stage_layers)
    total_s_K = np.zeros(place_K.size)
    np.add.at(total_s_K, of_M, time_s_M)
    return total_s_K
