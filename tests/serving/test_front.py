"""Front ends: sequential tokenization of prompts, sequential streaming of tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.config import Control, EngineFleet, Replicas, SchedulerLimits, equal_engines
from perfatlas.serving.outcome import ClientDelays, request_latencies, tail_parts
from perfatlas.serving.outcome.metrics import gap_statistics
from perfatlas.serving.requests import plain_requests
from perfatlas.serving.run import run_fleet
from perfatlas.serving.run.simulate import run
from tests.examples import scaled_examples
from tests.serving.reference_front import FrontedSimulation
from tests.serving.serving_support import (
    flat_prices,
    random_fleet,
    random_pools,
    random_requests,
    requests_of,
)

PRICES = flat_prices(10, 100)
LIMITS = SchedulerLimits(8, 64, 4, 100)


def _compare(draw: np.random.Generator, fleet: EngineFleet) -> None:
    least = min(group.limits.kv_blocks * group.limits.block_size for group in fleet.groups)
    requests = random_requests(draw, int(draw.choice([1, 8, 40])), min(max(2, least // 4), 100))
    concurrency = int(draw.choice([0, 0, 1, 5, 30]))
    slow = FrontedSimulation(requests, fleet, concurrency)
    slow.run()
    for coalesce in (True, False):
        fast = run_fleet(
            requests, fleet, concurrency=concurrency, control=Control(coalesce=coalesce)
        )
        for name in ("arrival", "scheduled", "first_token", "finished", "replica"):
            expected = [getattr(sequence, name) for sequence in slow.sequences]
            assert getattr(fast, f"{name}_N").tolist() == expected, (name, coalesce)
        if fleet.read_token:
            read = [slow.read.get(i, -1) for i in range(len(slow.sequences))]
            assert fast.fronted.read_N.tolist() == read, coalesce
        if fast.fronted.late_last_N.size:
            assert fast.fronted.late_last_N.tolist() == slow.late_last, coalesce
            done = fast.finished_N >= 0
            one = done & (fast.first_token_N == fast.finished_N)
            late = fast.fronted.late_first_N
            assert (late[one] == fast.fronted.late_last_N[one]).all()


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_front_ends_are_those_of_the_slow_reference(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fleet = random_fleet(draw)
    groups = tuple(
        group._replace(
            stream_token=int(draw.choice([0, 1, 7, 60])),
            stream_interval=int(draw.choice([1, 1, 3, 20])),
        )
        for group in fleet.groups
    )
    fleet = fleet._replace(
        groups=groups, readers=int(draw.integers(0, 4)), read_token=int(draw.choice([0, 1, 13]))
    )
    _compare(draw, fleet)


@settings(deadline=None, max_examples=scaled_examples(0.6))
@given(seed=st.integers(0, 2**32))
def test_a_router_before_two_pools_tokenizes(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fleet = random_pools(draw)._replace(
        readers=int(draw.integers(0, 3)), read_token=int(draw.choice([1, 13]))
    )
    _compare(draw, fleet)


def test_prompts_wait_for_the_one_thread_that_tokenizes() -> None:
    requests = requests_of([(0, 8, 1), (0, 4, 1), (100, 2, 1)])
    outcome = run(requests, PRICES, LIMITS, Replicas(read_token=20))
    assert outcome.fronted.read_N.tolist() == [160, 240, 280]
    assert outcome.arrival_N.tolist() == [0, 0, 100]
    assert outcome.scheduled_N.tolist() == [160, 260, 360]
    found = request_latencies(requests, outcome)
    assert (found.read_s * 1e12).round().tolist() == [160, 240, 180]
    assert (found.queue_s * 1e12).round().tolist() == [0, 20, 80]
    assert (found.ttft_s * 1e12).round().tolist() == [260, 360, 360]


def test_a_thread_for_every_request_lets_none_wait() -> None:
    requests = requests_of([(0, 8, 1), (0, 4, 1), (100, 2, 1)])
    fleet = equal_engines(PRICES, LIMITS, Replicas())._replace(readers=0, read_token=20)
    assert run_fleet(requests, fleet).fronted.read_N.tolist() == [160, 80, 140]


def test_replicas_bring_a_thread_each_in_turn() -> None:
    requests = requests_of([(0, 5, 1), (0, 5, 1), (0, 5, 1)])
    outcome = run(requests, PRICES, LIMITS, Replicas(number=2, read_token=10))
    assert outcome.fronted.read_N.tolist() == [50, 50, 100]


def test_a_lone_sequence_gets_each_token_after_it_is_sent() -> None:
    outcome = run(requests_of([(0, 4, 3)]), PRICES, LIMITS, Replicas(stream_token=6))
    assert outcome.first_token_N.tolist() == [100]
    assert outcome.finished_N.tolist() == [120]
    assert outcome.fronted.late_first_N.tolist() == [6]
    assert outcome.fronted.late_last_N.tolist() == [6]


def test_clients_fall_behind_where_steps_outrun_the_front_end() -> None:
    # one step of prompts, then five of 10 ps with four tokens of 6 ps each: 14 ps more each time
    requests = requests_of([(0, 4, 6)] * 4)
    for coalesce in (True, False):
        outcome = run(
            requests, PRICES, LIMITS, Replicas(stream_token=6), control=Control(coalesce=coalesce)
        )
        assert outcome.finished_N.tolist() == [150] * 4
        assert outcome.fronted.late_first_N.tolist() == [15] * 4  # (24 + 6) / 2
        # 24 - 10 = 14 left before the second, 28 before the third: 70 before the last
        assert outcome.fronted.late_last_N.tolist() == [70 + 15] * 4
    found = request_latencies(requests, outcome)
    assert (found.tpot_s * 1e12).round(3).tolist() == [(50 + 70) / 5] * 4
    mean = gap_statistics(requests, outcome)["mean"]
    assert mean == pytest.approx(24e-12)


def test_the_mean_gap_of_a_long_backlog_does_not_overflow() -> None:
    # 400 requests of 256 tokens that take 40,000 s each: 1.6e19 ps together, above 2^63
    requests = requests_of([(0, 4, 3)] * 400)
    outcome = run(requests, PRICES, LIMITS, concurrency=4)
    slow = outcome._replace(
        first_token_N=np.zeros(400, np.int64), finished_N=np.full(400, 40_000 * 10**12)
    )
    assert gap_statistics(requests, slow)["mean"] == pytest.approx(20_000.0)


def test_a_closed_loop_is_no_faster_than_its_front_end() -> None:
    # 8 sequences, steps of 10 ps, 5 ps a token: 8 tokens take 40 ps
    osl_N = np.random.default_rng(3).integers(200, 400, 400)
    requests = plain_requests(np.zeros(400, np.int64), np.full(400, 4), osl_N)
    limits = LIMITS._replace(kv_blocks=2000)
    outcome = run(requests, PRICES, limits, Replicas(stream_token=5), concurrency=8)
    alone = run(requests, PRICES, limits, concurrency=8)
    last = int((outcome.finished_N + outcome.fronted.late_last_N).max())
    sends = 5 * int(osl_N.sum())
    assert alone.finished_N.max() < sends <= last <= sends + alone.finished_N.max()


def test_parts_of_the_tail_sum_to_it_with_front_ends() -> None:
    draw = np.random.default_rng(4)
    requests = random_requests(draw, 60, 40)
    replicas = Replicas(read_token=9, stream_token=8)
    fleet = equal_engines(PRICES, LIMITS, replicas)
    outcome = run_fleet(requests, fleet)
    seen = ClientDelays(request_s=2e-12)
    parts = tail_parts(requests, outcome, fleet.groups, seen)
    found = request_latencies(requests, outcome, seen)
    for name in ("ttft_s", "request_latency_s"):
        slowest = np.sort(getattr(found, name))[-max(1, round(0.01 * found.place_N.size)) :]
        assert sum(parts[f"tail_{name}"].values()) == pytest.approx(slowest.mean())
        assert parts[f"tail_{name}"]["tokenize"] > 0
        assert parts[f"tail_{name}"]["stream"] > 0
    assert found.read_s.mean() > 0


def test_what_is_being_tokenized_at_an_interruption_is_not_rejected() -> None:
    requests = requests_of([(0, 4, 3), (0, 4, 3)])
    stop = Control(watch=lambda _: True)
    outcome = run(requests, PRICES, LIMITS, Replicas(read_token=10**9), control=stop)
    assert not outcome.rejected().any()


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        (Replicas(read_token=-1), r"read_token is -1"),
        (Replicas(stream_token=-1), r"stream_token of type 0 is -1"),
        (Replicas(read_token=10**18), r"read_token 1000000000000000000: front ends need"),
        (Replicas(stream_token=10**18), r"stream_token .*simulate fewer requests"),
    ],
)
def test_front_ends_that_outrun_the_clock_are_refused(replicas: Replicas, message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        run(requests_of([(0, 8, 4)]), PRICES, LIMITS, replicas)
