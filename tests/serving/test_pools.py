"""Prefill and decode pools, computed by hand, and conservation of requests and blocks.

A step of a decode engine takes 10 ps, one of a prefill engine 100. The KV cache of a token takes
5 ps over the link of a decode engine and 2 over that of a prefill engine, plus a latency of 7 ps.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.serving.config import Control, EngineFleet, Link, ReplicaGroup, SchedulerLimits
from perfatlas.serving.engine import advance
from perfatlas.serving.run import run_fleet
from perfatlas.serving.run.initial_state import initial_states
from perfatlas.serving.run.simulate import LAST_TICK
from tests.serving.serving_support import flat_prices, random_pools, random_requests, requests_of

ROOMY = SchedulerLimits(8, 64, 4, 100)
PREFILL = ReplicaGroup(flat_prices(10, 100), ROOMY, role="prefill", link=Link(per_token=(2,)))
DECODE = ReplicaGroup(flat_prices(10, 100), ROOMY, role="decode", link=Link(per_token=(5,)))
POOLS = EngineFleet((PREFILL, DECODE), latency=7)
BOTH = pytest.mark.parametrize("control", [Control(), Control(coalesce=False)])


@pytest.mark.parametrize(
    ("first_from", "first", "finished"),
    [("prefill", 100, 147), ("arrival", 127, 147), ("recomputed", 137, 157)],
)
@BOTH
def test_a_cache_travels_and_its_request_goes_on(
    control: Control, first_from: str, first: int, finished: int
) -> None:
    # prompt 0-100, 4 tokens x 5 ps to 120, there at 127; two more tokens, or three
    fleet = POOLS._replace(first_from=first_from)
    outcome = run_fleet(requests_of([(0, 4, 3)]), fleet, control=control)
    assert outcome.travels.handed_N.tolist() == [100]
    assert outcome.travels.arrived_N.tolist() == [127]
    assert outcome.travels.resumed_N.tolist() == [127]
    assert outcome.first_token_N.tolist() == [first]
    assert outcome.finished_N.tolist() == [finished]
    assert (outcome.replica_N[0], outcome.travels.replica_N[0]) == (0, 1)


@BOTH
def test_finding_4_a_transfer_takes_what_its_own_length_has(control: Control) -> None:
    # A state takes 30 ps whatever the prompt, layers with a window 6 ps for each of the first 4
    # tokens, others 1 ps for every token: 30 + 7 x 2 for 2 tokens, 30 + 7 x 4 + 1 x 6 for 10. The
    # line of the prefill side, 9 ps for a token, is above it for 10 alone: 18 and 90.
    bent = Link((0, 4), (30, 58), (7, 1))
    fleet = POOLS._replace(
        groups=(
            PREFILL._replace(number=2, link=Link(per_token=(9,))),
            DECODE._replace(number=2, link=bent),
        )
    )
    outcome = run_fleet(requests_of([(0, 2, 2), (0, 10, 2)]), fleet, control=control)
    assert outcome.travels.arrived_N.tolist() == [100 + 44 + 7, 100 + 90 + 7]


@BOTH
def test_transfers_of_a_link_follow_each_other(control: Control) -> None:
    # Prompts of 4 and 8 tokens end at 100 at two prefill engines. The decode engine's link is busy
    # to 120 with A and to 160 with B, which are there at 127 and 167. A decodes from 127; B joins
    # at the border of 167.
    fleet = POOLS._replace(groups=(PREFILL._replace(number=2), DECODE))
    outcome = run_fleet(requests_of([(0, 4, 8), (0, 8, 3)]), fleet, control=control)
    assert outcome.replica_N.tolist() == [0, 1]
    assert outcome.travels.arrived_N.tolist() == [127, 167]
    assert outcome.travels.resumed_N.tolist() == [127, 167]
    assert outcome.finished_N.tolist() == [197, 187]


@BOTH
def test_blocks_are_held_on_both_sides_until_the_cache_is_there(control: Control) -> None:
    # The prefill engine has two blocks of 4. A of 8 tokens ends its prompt at 100, its cache is
    # there at 147; only then are there blocks for B, which is there 147 ps later, at 294.
    small = ROOMY._replace(kv_blocks=2)
    fleet = POOLS._replace(groups=(PREFILL._replace(limits=small), DECODE))
    outcome = run_fleet(requests_of([(0, 8, 2), (0, 8, 2)]), fleet, control=control)
    assert outcome.scheduled_N.tolist() == [0, 147]
    assert outcome.finished_N.tolist() == [157, 304]
    # The decode engine has three. Both prompts end at 100; A takes two blocks, and the third when
    # it decodes, from 147 to 187. Then B finds them free, and is there 47 ps later.
    tight = DECODE._replace(limits=ROOMY._replace(kv_blocks=3))
    fleet = POOLS._replace(groups=(PREFILL, tight))
    outcome = run_fleet(requests_of([(0, 8, 5), (0, 8, 2)]), fleet, control=control)
    assert outcome.travels.arrived_N.tolist() == [147, 234]
    assert outcome.finished_N.tolist() == [187, 244]


@BOTH
def test_a_single_token_needs_no_decode_engine_where_the_prefill_engine_gives_it(
    control: Control,
) -> None:
    outcome = run_fleet(requests_of([(0, 4, 1)]), POOLS, control=control)
    assert outcome.finished_N.tolist() == [100]
    assert outcome.travels.handed_N.tolist() == [-1]
    late = run_fleet(
        requests_of([(0, 4, 1)]), POOLS._replace(first_from="arrival"), control=control
    )
    assert late.finished_N.tolist() == [127]


def test_a_closed_loop_goes_on_when_the_last_token_is_there() -> None:
    outcome = run_fleet(requests_of([(0, 4, 3), (0, 4, 3)]), POOLS, concurrency=1)
    assert outcome.arrival_N.tolist() == [0, 147]
    assert outcome.finished_N.tolist() == [147, 294]


@given(seed=st.integers(0, 2**32))
def test_blocks_of_both_pools_come_back(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fleet = random_pools(draw)
    least = min(group.limits.kv_blocks * group.limits.block_size for group in fleet.groups)
    requests = random_requests(draw, 40, min(least // 3 + 2, 100))
    sims = initial_states(requests, fleet, concurrency=int(draw.choice([0, 4])), control=Control())
    while advance(sims, 10, LAST_TICK) == 0:
        pass
    for sim, group in zip(sims, fleet.groups, strict=True):
        schedulers = sim.scheduler_S
        assert (schedulers["free"] == group.limits.kv_blocks).all()
        if group.limits.rules == "trtllm_guaranteed_no_evict":
            assert (schedulers["spare"] == group.limits.kv_blocks).all()
        names = ("running", "waiting", "decoding", "context", "heap", "away", "arrived", "ready")
        for name in (*names, "retracted"):
            assert (schedulers[name] == 0).all(), name
        assert (sim.growth_SB == 0).all()
        assert (sim.block_SK["references"] == 0).all()
        assert (sim.replica_R["load"] == 0).all()
    (first, _) = sims
    assert first.clock_1["left"][0] == 0
    done = first.finished_N >= 0
    assert (done == (first.replica_N >= 0)).all()
    assert (first.request_N["osl"][done] >= 1).all()
    went = first.travel_N["handed"] >= 0
    # SGLang drops a token of a sequence that is retracted while a step runs
    dropped = first.gaps_G.sum() - (requests.osl_N - 1)[done].sum()
    drops = fleet.groups[1].limits.rules == "sglang"
    assert 0 <= dropped <= (first.preempted_N.sum() if drops else 0)
    for before, after in (("handed", "arrived"), ("arrived", "resumed")):
        assert (first.travel_N[before][went] <= first.travel_N[after][went]).all()
    assert (first.travel_N["resumed"][went] <= first.finished_N[went]).all()


SGLANG = ROOMY._replace(rules="sglang", reserved_decode_tokens=1)


def test_sglang_takes_a_cache_where_the_longest_running_could_still_end() -> None:
    # Two requests of 8 tokens in and 8 out, 6 blocks of 4. Both prompts end at 100; A is there at
    # 147. B needs max(2 x 4 + 1, 16 - (8 + g)) = 9 tokens, g those that A has given, of the 12 that
    # are free less max(1, 16 - (8 + g)): from g = 5 on, at 187. Its 8 x 5 + 7 ps end at 234.
    decode = DECODE._replace(limits=SGLANG._replace(kv_blocks=6))
    fleet = POOLS._replace(groups=(PREFILL._replace(number=2), decode), first_from="arrival")
    outcome = run_fleet(requests_of([(0, 8, 8), (0, 8, 8)]), fleet)
    assert outcome.travels.arrived_N.tolist() == [147, 234]
    assert outcome.first_token_N.tolist() == [147, 234]
    assert outcome.finished_N.tolist() == [217, 304]


@pytest.mark.parametrize(("interval", "resumed"), [(1, 217), (5, 247)])
def test_sglang_decode_engines_receive_at_an_interval(interval: int, resumed: int) -> None:
    # A is there at 147 and decodes 10 ps a step; B's prompt ends at 160. It is received at the next
    # step, 167, or after five that decode, 197; its cache takes 47 ps and joins at the next step.
    decode = DECODE._replace(limits=SGLANG._replace(scheduler_recv_interval=interval))
    fleet = POOLS._replace(groups=(PREFILL._replace(number=2), decode), first_from="arrival")
    outcome = run_fleet(requests_of([(0, 8, 30), (60, 8, 2)]), fleet)
    assert outcome.travels.resumed_N.tolist() == [147, resumed]


def test_sglang_keeps_the_caches_of_sequences_it_retracts() -> None:
    decode = DECODE._replace(limits=SGLANG._replace(kv_blocks=20))
    fleet = POOLS._replace(groups=(PREFILL._replace(number=3), decode), first_from="arrival")
    outcome = run_fleet(requests_of([(0, 4, 50)] * 12), fleet)
    assert outcome.preempted_N.sum() > 0
    assert (outcome.finished_N > 0).all()
    # every step decodes: no prompt is computed again, and no token given twice
    assert outcome.busy_F[3] == 10 * outcome.steps_F[3]
    assert outcome.gaps_G.sum() == 12 * 49


def test_a_link_that_takes_longer_than_the_clock_is_refused() -> None:
    slow = DECODE._replace(link=Link(per_token=(10**15,)))
    with pytest.raises(InvalidSpecError, match="a faster link"):
        run_fleet(requests_of([(0, 4, 2)]), POOLS._replace(groups=(PREFILL, slow)))


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (Link((1,), (0,), (1,)), "ascending from 0"),
        (Link((0, 4, 4), (0, 4, 4), (1, 1, 1)), "ascending from 0"),
        (Link((0,), (), (1,)), "ascending from 0"),
        (Link((0, 4), (0, 4), (1, -1)), "link of engine type 0 is -1"),
    ],
)
def test_an_invalid_link_is_refused(link: Link, said: str) -> None:
    fleet = POOLS._replace(groups=(PREFILL._replace(link=link), DECODE))
    with pytest.raises(InvalidSpecError, match=said):
        run_fleet(requests_of([(0, 4, 2)]), fleet)


def test_invalid_roles_of_pools_are_refused() -> None:
    requests = requests_of([(0, 4, 2)])
    with pytest.raises(InvalidSpecError, match="either all are both"):
        run_fleet(requests, POOLS._replace(groups=(DECODE, PREFILL)))
    with pytest.raises(InvalidSpecError, match="either all are both"):
        run_fleet(requests, POOLS._replace(groups=(PREFILL,)))
    with pytest.raises(InvalidSpecError, match="first_from"):
        run_fleet(requests, POOLS._replace(first_from="late"))
    sglang = ROOMY._replace(rules="sglang")
    for limits, match in (
        (
            ROOMY._replace(rules="trtllm_max_utilization"),
            "trtllm_max_utilization does not support role decode",
        ),
        (sglang._replace(scheduler_recv_interval=0), "scheduler_recv_interval"),
        (sglang._replace(reserved_decode_tokens=0), "reserved_decode_tokens is 0"),
    ):
        decode = DECODE._replace(limits=limits)
        with pytest.raises((UnsupportedError, InvalidSpecError), match=match):
            run_fleet(requests, POOLS._replace(groups=(PREFILL, decode)))
