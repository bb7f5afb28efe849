"""Outages and autoscaling compared with the reference simulation in all fields."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from perfatlas.serving.config import FOREVER, Availability, Control, EngineFleet, Outage, Scaler
from perfatlas.serving.requests import Requests
from perfatlas.serving.run import run_fleet
from tests.serving.reference_upkeep import ChangingSimulation
from tests.serving.serving_support import random_fleet, random_requests
from tests.serving.test_reference import COLUMNS, MANY


def random_outages(draw: np.random.Generator, replicas: int, span: int) -> Availability:
    """Up to three outages per replica, some permanent, some shorter than a step."""
    outages = []
    for replica in range(replicas):
        time = 0
        for _ in range(int(draw.integers(0, 4))):
            start = time + int(draw.integers(0, max(span, 2)))
            end = start + int(draw.choice([1, 20, 300, max(span, 2)]))
            if draw.random() < 0.1:
                end = FOREVER
            outages.append(Outage(replica, start, end, bool(draw.random() < 0.4)))
            if end == FOREVER:
                break
            time = end
    return Availability(
        tuple(outages),
        on_failure=str(draw.choice(["retry", "lost"])),
        retry_after=int(draw.choice([0, 0, 50])),
    )


def random_scaler(draw: np.random.Generator, replicas: int) -> Availability:
    """An autoscaler that syncs every few steps."""
    low = int(draw.integers(1, replicas + 1))
    scaler = Scaler(
        low=low,
        initial=int(draw.integers(low, replicas + 1)),
        target=float(draw.choice([0.5, 1.0, 2.5, 8.0])),
        queue_only=bool(draw.random() < 0.4),
        period=int(draw.choice([100, 300, 2000])),
        tolerance=float(draw.choice([0.0, 0.1, 0.5])),
        stable=int(draw.choice([0, 300, 600, 5000])),
        start_up=int(draw.choice([0, 1, 75, 1500])),
    )
    return Availability(scalers=(scaler,))


def random_scenario(
    draw: np.random.Generator, *, scales: bool
) -> tuple[Requests, EngineFleet, int]:
    """Requests, engines with outages or autoscaling, and the concurrency of a closed loop."""
    fleet = random_fleet(draw, groups=int(draw.choice([1, 1, 2])))
    if scales:
        groups = tuple(group._replace(number=group.number + 2) for group in fleet.groups)
        fleet = fleet._replace(groups=groups)
    least = min(group.limits.kv_blocks * group.limits.block_size for group in fleet.groups)
    longest = min(max(2, least // int(draw.choice([2, 4, 8]))), 100)
    requests = random_requests(draw, int(draw.choice([1, 5, 20, 40, 80])), longest)
    replicas = sum(group.number for group in fleet.groups)
    span = int(requests.arrival_N.max(initial=0)) + 500
    availability = random_scaler(draw, replicas) if scales else random_outages(draw, replicas, span)
    return requests, fleet._replace(availability=availability), int(draw.choice([0, 0, 1, 3, 12]))


def _compare(requests: Requests, fleet: EngineFleet, concurrency: int) -> None:
    slow = ChangingSimulation(requests, fleet, concurrency).run()
    for coalesce in (True, False):
        control = Control(coalesce=coalesce)
        fast = run_fleet(requests, fleet, concurrency=concurrency, control=control)
        for name in COLUMNS:
            expected = np.array([getattr(one, name) for one in slow.sequences])
            if name == "interference":
                expected = np.where(fast.finished_N >= 0, expected, 0)
            assert getattr(fast, f"{name}_N").tolist() == expected.tolist(), (name, coalesce)
        if fleet.availability.varies:
            assert fast.operated.again_N.tolist() == slow.again
            assert fast.operated.tries_N.tolist() == slow.tries
            assert np.flatnonzero(fast.operated.lost_N).tolist() == sorted(slow.lost)
            assert np.flatnonzero(fast.operated.rejected_N).tolist() == sorted(slow.rejected)
            assert fast.operated.allocated_F.tolist() == slow.held
            assert fast.operated.wasted == slow.wasted
        assert fast.steps == slow.steps
        assert fast.gaps_G.tolist() == slow.gaps
        assert fast.preemptions == sum(one.preempted for one in slow.sequences)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=MANY)
def test_failing_replicas_serve_as_in_the_slow_simulation(seed: int) -> None:
    _compare(*random_scenario(np.random.default_rng(seed), scales=False))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=MANY // 2)  # the slow simulation of these takes twice as long
def test_scaled_replicas_serve_as_in_the_slow_simulation(seed: int) -> None:
    _compare(*random_scenario(np.random.default_rng(seed), scales=True))
