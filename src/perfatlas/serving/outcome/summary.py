"""Summary of a simulation: latencies, throughput, goodput, and whether its queue grows.

Shape legend: N requests, B completed requests of sessions, S sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.serving.outcome import metrics
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.vocabulary.metrics import share, statistics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.serving.outcome.columns import Outcome, Window
    from perfatlas.serving.requests import Requests

BACKLOG: Final = 10  # minimum waiting requests for a growing queue to be significant
GROWTH: Final = 2.0  # growth of the backlog from the first half of the arrivals to their last third
LOOKS: Final = 60  # samples of the queue, evenly over the arrivals


def meets(latencies: metrics.Latencies, slos: Mapping[str, float]) -> NDArray[np.bool_]:
    """Return which completed requests meet all SLOs (N,).

    Args:
        slos: Maximum by name: ttft_s, tpot_s, itl_s (mean gap of a request), request_latency_s [s].
    """
    good: NDArray[np.bool_] = np.ones(latencies.place_N.size, np.bool_)
    for name, most in slos.items():
        # requests with a single output token have no gap and meet any SLO
        good &= ~(getattr(latencies, name) > most)
    return good


def summarize(
    requests: Requests,
    outcome: Outcome,
    slos: Mapping[str, float],
    seen: metrics.ClientDelays = metrics.AT_ENGINE,
    window: Window | None = None,
    partial_N: NDArray[np.bool_] | None = None,
) -> dict[str, Any]:
    """Return the metrics of a simulation, named as in the vocabulary.

    Throughput and goodput are over the makespan: from the first arrival to the last token, or to
    the last arrival of a request that replica failures left unanswered. Rejected, lost and unserved
    requests meet no SLO.

    Args:
        slos: As in `meets`.
        seen: Delays between engine and client.
        partial_N: Whether the session of a request has others that are not simulated (N,), empty
            or None for none; such sessions have no times.
        window: Measured requests: latencies are theirs, and rates are those between their first and
            their last completion; counts cover the whole run. None measures all requests.
    """
    latencies = metrics.request_latencies(requests, outcome, seen)
    completed = int(latencies.place_N.size)
    failed_N = _failed(outcome)
    makespan_s = float((latencies.arrival_s + latencies.request_latency_s).max(initial=0.0))
    makespan_s = max(
        makespan_s, float(outcome.arrival_N[failed_N].max(initial=0)) / TICKS_PER_SECOND
    )
    makespan_s -= float(outcome.arrival_N[outcome.arrival_N >= 0].min(initial=0)) / TICKS_PER_SECOND
    tokens = int(requests.osl_N[latencies.place_N].sum())
    prompt = int(requests.isl_N[latencies.place_N].sum())
    metrics.release_columns(requests, outcome, latencies)
    rejected = int(np.count_nonzero(outcome.rejected()))
    failed = int(np.count_nonzero(failed_N))
    names = ["ttft_s", "tpot_s", "request_latency_s", "queue_s"]
    names += ["kv_transfer_s"] if outcome.travels.handed_N.size else []
    result: dict[str, Any] = {}
    for name in names:
        result[name] = statistics(getattr(latencies, name))
        metrics.release_columns(latencies)
    result["itl_s"] = metrics.gap_statistics(requests, outcome)
    metrics.release_columns(requests, outcome)
    rate = 1.0 / makespan_s if makespan_s > 0.0 else None
    result |= {
        "makespan_s": makespan_s,
        "requests_completed": completed,
        "requests_rejected": rejected,
        "preemptions": outcome.preemptions,
        "steps": outcome.steps,
        "output_tokens_per_s": None if rate is None else tokens * rate,
        "total_tokens_per_s": None if rate is None else (prompt + tokens) * rate,
        "requests_per_s": None if rate is None else completed * rate,
        **_cache_hits(requests, outcome, latencies.place_N),
        "saturated": saturated(outcome),
        "interrupted": outcome.interrupted,
    }
    if np.bincount(requests.session_N + 1)[1:].max(initial=0) > 1:
        result |= _session_results(requests, latencies, partial_N)
    if slos:
        good = int(np.count_nonzero(meets(latencies, slos)))
        arrived = completed + rejected + failed
        result["goodput_requests_per_s"] = None if rate is None else good * rate
        result["slo_attainment"] = share(good, arrived)
    if window is not None:
        result |= _window_results(requests, outcome, latencies.between(window), (window, slos))
    return result


def _cache_hits(requests: Requests, outcome: Outcome, place_B: NDArray[np.int64]) -> dict[str, Any]:
    """Return the shares of prompt tokens of some requests found in a cache, and in which."""
    prompt = int(requests.isl_N[place_B].sum())
    cached = gpu = int(outcome.cached_N[place_B].sum())
    below = {}
    if outcome.offloaded.moved_N.size:
        for name in ("host", "ssd", "remote"):
            found = int(getattr(outcome.offloaded, f"{name}_N")[place_B].sum())
            gpu, below[name] = gpu - found, found
    hits = (
        {name: found / prompt for name, found in {"gpu": gpu, **below}.items()} if prompt else None
    )
    return {"prefix_hit_rate": share(cached, prompt), "cache_hit": hits}


def _session_results(
    requests: Requests, latencies: metrics.Latencies, partial_N: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """Return the times and token rates of whole sessions all of whose requests completed.

    Without a session that is simulated as a whole, there are no results.
    """
    place_N = latencies.place_N
    in_session_N = requests.session_N[place_N] >= 0
    session_B = requests.session_N[place_N][in_session_N]
    arrival_s_B = latencies.arrival_s[in_session_N]
    end_s_B = arrival_s_B + latencies.request_latency_s[in_session_N]
    requests_S = np.bincount(requests.session_N[requests.session_N >= 0])
    completed_S = np.bincount(session_B, minlength=requests_S.size) == requests_S
    whole_S = requests_S > 0
    if partial_N is not None and partial_N.size:
        whole_S[requests.session_N[partial_N & (requests.session_N >= 0)]] = False
    if not whole_S.any():
        return {}
    completed_S &= whole_S
    first_s_S = np.full(requests_S.size, np.inf)
    last_s_S = np.full(requests_S.size, -np.inf)
    np.minimum.at(first_s_S, session_B, arrival_s_B)
    np.maximum.at(last_s_S, session_B, end_s_B)
    osl_B = requests.osl_N[place_N][in_session_N]
    tokens_S = np.bincount(session_B, osl_B, requests_S.size)[completed_S]
    time_s_S = last_s_S[completed_S] - first_s_S[completed_S]
    return {
        "session_time_s": statistics(time_s_S),
        "session_tokens_per_s": statistics(tokens_S[time_s_S > 0.0] / time_s_S[time_s_S > 0.0]),
        "sessions_completed": int(np.count_nonzero(completed_S)),
    }


def _window_results(
    requests: Requests,
    outcome: Outcome,
    latencies: metrics.Latencies,
    window_slos: tuple[Window, Mapping[str, float]],
) -> dict[str, Any]:
    """Return the results that are different for the requests of a window."""
    window, slos = window_slos
    done_N = outcome.finished_N[latencies.place_N]
    start, end = int(done_N.min()), int(done_N.max())
    span_s = max(end - start, 1) / TICKS_PER_SECOND
    ended_N = (outcome.finished_N > start) & (outcome.finished_N <= end)
    rate = int(np.count_nonzero(ended_N)) / span_s
    tokens = int(requests.osl_N[ended_N].sum())
    result: dict[str, Any] = {
        "ttft_s": statistics(latencies.ttft_s),
        "tpot_s": statistics(latencies.tpot_s),
        "request_latency_s": statistics(latencies.request_latency_s),
        "queue_s": statistics(latencies.queue_s),
        "output_tokens_per_s": tokens / span_s,
        "total_tokens_per_s": (int(requests.isl_N[ended_N].sum()) + tokens) / span_s,
        "requests_per_s": rate,
        **_cache_hits(requests, outcome, latencies.place_N),
    }
    gaps_N = np.maximum(requests.osl_N[latencies.place_N] - 1, 0)
    if gaps_N.sum():  # gaps of other requests count in the percentiles of the same time
        spent_s = float(np.nansum(latencies.tpot_s * gaps_N))
        result["itl_s"] = {
            **metrics.gap_statistics(requests, outcome),
            "mean": spent_s / (int(gaps_N.sum()) * metrics.gaps_per_token(outcome)),
        }
    if latencies.kv_transfer_s.size:
        result["kv_transfer_s"] = statistics(latencies.kv_transfer_s)
    if slos:
        good = int(np.count_nonzero(meets(latencies, slos)))
        attained = share(good, window.last - window.first)
        result["slo_attainment"] = attained
        result["goodput_requests_per_s"] = good / (window.last - window.first) * rate
    return result


def _failed(outcome: Outcome) -> NDArray[np.bool_]:
    """Return which requests were lost in a replica failure or never served (N,)."""
    if outcome.interrupted or not outcome.operated.lost_N.size:
        return np.zeros(outcome.arrival_N.shape[0], np.bool_)
    return outcome.operated.lost_N | outcome.unserved()


def saturated(outcome: Outcome) -> bool:
    """Return whether the load exceeds the capacity, i.e. the queue grows until the end.

    True if over the last third of the arrivals more than `BACKLOG` requests wait on average for
    their first step, or for a front end to send their first token, and at least `GROWTH` times as
    many as over the first half (a linearly growing queue has three times as many). With two pools,
    requests wait until they decode. Rejected requests, and those lost or unserved because of
    replica failures, do not count. A closed loop is never saturated.

    Args:
        outcome: Results of an open loop.
    """
    waits_N = (outcome.arrival_N >= 0) & ~_failed(outcome) & ~outcome.rejected()
    arrived_N = np.sort(outcome.arrival_N[waits_N])
    if arrived_N.size < LOOKS:
        return False
    went = outcome.travels.handed_N.size > 0
    served_N = outcome.travels.resumed_N if went else outcome.scheduled_N
    if went:  # a single output token may need no decode engine
        served_N = np.where(outcome.travels.handed_N < 0, outcome.finished_N, served_N)
    late_N = outcome.fronted.late_first_N
    if late_N.size:
        served_N = np.where(served_N >= 0, served_N + late_N, served_N)
    served_N = np.sort(served_N[(served_N >= 0) & waits_N])
    at = arrived_N[np.arange(1, LOOKS + 1) * arrived_N.size // LOOKS - 1]
    waiting = np.searchsorted(arrived_N, at, side="right") - np.searchsorted(
        served_N, at, side="right"
    )
    late, early = waiting[-LOOKS // 3 :].mean(), waiting[: LOOKS // 2].mean()
    return bool(late > BACKLOG and late > GROWTH * early)
