"""Routers of the caller: functions that choose the replica of every request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.config import (
    Availability,
    EngineFleet,
    Outage,
    ReplicaGroup,
    SchedulerLimits,
)
from perfatlas.serving.run import ArrivingRequest, ReplicaLoads, run_fleet
from perfatlas.verbs.simulate import simulate
from tests.serving.serving_support import flat_prices, random_fleet, random_requests, requests_of
from tests.serving.test_reference import COLUMNS, MANY

ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct", "system": "h200_sxm", "dp": 2, "isl": 64,
    "osl": 16, "request_rate": 50, "num_requests": 300,
}  # fmt: skip


@given(seed=st.integers(0, 2**32))
@settings(max_examples=MANY)
def test_a_function_that_takes_turns_is_round_robin(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fleet = random_fleet(draw, groups=int(draw.choice([1, 2])))._replace(routing="round_robin")
    least = min(group.limits.kv_blocks * group.limits.block_size for group in fleet.groups)
    requests = random_requests(draw, 30, max(2, least // 3))
    number = sum(group.number for group in fleet.groups)
    turns: list[int] = []

    def take_turns(request: ArrivingRequest, loads: ReplicaLoads) -> int:
        assert loads.in_service.all()
        assert loads.requests.size == number
        assert (loads.waiting <= loads.requests).all()
        assert ((loads.kv_used >= 0) & (loads.kv_used <= 1)).all()
        assert request.isl == requests.isl_N[request.request]
        turns.append(request.request)
        return (len(turns) - 1) % number

    built_in = run_fleet(requests, fleet)
    own = run_fleet(requests, fleet._replace(router=take_turns))
    for name in COLUMNS:
        assert getattr(own, f"{name}_N").tolist() == getattr(built_in, f"{name}_N").tolist()
    assert len(turns) == len(set(turns))


def test_a_function_admits_requests() -> None:
    # 8 requests at once, of which the function admits the first three that find a free replica
    group = ReplicaGroup(flat_prices(10, 100), SchedulerLimits(4, 64, 4, 50), 3)

    def idle_or_none(_: ArrivingRequest, loads: ReplicaLoads) -> int:
        return -1 if loads.requests.all() else int(loads.requests.argmin())

    fleet = EngineFleet((group,), router=idle_or_none)
    outcome = run_fleet(requests_of([(0, 1, 1)] * 8), fleet)
    assert (outcome.finished_N >= 0).tolist() == [True] * 3 + [False] * 5


def test_a_function_cannot_choose_what_is_not_there() -> None:
    group = ReplicaGroup(flat_prices(10, 100), SchedulerLimits(4, 64, 4, 50), 2)
    down = Availability(outages=(Outage(1, 0, -1),))
    fleet = EngineFleet((group,), router=lambda *_: 1, availability=down)
    with pytest.raises(InvalidSpecError, match="replica 1 for request 0, which is not in service"):
        run_fleet(requests_of([(5, 1, 1)]), fleet)
    with pytest.raises(InvalidSpecError, match=r"returned 2 for request 0; .* 0 to 1, or -1"):
        simulate(**ASKED, router=lambda *_: 2)
    with pytest.raises(InvalidSpecError, match="returned True for request 0"):
        simulate(**ASKED, router=lambda *_: True)
    with pytest.raises(InvalidSpecError, match="router = 'x': expected a function"):
        simulate(**{**ASKED, "router": "x"})
    with pytest.raises(InvalidSpecError, match="routing = random has no effect beside a router"):
        simulate(**ASKED, routing="random", router=lambda *_: 0)


class _Remembering:
    """Sends every request to the replica of the one before, from 0."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, request: ArrivingRequest, loads: ReplicaLoads) -> int:
        assert request.request not in self.seen  # of another run
        self.seen.append(request.request)
        return len(self.seen) % loads.requests.size


def test_each_run_has_a_router_without_memory() -> None:
    router = _Remembering()
    found = simulate(**ASKED, router=router).answer.results
    assert found["requests_completed"] == 300
    assert router.seen == []


def test_a_router_of_the_caller_is_told() -> None:
    found = simulate(**ASKED, router=lambda _, loads: int(loads.requests.argmin())).answer
    assert found.results["requests_completed"] == 300
    assert "requests are routed by a function of the caller" in " ".join(found.evidence.assumptions)
    most = simulate(**ASKED, router=lambda request, _: 0 if request.request % 2 else -1).answer
    assert most.results["requests_rejected"] == 150
    assert "150 requests were rejected by the router" in " ".join(most.warnings)
