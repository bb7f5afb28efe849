from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.serving.outcome import (
    FrontEndTimes,
    Offloaded,
    Outcome,
    ReplicaOutcome,
    Series,
    Transfers,
    request_latencies,
    saturated,
    summarize,
)
from perfatlas.serving.outcome.summary import meets
from perfatlas.serving.requests import TICKS_PER_SECOND, plain_requests
from perfatlas.vocabulary.metrics import statistics


def column(*seconds: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([round(s * TICKS_PER_SECOND) if s >= 0 else -1 for s in seconds], np.int64)


def whole(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


# Three requests: one of 11 tokens, one of a single token, one rejected.
REQUESTS = plain_requests(column(0, 1, 2), whole(100, 50, 9), whole(11, 1, 5))
OUTCOME = Outcome(
    arrival_N=column(0, 1, 2),
    scheduled_N=column(0.5, 1.25, -1),
    first_token_N=column(1, 1.5, -1),
    finished_N=column(2, 1.5, -1),
    replica_N=whole(0, 0, -1),
    preempted_N=whole(0, 0, 0),
    cached_N=whole(30, 0, 0),
    interference_N=column(0.25, 0, 0),
    lost_N=column(0, 0, 0),
    gaps_G=whole(0, 10),
    steps=12,
    preemptions=0,
    interrupted=False,
    series=Series(*(whole() for _ in Series._fields)),
    travels=Transfers(*4 * (np.zeros(0, np.int64),)),
    busy_F=column(1.5),
    steps_F=whole(12),
    operated=ReplicaOutcome(
        *2 * (np.zeros(0, np.int64),), *2 * (np.zeros(0, np.bool_),), np.zeros(1, np.int64), 0
    ),
    offloaded=Offloaded(
        *4 * (np.zeros(0, np.int64),), np.zeros(3, np.int64), 0, *3 * (np.zeros(3, np.int64),)
    ),
    fronted=FrontEndTimes(*3 * (np.zeros(0, np.int64),)),
)


def test_latencies_by_hand() -> None:
    found = request_latencies(REQUESTS, OUTCOME)
    assert found.queue_s.tolist() == [0.5, 0.25]
    assert found.ttft_s.tolist() == [1.0, 0.5]
    assert found.tpot_s[0] == pytest.approx(0.1)  # 1 s over 10 gaps
    assert math.isnan(found.tpot_s[1])
    assert found.request_latency_s.tolist() == [2.0, 0.5]


def test_a_summary_by_hand() -> None:
    found = summarize(REQUESTS, OUTCOME, {"ttft_s": 0.75, "tpot_s": 1.0})
    assert found["requests_completed"] == 2
    assert found["requests_rejected"] == 1
    assert found["makespan_s"] == 2.0
    assert found["output_tokens_per_s"] == 6.0
    assert found["total_tokens_per_s"] == 81.0  # 150 prompt and 12 output tokens in 2 s
    assert found["prefix_hit_rate"] == 0.2  # 30 of 150 prompt tokens
    assert found["cache_hit"] == {"gpu": 0.2}
    assert found["goodput_requests_per_s"] == 0.5  # only the second meets the TTFT
    assert found["slo_attainment"] == pytest.approx(1 / 3)  # the rejected one was asked too
    assert found["ttft_s"]["mean"] == 0.75
    assert found["tpot_s"]["p99"] == pytest.approx(0.1)


def test_cache_hits_divide_by_tier() -> None:
    nothing = whole(0, 0, 0)
    tiers = OUTCOME.offloaded._replace(
        host_N=whole(9, 0, 0), ssd_N=nothing, remote_N=whole(6, 0, 0), moved_N=nothing
    )
    found = summarize(REQUESTS, OUTCOME._replace(offloaded=tiers), {})
    # 30 of 150 prompt tokens, 15 of them below the GPU
    assert found["cache_hit"] == {"gpu": 0.1, "host": 0.06, "ssd": 0.0, "remote": 0.04}


def test_without_completed_requests_there_are_no_statistics() -> None:
    nothing = OUTCOME._replace(finished_N=column(-1, -1, -1), first_token_N=column(-1, -1, -1))
    found = summarize(REQUESTS, nothing, {})
    assert found["ttft_s"] == dict.fromkeys(("mean", "p50", "p90", "p95", "p99"))
    assert found["output_tokens_per_s"] is found["cache_hit"] is None


def test_a_request_of_one_token_meets_any_gap() -> None:
    found = request_latencies(REQUESTS, OUTCOME)
    assert meets(found, {"itl_s": 0.01}).tolist() == [False, True]


@pytest.mark.parametrize(("served", "said"), [(0.5, True), (2.0, False)])
def test_a_queue_that_grows_is_saturation(served: float, *, said: bool) -> None:
    # One arrival a second, `served` of them a second taken up.
    arrival = column(*range(100))
    start = np.maximum(arrival, column(*(k / served for k in range(100))))
    served_N = np.zeros_like(arrival)
    outcome = OUTCOME._replace(arrival_N=arrival, scheduled_N=start, replica_N=served_N)
    assert saturated(outcome) is said


def test_requests_that_are_rejected_do_not_wait() -> None:
    arrival = column(*range(100))
    nowhere_N = np.full_like(arrival, -1)
    outcome = OUTCOME._replace(arrival_N=arrival, scheduled_N=nowhere_N, replica_N=nowhere_N)
    assert not saturated(outcome)


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=50))
def test_percentiles_rise_and_hold_the_values(values: list[float]) -> None:
    found = statistics(np.array(values))
    order = [found[name] for name in ("p50", "p90", "p95", "p99")]
    known = [value for value in order if value is not None]
    assert known == sorted(known)
    assert min(values) <= known[0]
    assert known[-1] <= max(values)
