"""Laws of conservation over random combinations of everything that a simulation can have.

The event loop runs in the interpreter, as each combination would take seconds to compile.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from perfatlas.serving.config import Availability, EngineFleet
from perfatlas.serving.run import run_fleet
from tests.serving.interpreted import interpreted_groups
from tests.serving.serving_support import random_fleet, random_pools, random_prices, random_requests
from tests.serving.test_reference import MANY, with_tiers
from tests.serving.test_upkeep_reference import random_outages, random_scaler


def random_service(draw: np.random.Generator) -> EngineFleet:
    """One pool or two, each with stages, drafts and tiers or without, failing, scaled, or both."""
    fleet = random_pools(draw) if draw.random() < 0.5 else random_fleet(draw)
    groups = []
    for group in fleet.groups:
        limits = group.limits
        if group.role != "decode" and draw.random() < 0.5:
            limits = with_tiers(draw, limits, 1)
        layers: tuple[int, ...] = ()
        if draw.random() < 0.4:
            layers = tuple(int(draw.integers(1, 4)) for _ in range(int(draw.integers(2, 4))))
            limits = limits._replace(async_scheduling=False)
        prices = random_prices(draw, limits)
        groups.append(group._replace(limits=limits, prices=prices, stage_layers=layers))
    replicas = sum(group.number for group in groups)
    changes = Availability()
    if draw.random() < 0.6:
        changes = random_outages(draw, replicas, int(draw.choice([50, 1000, 20_000])))
    if draw.random() < 0.5:
        scalers = [random_scaler(draw, group.number).scalers[0] for group in groups]
        changes = changes._replace(scalers=tuple(scalers))
    return fleet._replace(groups=tuple(groups), availability=changes)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=2 * MANY)
def test_whatever_is_combined_nothing_is_lost_or_made(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fleet = random_service(draw)
    least = min(group.limits.kv_blocks * group.limits.block_size for group in fleet.groups)
    requests = random_requests(draw, int(draw.choice([3, 12, 30])), max(2, min(least // 3, 60)))
    with np.errstate(over="ignore"):  # hashes of blocks wrap around
        sims = interpreted_groups(requests, fleet, int(draw.choice([0, 0, 3, 9])))
    sim = sims[0]
    came, done = sim.came_N >= 0, sim.finished_N >= 0
    lost = sim.fault_N["fate"] > 0 if fleet.availability.varies else came & (sim.replica_N < 0)
    assert not (done & lost).any()
    left = came & ~done & ~lost  # no replica was in service any more
    waiting = sim.door_P["waiting"]
    stuck = len(waiting) > 1 and waiting[1] > 0  # prompts keep their blocks until one decodes
    assert left.sum() == waiting.sum() or (stuck and left.sum() > waiting.sum())
    assert sim.clock_1["left"][0] == requests.isl_N.size - done.sum() - lost.sum()
    for before, after in (
        (sim.came_N, sim.scheduled_N),
        (sim.scheduled_N, sim.first_token_N),
        (sim.first_token_N, sim.finished_N),
    ):
        assert (before[done] <= after[done]).all()
    sending = 0
    for group, own in zip(fleet.groups, sims, strict=True):
        if group.role == "prefill" and stuck:
            continue
        schedulers = own.scheduler_S
        sending += own.replica_R["sending"].sum()
        for name in (
            "running",
            "waiting",
            "unread",
            "decoding",
            "context",
            "heap",
            "away",
            "ready",
        ):
            assert (schedulers[name] == 0).all(), name
        assert (own.replica_R["load"] == 0).all()
        owners = group.number * group.ranks
        each = group.limits.kv_blocks * group.number * group.ranks
        assert schedulers["free"].sum() == each
        if own.reserves_blocks:
            assert schedulers["spare"].sum() == each
        assert (own.block_SK["references"] == 0).all()
        assert (own.growth_SB == 0).all()
        tiers = own.tier_W
        assert tiers.size == 2 * owners + 1
        assert (tiers["entered"] - tiers["left"] == tiers["blocks"]).all()
        assert (tiers["blocks"] <= tiers["capacity"]).all()
        for kind in (slice(0, -1, 2), slice(1, -1, 2), slice(-1, None)):
            of_kind = tiers[kind]
            assert of_kind["entered"].sum() > 0 or of_kind["loaded"].sum() == 0
    assert sending == 0


@given(seed=st.integers(0, 2**32))
@settings(max_examples=3)
def test_compiled_and_interpreted_loops_agree(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fleet = random_service(draw)
    least = min(group.limits.kv_blocks * group.limits.block_size for group in fleet.groups)
    requests = random_requests(draw, 20, max(2, min(least // 3, 60)))
    with np.errstate(over="ignore"):
        sim = interpreted_groups(requests, fleet)[0]
    assert run_fleet(requests, fleet).finished_N.tolist() == sim.finished_N.tolist()
