"""Autoscaling, computed by hand, and conservation of requests and blocks.

A step that only decodes takes 10 ps, one with prompts 100 ps. The autoscaler aims at 2 requests of
a replica, looks every 50 ps and keeps what was wanted for 300; a replica starts in 100.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.serving.config import Availability, Control, Replicas, Scaler, SchedulerLimits
from perfatlas.serving.engine import advance
from perfatlas.serving.run.initial_state import initial_states
from perfatlas.serving.run.simulate import LAST_TICK, run
from perfatlas.serving.state import SimulationState
from tests.serving.serving_support import flat_prices, requests_of
from tests.serving.test_upkeep_reference import random_scenario

FLAT = flat_prices(10, 100)
ROOMY = SchedulerLimits(8, 64, 4, 2000)
SCALER = Scaler(1, 1, 2.0, period=50, stable=300, start_up=100)
BOTH = pytest.mark.parametrize("control", [Control(), Control(coalesce=False)])


def _scaled(number: int, scaler: Scaler = SCALER) -> Replicas:
    return Replicas(number, availability=Availability(scalers=(scaler,)))


@BOTH
def test_replicas_start_when_the_load_asks_and_stop_when_it_has_not_for_long(
    control: Control,
) -> None:
    # Six requests on replica 0 are 6 / 2 = 3 replicas, asked for at 50: two start and serve at 150.
    # At 100 and later 6 / (2 x 3) = 1 asks for no more. Of 160, G goes to 1 and H to 2, in turn.
    # The six end at 100 + 199 x 10 = 2090. At 2100 none is wanted, but 3 were at 2050; at 2350
    # that is 300 ago: 2 and 1, idle, are gone. Z comes at 4000.
    rows = [(0, 4, 200)] * 6 + [(160, 4, 11), (160, 4, 11), (4000, 4, 1)]
    outcome = run(requests_of(rows), FLAT, ROOMY, _scaled(3), control=control)
    assert outcome.replica_N.tolist() == [0] * 6 + [1, 2, 0]
    assert outcome.finished_N.tolist() == [2090] * 6 + [360, 360, 4100]
    assert outcome.operated.allocated_F.tolist() == [4100, 2350 - 50, 2350 - 50]


@BOTH
def test_a_replica_that_stops_ends_its_requests(control: Control) -> None:
    # Two replicas at first, A and C on 0, B and D on 1: 4 / (2 x 2) = 1. A, B and C end at 100,
    # then D alone runs to 2090; 1 / 2 asks for one replica. 2 were wanted at 50 and at 100 (at that
    # instant steps end first: 1 / (2 x 2) wants 1): at 350 replica 1, the last, drains, and is
    # gone at 2090. E of 400 goes to 0 in turn, F of 600 as well.
    rows = [(0, 4, 1), (0, 4, 1), (0, 4, 1), (0, 4, 200), (400, 4, 1), (600, 4, 1), (3000, 4, 1)]
    scaler = SCALER._replace(initial=2)
    outcome = run(requests_of(rows), FLAT, ROOMY, _scaled(2, scaler), control=control)
    assert outcome.replica_N.tolist() == [0, 1, 0, 1, 0, 0, 0]
    assert outcome.finished_N.tolist() == [100, 100, 100, 2090, 500, 700, 3100]
    assert outcome.operated.allocated_F.tolist() == [3100, 2090]


def test_at_most_four_or_as_many_again_start_at_once() -> None:
    # 40 requests on one replica ask for 20: 1 + 4 = 5 at 50, 10 at 100, 20 at 150
    # until all end at 100 + 99 x 10
    limits = ROOMY._replace(max_num_seqs=40, max_num_batched_tokens=512)
    outcome = run(requests_of([(0, 4, 100)] * 40), FLAT, limits, _scaled(30))
    started = [0] + [50] * 4 + [100] * 5 + [150] * 10
    held = [1090 - start for start in started] + [0] * 10
    assert outcome.operated.allocated_F.tolist() == held


def test_a_deviation_within_the_tolerance_changes_nothing() -> None:
    # 11 requests on 5 replicas of 2 are 1.1 of the target, 12 are 1.2
    for count, held in ((11, 5), (12, 6)):
        scaler = SCALER._replace(initial=5, tolerance=0.11)
        outcome = run(requests_of([(0, 4, 30)] * count), FLAT, ROOMY, _scaled(9, scaler))
        assert np.count_nonzero(outcome.operated.allocated_F) == held


def test_only_waiting_requests_may_count() -> None:
    # one sequence runs at a time: of 5 on one replica 4 wait, which is 2 replicas
    scaler = SCALER._replace(queue_only=True, start_up=0)
    limits = ROOMY._replace(max_num_seqs=1)
    outcome = run(requests_of([(0, 4, 3)] * 5), FLAT, limits, _scaled(9, scaler))
    assert np.count_nonzero(outcome.operated.allocated_F) == 2


@given(seed=st.integers(0, 2**32), scales=st.booleans())
def test_nothing_is_lost_or_made_while_replicas_change(seed: int, scales: bool) -> None:  # noqa: FBT001
    draw = np.random.default_rng(seed)
    requests, fleet, concurrency = random_scenario(draw, scales=scales)
    concurrency = min(concurrency, requests.isl_N.shape[0])
    sims = initial_states(requests, fleet, concurrency=concurrency, control=Control())
    while advance(sims, 10, LAST_TICK) == 0:
        pass
    first = sims[0]
    for sim, group in zip(sims, fleet.groups, strict=True):
        assert (sim.scheduler_S["free"] == group.limits.kv_blocks).all()
        if group.limits.rules in ("trtllm_guaranteed_no_evict", "static"):
            assert (sim.scheduler_S["spare"] == group.limits.kv_blocks).all()
        for name in ("running", "waiting", "unread", "decoding", "context", "heap"):
            assert (sim.scheduler_S[name] == 0).all(), name
        assert (sim.growth_SB == 0).all()
        assert (sim.block_SK["references"] == 0).all()
        assert (sim.replica_R["load"] == 0).all()
        _check_names(sim)
    if not fleet.availability.varies:
        return
    done = first.finished_N >= 0
    rejected, lost = (first.fault_N["fate"] == fate for fate in (1, 2))
    left = (first.came_N >= 0) & ~(done | rejected | lost)
    # every request has one fate; who has come and is left waits at the router
    assert (done.astype(int) + rejected + lost <= 1).all()
    assert left.sum() == first.door_P["waiting"].sum()
    came = (first.came_N >= 0).sum()
    assert came == (done | rejected | lost | left).sum()
    assert first.clock_1["left"][0] == requests.isl_N.shape[0] - (done | rejected | lost).sum()
    whole = (requests.osl_N - 1)[done].sum()
    ahead = any(k.limits.rules == "sglang" and k.limits.async_scheduling for k in fleet.groups)
    if not ahead:  # gaps between tokens: of whole answers, and of those that broke off
        assert whole <= first.gaps_G.sum() <= whole + first.clock_1["wasted"][0]
    assert (first.replica_F["allocated"] <= first.clock_1["now"][0]).all()
    for before, after in (
        (first.came_N, first.scheduled_N),
        (first.scheduled_N, first.first_token_N),
        (first.first_token_N, first.finished_N),
    ):
        assert (before[done] <= after[done]).all()


def _check_names(sim: SimulationState) -> None:
    """Assert that exactly the cached blocks are found in their buckets."""
    for s in range(sim.scheduler_S.shape[0]):
        known = np.flatnonzero(sim.block_SK["hashed"][s])
        chained = []
        for head in sim.bucket_SU["head"][s]:
            block = int(head) - 1
            while block >= 0:
                chained.append(block)
                block = int(sim.block_SK["chain_after"][s, block])
        assert sorted(chained) == known.tolist()
