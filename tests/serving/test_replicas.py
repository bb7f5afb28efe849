"""Routing, closed loops, sessions, ranks and overlapped host work, computed by hand.

A step that only decodes takes 10 ps, one with prompts 100 ps.
"""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving import config
from perfatlas.serving.outcome import tail_parts
from perfatlas.serving.run import run_fleet
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import flat_prices, in_sessions, requests_of

FLAT = flat_prices(10, 100)
ROOMY = config.SchedulerLimits(8, 64, 4, 100)
BOTH = pytest.mark.parametrize("control", [config.Control(), config.Control(coalesce=False)])


def test_round_robin_counts_accepted_requests() -> None:
    requests = requests_of([(0, 4, 2), (1, 4, 0), (2, 4, 2), (3, 4, 2)])
    outcome = run(requests, FLAT, ROOMY, config.Replicas(2))
    assert outcome.replica_N.tolist() == [0, -1, 1, 0]


@BOTH
def test_the_least_loaded_replica_takes_the_next(control: config.Control) -> None:
    # A ends at 110, B at 1090. C at 50 finds one on each: 0, whose turn it is after 1. D at 60 then
    # takes the other, E at 500 finds 0 and 2, F at 500 1 and 2, G 2 and 2: 1, after 0.
    rows = [(0, 4, 2), (0, 4, 100), (50, 4, 2), (60, 4, 100), (500, 4, 9), (500, 4, 9), (500, 4, 9)]
    outcome = run(
        requests_of(rows), FLAT, ROOMY, config.Replicas(2, 1, "least_loaded"), control=control
    )
    assert outcome.replica_N.tolist() == [0, 1, 0, 1, 0, 0, 1]


def test_random_routing_is_seeded_and_even() -> None:
    requests = requests_of([(1000 * i, 4, 1) for i in range(4000)])
    first = run(requests, FLAT, ROOMY, config.Replicas(4, 1, "random", seed=7))
    again = run(requests, FLAT, ROOMY, config.Replicas(4, 1, "random", seed=7))
    other = run(requests, FLAT, ROOMY, config.Replicas(4, 1, "random", seed=8))
    assert first.replica_N.tobytes() == again.replica_N.tobytes()
    assert first.replica_N.tobytes() != other.replica_N.tobytes()
    counts = np.bincount(first.replica_N)
    # binomial of 4,000 and 1/4: 1,000 with a standard deviation of 27.4; four of them
    assert abs(counts - 1000).max() < 110


@BOTH
def test_a_closed_loop_issues_when_one_finishes(control: config.Control) -> None:
    # two at a time: A 0-100 and 0-110; C follows A at 100 in the step of 100 with B's second token
    requests = requests_of([(0, 4, 1), (0, 4, 2), (0, 4, 1), (450, 4, 1)])
    outcome = run(requests, FLAT, ROOMY, concurrency=2, control=control)
    assert outcome.arrival_N.tolist() == [0, 0, 100, 450]
    assert outcome.finished_N.tolist() == [100, 200, 200, 550]


@BOTH
def test_a_turn_follows_the_last_token_of_the_turn_before(control: config.Control) -> None:
    # turns: A to 110, thinks 0: B 110-210; thinks 1000: C 1210-1310
    requests = requests_of([(0, 4, 2), (0, 4, 1), (0, 4, 1)])
    requests = in_sessions(requests, [5, 5, 5], [-1, 0, 1000])
    outcome = run(requests, FLAT, ROOMY, control=control)
    assert outcome.arrival_N.tolist() == [0, 110, 1210]
    assert outcome.finished_N.tolist() == [110, 210, 1310]


def test_a_session_keeps_its_place_in_a_closed_loop() -> None:
    # one at a time: both turns of the session, then the next request
    requests = requests_of([(0, 4, 1), (0, 4, 1), (0, 4, 1)])
    requests = in_sessions(requests, [0, 0, -1], [-1, 30, -1])
    outcome = run(requests, FLAT, ROOMY, concurrency=1)
    assert outcome.arrival_N.tolist() == [0, 130, 230]


@BOTH
def test_ranks_step_together_and_wait_for_the_longest(control: config.Control) -> None:
    # 1 ps per token of a step with prompts. A goes to rank 0, B (4 waiting there) to rank 1.
    #   0-130  A 10 tokens, B 30: max(110, 130)
    # 130-140  both decode
    requests = requests_of([(0, 10, 2), (0, 30, 2)])
    prices = flat_prices(10, 100, per_token=1)
    outcome = run(requests, prices, ROOMY, config.Replicas(1, 2), control=control)
    assert outcome.first_token_N.tolist() == [130, 130]
    assert outcome.finished_N.tolist() == [140, 140]
    assert outcome.steps == 2


@BOTH
def test_ranks_take_four_waiting_for_one_running(control: config.Control) -> None:
    # one sequence runs per rank: A and B. C waits at rank 0, of equals; D finds 4 + 1 there and 1
    # at rank 1.
    requests = requests_of([(0, 4, 50), (0, 4, 50), (1, 4, 1), (2, 4, 1)])
    outcome = run(
        requests,
        FLAT,
        config.SchedulerLimits(1, 64, 4, 100),
        config.Replicas(1, 2),
        control=control,
    )
    # ranks of one engine share its index; both queues drain after the 50th tokens at 100 + 490
    assert outcome.replica_N.tolist() == [0, 0, 0, 0]
    assert outcome.scheduled_N.tolist() == [0, 0, 590, 590]


