from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from perfatlas.serving.config import Control, EngineFleet, Link, SchedulerLimits
from perfatlas.serving.outcome import Offloaded
from perfatlas.serving.run import run_fleet
from tests.serving.reference_engine import Simulation
from tests.serving.serving_support import random_fleet, random_pools, random_requests, scaled

SCALE = 3_000_000
MOVES = ("host_move", "ssd_move", "remote_move", "remote_share", "remote_latency")
MANY = settings().max_examples  # of a profile: `explore` draws twenty times as many
COLUMNS = (
    *("arrival", "scheduled", "first_token", "finished", "replica", "preempted", "cached"),
    *("interference", "lost"),
)


def slower(link: Link) -> Link:
    times, per_token = (tuple(each * SCALE for each in part) for part in link[1:])
    return Link(link.borders, times, per_token)


def compare(draw: np.random.Generator, fleet: EngineFleet) -> None:
    least = min(group.limits.kv_blocks * group.limits.block_size for group in fleet.groups)
    longest = max(2, least // int(draw.choice([2, 4, 8])))
    count = int(draw.choice([1, 5, 20, 40, 80]))
    requests = random_requests(draw, count, min(longest, 100))
    concurrency = int(draw.choice([0, 0, 1, 3, 12, 70]))
    if draw.random() < 0.3:  # times as long as real ones
        requests = requests._replace(
            arrival_N=requests.arrival_N * SCALE,
            pause_N=np.where(requests.pause_N > 0, requests.pause_N * SCALE, requests.pause_N),
        )
        groups = [group._replace(prices=scaled(group.prices, SCALE)) for group in fleet.groups]
        groups = [group._replace(link=slower(group.link)) for group in groups]
        groups = [
            group._replace(
                limits=group.limits._replace(
                    **{name: getattr(group.limits, name) * SCALE for name in MOVES}
                )
            )
            for group in groups
        ]
        fleet = fleet._replace(groups=tuple(groups), latency=fleet.latency * SCALE)
    slow = Simulation(requests, fleet, concurrency).run()
    for coalesce in (True, False):
        fast = run_fleet(
            requests, fleet, concurrency=concurrency, control=Control(coalesce=coalesce)
        )
        for name in COLUMNS:
            expected = [getattr(sequence, name) for sequence in slow.sequences]
            assert getattr(fast, f"{name}_N").tolist() == expected, (name, coalesce)
        for name, travels in fast.travels._asdict().items():
            asked = {"replica_N": "decoded_at"}.get(name, name.removesuffix("_N"))
            if travels.size:
                assert travels.tolist() == [getattr(one, asked) for one in slow.sequences], name
        assert fast.steps == slow.steps
        assert fast.steps_F.tolist() == [replica.steps for replica in slow.replicas]
        assert fast.busy_F.tolist() == [replica.busy for replica in slow.replicas]
        assert fast.gaps_G.tolist() == slow.gaps
        _compare_tiers(fast.offloaded, slow)
        assert fast.preemptions == sum(sequence.preempted for sequence in slow.sequences)


def _compare_tiers(fast: Offloaded, slow: Simulation) -> None:
    tiers = [
        rank.tiers for replica in slow.replicas for rank in replica.ranks if rank.limits.offloads
    ]
    columns = {"from_host": "host_N", "from_ssd": "ssd_N", "from_remote": "remote_N"}
    for name, column in {**columns, "moved": "moved_N"}.items():
        expected = [getattr(one, name) for one in slow.sequences] if tiers else []
        assert getattr(fast, column).tolist() == expected, name
    kinds = [
        {id(tier): tier for one in tiers for tier in [getattr(one, name)]}.values()
        for name in ("host", "ssd", "remote")
    ]
    for name in ("loaded", "entered", "left"):
        expected = [sum(getattr(one, name) for one in kind) for kind in kinds]
        assert getattr(fast, f"{name}_3").tolist() == expected, name
    assert fast.held_3.tolist() == [sum(len(one.keys) for one in kind) for kind in kinds]
    assert (fast.entered_3 - fast.left_3 == fast.held_3).all()
    assert fast.stored == sum(one.stored for one in tiers)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=MANY)
def test_every_request_fares_as_in_the_slow_simulation(seed: int) -> None:
    draw = np.random.default_rng(seed)
    compare(draw, random_fleet(draw, groups=int(draw.choice([1, 1, 2]))))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=MANY)
def test_two_pools_serve_as_in_the_slow_simulation(seed: int) -> None:
    draw = np.random.default_rng(seed)
    compare(draw, random_pools(draw))


def with_tiers(
    draw: np.random.Generator, limits: SchedulerLimits, replicas: int
) -> SchedulerLimits:
    """Up to three tiers that are smaller than, equal to or larger than the GPU.

    There is a remote pool where one replica has it: which of several comes first at one time is not
    comparable.
    """
    rooms = (0, 1, limits.kv_blocks // 2, limits.kv_blocks, 4 * limits.kv_blocks, 100_000)
    host, ssd = (int(draw.choice(rooms)) for _ in range(2))
    return limits._replace(
        prefix_caching=True,
        host_blocks=max(host, 1 - min(ssd, 1)),
        ssd_blocks=ssd,
        remote_blocks=int(draw.choice([0, 0, *rooms])) if replicas == 1 else 0,
        host_move=int(draw.choice([0, 1, 20, 300])),
        ssd_move=int(draw.choice([0, 3, 100])),
        remote_move=int(draw.choice([0, 3, 100])),
        remote_share=int(draw.choice([0, 3, 100])),
        remote_latency=int(draw.choice([0, 50])),
        stores_evicted=bool(draw.integers(2)),
        store_waits=bool(draw.integers(2)),
        load_layers=int(draw.choice([0, 1, 7])),
    )


@given(seed=st.integers(0, 2**32))
@settings(max_examples=MANY)
def test_tiers_below_the_gpu_serve_as_in_the_slow_simulation(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fleet = random_fleet(draw, groups=int(draw.choice([1, 1, 2])))
    groups = [
        group._replace(limits=with_tiers(draw, group.limits, group.number))
        for group in fleet.groups
    ]
    compare(draw, fleet._replace(groups=tuple(groups)))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=MANY)
def test_tiers_of_prefill_engines_serve_as_in_the_slow_simulation(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fleet = random_pools(draw)
    prefill = fleet.groups[0]._replace(
        limits=with_tiers(draw, fleet.groups[0].limits, fleet.groups[0].number)
    )
    compare(draw, fleet._replace(groups=(prefill, fleet.groups[1])))
