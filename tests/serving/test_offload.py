"""KV cache offloading, computed by hand and checked by laws.

A step takes 10 ps where it only decodes, else 100 ps + 1 ps per token; a block of 4 tokens takes
7 ps between GPU and host, and 50 ps from the SSD.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.serving.config import (
    Availability,
    Control,
    EngineFleet,
    Outage,
    ReplicaGroup,
    SchedulerLimits,
)
from perfatlas.serving.outcome import Outcome
from perfatlas.serving.requests import Requests
from perfatlas.serving.run import run_fleet
from perfatlas.serving.run.simulate import run
from tests.serving.interpreted import interpreted_groups
from tests.serving.serving_support import (
    flat_prices,
    in_sessions,
    random_prices,
    random_requests,
    requests_of,
    with_prompts,
)
from tests.serving.support import hit_share
from tests.serving.test_reference import COLUMNS

PRICES = flat_prices(10, 100, per_token=1)
BOTH = pytest.mark.parametrize("control", [Control(), Control(coalesce=False)])
# of 9, 13 and 13 tokens; the third begins as the first does
ROWS = [(0, 9, 1), (1000, 13, 1), (2000, 13, 1)]
HASHES = [[1, 2, 3], [11, 12, 13, 14], [1, 2, 8, 9]]


def _requests(rows: list[tuple[int, int, int]], hashes: list[list[int]]) -> Requests:
    return with_prompts(requests_of(rows), hashes, 4)


def _limits(kv_blocks: int, **tiers: int) -> SchedulerLimits:
    asked: dict[str, Any] = {"host_move": 7, "ssd_move": 50, **tiers}
    return SchedulerLimits(4, 64, 4, kv_blocks, prefix_caching=True, **asked)


@BOTH
def test_what_the_gpu_evicts_is_loaded_from_the_host(control: Control) -> None:
    # 4 blocks on the GPU. A computes 9 tokens and stores 2 full blocks: 109 + 14. B takes all 4:
    # 113 + 21. C finds A's two in host memory alone: 5 tokens, 2 loads, 1 store: 105 + 21
    requests = _requests(ROWS, HASHES)
    outcome = run(requests, PRICES, _limits(4, host_blocks=100), control=control)
    assert outcome.finished_N.tolist() == [123, 1134, 2126]
    assert outcome.cached_N.tolist() == outcome.offloaded.host_N.tolist() == [0, 0, 8]
    assert outcome.offloaded.moved_N.tolist() == [14, 21, 21]
    assert outcome.offloaded.stored == 6
    assert outcome.offloaded.loaded_3.tolist() == [2, 0, 0]
    assert outcome.offloaded.entered_3.tolist() == outcome.offloaded.held_3.tolist() == [6, 0, 0]


@BOTH
def test_replicas_share_a_remote_pool_and_its_links(control: Control) -> None:
    # A computes 13 tokens on replica 0 and stores 3 blocks: 113 + 21. B and C, with its prompt, go
    # to the other two at 1000: each loads 3 blocks to the GPU (21) and computes 1 token (101). The
    # NICs of each take 3 x 5 and the links of the pool 3 x 20, one after the other, beside 9
    rows = [(0, 13, 1), (1000, 13, 1), (1000, 13, 1)]
    limits = _limits(50, remote_blocks=100, remote_move=5, remote_share=20, remote_latency=9)
    fleet = EngineFleet((ReplicaGroup(PRICES, limits, number=3),), "round_robin")
    requests = _requests(rows, [[1, 2, 3, 4]] * 3)
    outcome = run_fleet(requests, fleet, control=control)
    assert outcome.offloaded.remote_N.tolist() == [0, 12, 12]
    assert sorted(outcome.offloaded.moved_N.tolist()) == [21, 60 + 9 + 21, 120 + 9 + 21]
    assert outcome.offloaded.loaded_3.tolist() == [0, 0, 6]
    assert outcome.offloaded.held_3.tolist() == [0, 0, 3]


@given(seed=st.integers(0, 2**32))
def test_loads_that_evict_what_is_loaded_leave_all_tiers_in_order(seed: int) -> None:
    draw = np.random.default_rng(seed)
    families = [[100 * one + block for block in range(8)] for one in range(3)]
    sizes = draw.integers(2, 9, 25)
    picks = [families[one] for one in draw.integers(3, size=25)]
    rows = [(1000 * n, 4 * int(size) + 1, 1) for n, size in enumerate(sizes)]
    hashes = [
        [*one[:size], 10_000 + n] for n, (one, size) in enumerate(zip(picks, sizes, strict=True))
    ]
    limits = _limits(
        10, host_blocks=2, ssd_blocks=3, remote_blocks=5, remote_share=20, stores_evicted=True
    )
    fleet = EngineFleet((ReplicaGroup(PRICES, limits, number=1),))
    with np.errstate(over="ignore"):
        (sim,) = interpreted_groups(_requests(rows, hashes), fleet)
    for tier in sim.tier_W:
        k, seen = int(tier["newest"]), 0
        while k >= 0 and seen <= tier["blocks"]:
            k, seen = int(sim.tier_block_K[tier["first"] + k]["before"]), seen + 1
        assert seen == tier["blocks"] <= tier["capacity"]
    outcome = run_fleet(_requests(rows, hashes), fleet)
    assert outcome.offloaded.loaded_3.tolist() == sim.tier_W["loaded"].tolist()


@BOTH
def test_what_the_host_evicts_is_loaded_from_the_ssd(control: Control) -> None:
    # the host holds two blocks, B's last full ones when C comes. C: 105 + 2 x 57 + 7
    requests = _requests(ROWS, HASHES)
    outcome = run(requests, PRICES, _limits(4, host_blocks=2, ssd_blocks=100), control=control)
    assert outcome.finished_N.tolist() == [123, 1134, 2226]
    assert outcome.offloaded.host_N.tolist() == [0, 0, 0]
    assert outcome.offloaded.ssd_N.tolist() == [0, 0, 8]
    # A's 2, B's 3, the 2 loaded on their way, C's 1; the SSD got no block twice
    assert outcome.offloaded.entered_3.tolist() == [8, 6, 0]
    assert outcome.offloaded.left_3.tolist() == [6, 0, 0]
    assert outcome.offloaded.held_3.tolist() == [2, 6, 0]


def test_copies_delay_concurrent_decodes() -> None:
    # 5 blocks. B's 16 tokens fill four and leave A's first. D comes last before C and takes it: 101
    # ps from 1980. Then D decodes in C's step: 5 + 1 tokens, 2 loads, 1 store: 106 + 21, not 10
    rows = [ROWS[0], (1000, 16, 1), (1980, 1, 2), ROWS[2]]
    requests = _requests(rows, [*HASHES[:2], [30], HASHES[2]])
    outcome = run(requests, PRICES, _limits(5, host_blocks=100))
    assert outcome.offloaded.loaded_3.tolist() == [2, 0, 0]
    assert outcome.finished_N.tolist() == [123, 1144, 2208, 2208]
    assert outcome.interference_N.tolist() == [0, 0, 117, 0]


def test_a_beginning_outlives_its_end() -> None:
    # 3 blocks on the GPU and in host memory. A leaves 1 2; D, A again, renews 1 and computes 2,
    # which stays as old as it was: 2 1. E stores 21 and 22 and gives up 2 alone: F finds 1.
    rows = [(0, 8, 1), (1000, 8, 1), (2000, 9, 1), (3000, 9, 1)]
    hashes = [[1, 2], [1, 2], [21, 22, 23], [1, 2, 3]]
    outcome = run(_requests(rows, hashes), PRICES, _limits(3, host_blocks=3))
    assert outcome.cached_N.tolist() == [0, 4, 0, 4]
    assert outcome.offloaded.host_N.tolist() == [0, 0, 0, 4]


def _equal(one: Outcome, other: Outcome) -> None:
    for name in COLUMNS:
        assert (getattr(one, f"{name}_N") == getattr(other, f"{name}_N")).all(), name
    assert (one.gaps_G == other.gaps_G).all()
    assert one.steps == other.steps
    assert one.busy_F.tolist() == other.busy_F.tolist()


def _alone(draw: np.random.Generator) -> tuple[Requests, SchedulerLimits]:
    """Requests that run one at a time and each fit the GPU."""
    size = int(draw.choice([1, 2, 4, 8]))
    limits = SchedulerLimits(
        1, 16 + size, size, int(draw.integers(60, 80)) // size + 1, prefix_caching=True
    )
    requests = random_requests(draw, 40, 30)
    # answers, which turns find again on the GPU, are not kept below it
    return in_sessions(requests, [-1] * 40, [-1] * 40), limits


@given(seed=st.integers(0, 2**32))
def test_endless_tiers_without_delay_are_a_gpu_that_forgets_nothing(seed: int) -> None:
    draw = np.random.default_rng(seed)
    requests, limits = _alone(draw)
    prices = random_prices(draw, limits)
    tier: dict[str, Any] = {str(draw.choice(["host_blocks", "ssd_blocks"])): 10**6}
    below = run(requests, prices, limits._replace(**tier))
    endless = run(requests, prices, limits._replace(kv_blocks=10_000))
    _equal(below, endless)
    every = int((requests.isl_N // limits.block_size).sum())
    assert 0 <= below.offloaded.held_3.max() <= every


@given(seed=st.integers(0, 2**32))
def test_tiers_of_a_gpu_that_evicts_nothing_find_nothing_more(seed: int) -> None:
    draw = np.random.default_rng(seed)
    limits = SchedulerLimits(
        8, 64, 4, 10_000, prefix_caching=True, async_scheduling=bool(draw.integers(2))
    )
    requests = random_requests(draw, 60, 60)
    prices = random_prices(draw, limits)
    tiers = limits._replace(host_blocks=int(draw.integers(1, 50)), ssd_blocks=500)
    below, without = (run(requests, prices, one) for one in (tiers, limits))
    _equal(below, without)
    assert below.offloaded.loaded_3.tolist() == [0, 0, 0]
    assert without.offloaded.host_N.size == 0


def test_an_endless_host_finds_what_was_ever_there() -> None:
    # prompts of whole blocks and one token, so that all full blocks of a prompt may be found
    draw = np.random.default_rng(8)
    families = draw.integers(0, 6, 80)
    hashes = [
        [100 * int(family) + b for b in range(5)] + [1000 + 10 * i + b for b in range(3)]
        for i, family in enumerate(families)
    ]
    requests = _requests([(500 * i, 29, 1) for i in range(80)], hashes)
    outcome = run(requests, PRICES, _limits(9, host_blocks=10**6))
    assert outcome.cached_N.sum() / requests.isl_N.sum() == pytest.approx(hit_share(requests))
    assert outcome.offloaded.host_N.sum() > 0


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"prefix_caching": False}, InvalidSpecError, "requires prefix_caching"),
        ({"ssd_blocks": -1}, InvalidSpecError, "ssd_blocks is -1"),
        ({"host_move": 10**17}, InvalidSpecError, "host_move is 100000000000000000 ps"),
    ],
)
def test_options_not_supported_with_tiers(
    changes: dict[str, Any], error: type[Exception], said: str
) -> None:
    limits = _limits(20, host_blocks=8)._replace(**changes)
    with pytest.raises(error, match=said):
        run(_requests(ROWS, HASHES), PRICES, limits)


def test_decode_engines_have_no_tiers() -> None:
    requests, limits = _requests(ROWS, HASHES), _limits(20, host_blocks=8)
    pools = tuple(ReplicaGroup(PRICES, limits, role=role) for role in ("prefill", "decode"))
    with pytest.raises(UnsupportedError, match="decode engines load no KV cache"):
        run_fleet(requests, EngineFleet(pools))


def test_a_replica_that_fails_loses_its_tiers() -> None:
    # one prompt three times: the second finds its blocks, the third comes after the failure
    rows = [(0, 29, 1), (500, 29, 1), (1500, 29, 1)]
    requests = _requests(rows, [[0, 1, 2, 3, 4, 5, 6, 7]] * 3)
    outage = Availability((Outage(0, 1000, 1200),))
    fleet = EngineFleet((ReplicaGroup(PRICES, _limits(9, host_blocks=100)),), availability=outage)
    assert run_fleet(requests, fleet).cached_N.tolist() == [0, 28, 0]


def test_what_the_gpu_evicted_follows_what_it_kept() -> None:
    # A of 7 blocks, B of 4 on a GPU of 9: the tail of A is evicted, its head is still there
    rows = [(0, 29, 1), (1000, 17, 1), (2000, 29, 1)]
    hashes = [[*range(8)], [*range(20, 25)], [*range(8)]]
    limits = _limits(9, host_blocks=100)._replace(
        rules="trtllm_guaranteed_no_evict", stores_evicted=True, store_waits=False
    )
    outcome = run(_requests(rows, hashes), PRICES, limits)
    assert outcome.offloaded.host_N[2] > 0
    assert outcome.cached_N[2] == 28