@pytest.mark.parametrize(("overlapped", "decode"), [(False, 10 + 12), (True, 12)])
@BOTH
def test_overlapped_host_work_shows_where_it_is_longer(
    control: config.Control, *, overlapped: bool, decode: int
) -> None:
    # host 12: of a prompt step of 100 it shows as 112 or 100, of a decode step of 10 as 22 or 12
    requests = requests_of([(0, 4, 11)])
    prices = FLAT._replace(host_step=12, host_overlapped=overlapped)
    outcome = run(requests, prices, ROOMY, control=control)
    assert outcome.first_token_N.tolist() == [100 if overlapped else 112]
    assert outcome.finished_N[0] == outcome.first_token_N[0] + 10 * decode


@BOTH
def test_a_step_costs_what_its_tables_say(control: config.Control) -> None:
    # decode: 10 linear + 1 sampled x 3 + cell of the context + 2 host
    #   first token at prompt 4: 100 + 3 + chunk 4 of 64 -> (512 + 128) x 4 / 64 = 40, + 2 + 5
    #   contexts 5, 6 in the cell of 0: 7 + 1 x keys; 7, 8 in that of 7: 30 + 4 x (keys - 7)
    cells = np.array([[7, 30]] * 65)
    prices = FLAT._replace(
        head_B=3 * np.arange(65),
        context_K=np.array([0, 7]),
        decode_base_BK=cells,
        decode_slope_BK=np.array([[1, 4]] * 65),
        queries_Q=np.array([0, 64]),
        before_P=np.array([0, 1000]),
        prefill_added_QP=np.array([[0, 0], [512, 512]]),
        prefill_last_QP=np.array([[0, 0], [128, 128]]),
        host_step=1,
        host_sequence=1,
        host_prefill=5,
    )
    outcome = run(requests_of([(0, 4, 5)]), prices, ROOMY, control=control)
    first = 100 + 3 + 40 + 2 + 5
    steps = [10 + 3 + 2 + attention for attention in (7 + 5, 7 + 6, 30, 30 + 4)]
    assert outcome.first_token_N.tolist() == [first]
    assert outcome.finished_N.tolist() == [first + sum(steps)]


@BOTH
def test_kinds_of_engines_take_the_time_and_the_cache_they_have(control: config.Control) -> None:
    # Engine 0: steps of 100 and 10 ps, one sequence at a time. Engines 1 and 2: of 40 and 4 ps.
    # In turn A 0, B 1, C 2, D 0, E 1, 11 tokens each. A ends at 200, then D runs to 400. B has four
    # tokens by 52, when E of 50 starts beside it: one at 92, six more by 116. E: 92, then 40.
    slow = config.ReplicaGroup(FLAT, ROOMY._replace(max_num_seqs=1))
    fast = config.ReplicaGroup(flat_prices(4, 40), ROOMY._replace(kv_blocks=8, block_size=8), 2)
    rows = [(0, 4, 11), (0, 4, 11), (0, 4, 11), (0, 4, 11), (50, 4, 11)]
    outcome = run_fleet(requests_of(rows), config.EngineFleet((slow, fast)), control=control)
    assert outcome.replica_N.tolist() == [0, 1, 2, 0, 1]
    assert outcome.first_token_N.tolist() == [100, 40, 40, 300, 92]
    assert outcome.finished_N.tolist() == [200, 116, 80, 400, 132]


def test_a_request_that_one_kind_could_never_run_is_rejected() -> None:
    small = config.ReplicaGroup(FLAT, ROOMY._replace(kv_blocks=2))
    outcome = run_fleet(
        requests_of([(0, 9, 1), (0, 4, 1)]),
        config.EngineFleet((config.ReplicaGroup(FLAT, ROOMY), small)),
    )
    assert outcome.replica_N.tolist() == [-1, 0]


def test_a_fleet_has_as_many_kinds_as_the_loop_is_compiled_for() -> None:
    requests = requests_of([(0, 4, 2)] * config.MAX_ENGINE_TYPES)
    groups = (config.ReplicaGroup(FLAT, ROOMY),) * config.MAX_ENGINE_TYPES
    assert run_fleet(requests, config.EngineFleet(groups)).replica_N.tolist() == list(
        range(config.MAX_ENGINE_TYPES)
    )
    with pytest.raises(InvalidSpecError, match=r"17 engine types.*16"):
        run_fleet(requests, config.EngineFleet((*groups, groups[0])))


def test_the_tail_counts_a_prompt_by_the_prices_of_its_kind() -> None:
    fast, slow = config.ReplicaGroup(flat_prices(4, 40), ROOMY), config.ReplicaGroup(FLAT, ROOMY)
    requests = requests_of([(0, 4, 1), (0, 4, 1)])
    for groups in ((fast, slow), (slow, fast)):
        outcome = run_fleet(requests, config.EngineFleet(groups))
        parts = tail_parts(requests, outcome, groups)["tail_ttft_s"]
        assert parts["prompt"] == pytest.approx(100e-12)
        assert parts["shared"] == pytest.approx(0.0, abs=1e-18)
