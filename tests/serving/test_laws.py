"""Queueing results compared with closed forms, and conservation laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.serving.config import Control, Replicas, SchedulerLimits
from perfatlas.serving.engine import advance
from perfatlas.serving.policies import policy_names
from perfatlas.serving.requests import plain_requests
from perfatlas.serving.run.initial_state import initial_states
from perfatlas.serving.run.simulate import LAST_TICK, run
from tests.serving.serving_support import flat_prices, random_fleet, random_prices, random_requests

ONE_BY_ONE = SchedulerLimits(1, 40_000, 16, 10_000)


def _mean_wait(
    arrival_N: np.ndarray, service_N: np.ndarray, per_token: int, rules: str
) -> tuple[float, float]:
    """Return the simulated mean wait of a single server, and its standard error."""
    count = arrival_N.shape[0]
    requests = plain_requests(arrival_N, service_N, np.ones(count, np.int64))
    prices = flat_prices(0, 0, seqs=1, tokens=40_000, per_token=per_token)
    outcome = run(requests, prices, ONE_BY_ONE._replace(rules=rules))
    wait_N = (outcome.scheduled_N - outcome.arrival_N).astype(np.float64)
    batches = wait_N.reshape(50, -1).mean(axis=1)  # far longer than a busy period each
    return float(wait_N.mean()), float(batches.std(ddof=1) / np.sqrt(50))


# the fullest queue shows errors first
LOADS = (
    pytest.param(0.3, marks=pytest.mark.study),
    pytest.param(0.6, marks=pytest.mark.study),
    0.8,
)


@pytest.mark.parametrize("rules", policy_names())
@pytest.mark.parametrize("load", LOADS)
def test_constant_service_waits_as_m_d_1(load: float, rules: str) -> None:
    # W = load D / (2 (1 - load)); D = 1,000 tokens of 1,000 ps
    draw = np.random.default_rng(3)
    arrival_N = np.cumsum(draw.exponential(1e6 / load, 200_000)).astype(np.int64)
    mean, error = _mean_wait(arrival_N, np.full(200_000, 1000), 1000, rules)
    assert mean == pytest.approx(load * 1e6 / (2 * (1 - load)), abs=4 * error)
    assert error < 0.06 * mean


@pytest.mark.parametrize("rules", policy_names())
@pytest.mark.parametrize("load", LOADS)
def test_exponential_service_waits_as_m_m_1(load: float, rules: str) -> None:
    # W = load S / (1 - load); S = 1,000 tokens on average, rounded up: half a token more
    draw = np.random.default_rng(4)
    arrival_N = np.cumsum(draw.exponential(1e6 / load, 200_000)).astype(np.int64)
    service_N = np.ceil(draw.exponential(1000 - 0.5, 200_000)).astype(np.int64)
    mean, error = _mean_wait(arrival_N, service_N, 1000, rules)
    assert mean == pytest.approx(load * 1e6 / (1 - load), abs=4 * error)
    assert error < 0.06 * mean


def test_littles_law_holds() -> None:
    # Little: mean of running + waiting = arrivals per time x mean time from arrival to last token
    draw = np.random.default_rng(5)
    arrival_N = np.cumsum(draw.exponential(4e9, 20_000)).astype(np.int64)
    requests = plain_requests(arrival_N, np.full(20_000, 50), draw.integers(1, 60, 20_000))
    prices = flat_prices(400_000_000, 500_000_000)
    outcome = run(
        requests, prices, SchedulerLimits(8, 512, 16, 200), control=Control(series_rows=4096)
    )
    stay_N = outcome.finished_N - outcome.arrival_N
    series = outcome.series
    inside = (series.running_W + series.waiting_W).mean()
    assert inside == pytest.approx(stay_N.sum() / outcome.finished_N.max(), rel=0.05)
    assert 2048 <= series.time_W.shape[0] <= 4096
    assert (np.diff(series.time_W) > 0).all()
    assert series.used_W.max() <= 200
    assert series.running_W.max() <= 8


@given(seed=st.integers(0, 2**32))
def test_everything_ends_once_and_all_blocks_come_back(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fleet = random_fleet(draw)
    (group,) = fleet.groups
    limits = group.limits
    requests = random_requests(draw, 40, limits.kv_blocks * limits.block_size // 3 + 2)
    prices = group.prices._replace(
        queries_Q=np.array([0, 10**6]),
        prefill_added_QP=draw.integers(0, 50, (2, 4)),
        prefill_last_QP=draw.integers(-20, 50, (2, 4)),
    )
    sims = initial_states(
        requests,
        fleet._replace(groups=(group._replace(prices=prices),)),
        concurrency=int(draw.choice([0, 4])),
        control=Control(),
    )
    while advance(sims, 10, LAST_TICK) == 0:
        pass
    (sim,) = sims
    schedulers, rows = sim.scheduler_S, sim.request_N
    assert sim.clock_1["left"][0] == 0
    assert (schedulers["free"] == limits.kv_blocks).all()
    if limits.rules in ("trtllm_guaranteed_no_evict", "static"):
        assert (schedulers["spare"] == limits.kv_blocks).all()
    for name in ("running", "waiting", "decoding", "context", "heap"):
        assert (schedulers[name] == 0).all(), name
    assert (sim.growth_SB == 0).all()
    assert (sim.block_SK["references"] == 0).all()
    finished = sim.finished_N
    assert ((finished >= 0) == (sim.replica_N >= 0)).all()
    done = finished >= 0
    for before, after in (
        (sim.came_N, sim.scheduled_N),
        (sim.scheduled_N, sim.first_token_N),
        (sim.first_token_N, finished),
    ):
        assert (before[done] <= after[done]).all()
    drafts = limits.draft_tokens
    tokens = rows["isl"] + rows["osl"] + drafts
    room = limits.kv_blocks * limits.block_size
    if limits.rules == "vllm":
        tokens += drafts - 1
    if limits.rules == "sglang":
        tokens += 1 + drafts if drafts and limits.async_scheduling else 0
        room -= limits.block_size + 1
    fits = (rows["isl"] > 0) & (rows["osl"] > 0) & (tokens <= room)
    if limits.rules != "sglang" or not limits.async_scheduling:
        assert sim.gaps_G.sum() == (rows["osl"] - 1)[done].sum()
    assert (sim.lost_N[sim.preempted_N == 0] == 0).all()
    fits &= limits.chunked_prefill | (rows["isl"] <= limits.max_num_batched_tokens)
    assert (fits == done).all()


def test_tokens_are_neither_lost_nor_made() -> None:
    # one sequence at a time: steps are its chunks of 8 tokens, then one for each later token
    draw = np.random.default_rng(6)
    isl_N, osl_N = draw.integers(1, 100, 500), draw.integers(1, 100, 500)
    requests = plain_requests(np.zeros(500, np.int64), isl_N, osl_N)
    outcome = run(requests, flat_prices(10, 100), SchedulerLimits(1, 8, 16, 100))
    assert outcome.steps == (-(-isl_N // 8) + osl_N - 1).sum()
    assert outcome.finished_N.max() == (100 * -(-isl_N // 8) + 10 * (osl_N - 1)).sum()


def test_same_seed_same_bytes() -> None:
    draw = np.random.default_rng(7)
    limits = SchedulerLimits(4, 16, 4, 30, prefix_caching=True)
    requests = random_requests(draw, 60, 40)
    prices = random_prices(draw, limits)
    replicas = Replicas(3, 1, "random", seed=5)
    first, again = (run(requests, prices, limits, replicas) for _ in range(2))
    for name in first._fields[:7]:
        assert getattr(first, name).tobytes() == getattr(again, name).tobytes()
