"""Failing, draining and recovering replicas, computed by hand.

A step that only decodes takes 10 ps, one with prompts 100 ps.
"""

from __future__ import annotations

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving import config
from perfatlas.serving.outcome import request_columns, summarize, tail_parts
from perfatlas.serving.requests import Requests
from perfatlas.serving.run import run_fleet
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import flat_prices, requests_of, with_prompts

FLAT = flat_prices(10, 100)
ROOMY = config.SchedulerLimits(8, 64, 4, 100)
BOTH = pytest.mark.parametrize("control", [config.Control(), config.Control(coalesce=False)])


def _failing(
    *outages: config.Outage, number: int = 2, lost: bool = False, retry_after: int = 0
) -> config.Replicas:
    availability = config.Availability(outages, "lost" if lost else "retry", retry_after)
    return config.Replicas(number, availability=availability)


def _equal_steps(requests: Requests, block: int = 4) -> Requests:
    """Return requests with equal prompts."""
    blocks = -(-requests.isl_N // block)
    return with_prompts(requests, [range(count) for count in blocks], block)


@BOTH
def test_requests_of_a_replica_that_fails_start_over_at_another(control: config.Control) -> None:
    # A and C run on 0, B on 1: prompts 0-100, then a token every 10. 0 fails at 125, in the step to
    # 130: A and C have 4 tokens each by then. Both go to 1 at 130 and run their prompts to 230,
    # where B, with 4 tokens too, gets its fifth. D of 150 goes to 1, as 0 does not serve, and runs
    # from 230 to 330. B ends 14 steps later, A and C with 2 tokens after 18, D after 2.
    rows = [(0, 4, 20), (0, 4, 20), (0, 4, 20), (150, 4, 3)]
    outcome = run(
        requests_of(rows), FLAT, ROOMY, _failing(config.Outage(0, 125, 400)), control=control
    )
    assert outcome.replica_N.tolist() == [1, 1, 1, 1]
    assert outcome.first_token_N.tolist() == [230, 100, 230, 330]
    assert outcome.finished_N.tolist() == [510, 470, 510, 350]
    assert outcome.operated.again_N.tolist() == [130, -1, 130, -1]
    assert outcome.operated.wasted == 8
    # 0 was held to 125 and from 400 to the end at 510
    assert outcome.operated.allocated_F.tolist() == [235, 510]
    # gaps: those of whole answers, and the 3 between the first 4 tokens of A and C
    assert outcome.gaps_G.sum() == 3 * 19 + 2 + 2 * 3


@BOTH
def test_a_step_scheduled_ahead_ends_too_and_what_would_follow_does_not(
    control: config.Control,
) -> None:
    # as above; but what is sent again at 130 finds the step of replica 1 to 140 decided, and D that
    # to 340
    rows = [(0, 4, 20), (0, 4, 20), (0, 4, 20), (150, 4, 3)]
    limits = ROOMY._replace(async_scheduling=True)
    outcome = run(
        requests_of(rows), FLAT, limits, _failing(config.Outage(0, 125, 400)), control=control
    )
    assert outcome.operated.again_N.tolist() == [130, -1, 130, -1]
    assert outcome.first_token_N.tolist() == [240, 100, 240, 350]
    assert outcome.finished_N.tolist() == [520, 470, 520, 370]


@BOTH
def test_a_replica_failing_between_steps_fails_at_once(control: config.Control) -> None:
    # the step to 120 ends first, at 120 the failure strikes: two tokens after the first
    outcome = run(
        requests_of([(0, 4, 20)]),
        FLAT,
        ROOMY,
        _failing(config.Outage(0, 120, 400)),
        control=control,
    )
    assert outcome.operated.again_N.tolist() == [120]
    assert outcome.operated.wasted == 3
    assert outcome.finished_N.tolist() == [120 + 100 + 190]


@BOTH
def test_without_serving_replicas_requests_wait_at_the_router(control: config.Control) -> None:
    # A has its last token at 100, when the failure of 50 takes effect; B waits since 60, C since 70
    limits = ROOMY._replace(max_num_batched_tokens=8)
    rows = [(0, 4, 1), (60, 4, 1), (70, 4, 1)]
    replicas = _failing(config.Outage(0, 50, 1000), number=1)
    outcome = run(requests_of(rows), FLAT, limits, replicas, control=control)
    assert outcome.arrival_N.tolist() == [0, 60, 70]
    assert outcome.finished_N.tolist() == [100, 1100, 1100]
    assert outcome.operated.tries_N.tolist() == [0, 0, 0]
    # with another token to come A waits since 100; at 1000 the first of them go first, and 8
    # tokens fill a step
    longer = run(requests_of([(0, 4, 2), *rows[1:]]), FLAT, limits, replicas, control=control)
    assert longer.operated.tries_N.tolist() == [1, 0, 0]
    assert longer.first_token_N.tolist() == [1100, 1100, 1200]


@BOTH
def test_a_request_that_is_lost_lets_the_next_one_come(control: config.Control) -> None:
    # one at a time on two replicas in turn: A on 0 fails at 130, B starts on 1 then
    requests = requests_of([(0, 4, 20), (0, 4, 2), (0, 4, 2)])
    outcome = run(
        requests,
        FLAT,
        ROOMY,
        _failing(config.Outage(0, 125, 5000), lost=True),
        concurrency=1,
        control=control,
    )
    assert outcome.arrival_N.tolist() == [0, 130, 240]
    assert outcome.finished_N.tolist() == [-1, 240, 350]
    assert outcome.replica_N.tolist() == [0, 1, 1]
    assert outcome.operated.lost_N.tolist() == [True, False, False]
    assert request_columns(requests, outcome)["state"] == ["lost", "completed", "completed"]
    found = summarize(requests, outcome, {"ttft_s": 1.0})
    assert (found["requests_completed"], found["requests_rejected"]) == (2, 0)
    assert found["slo_attainment"] == pytest.approx(2 / 3)


def test_a_retried_request_waits_for_retry_after() -> None:
    replicas = _failing(config.Outage(0, 120, 400), retry_after=1000)
    outcome = run(requests_of([(0, 4, 20)]), FLAT, ROOMY, replicas)
    assert outcome.operated.again_N.tolist() == [1120]
    assert outcome.finished_N.tolist() == [1120 + 290]


def test_requests_are_unserved_if_no_replica_recovers() -> None:
    requests = requests_of([(0, 4, 5), (200, 4, 5), (200, 5000, 5)])
    outcome = run(requests, FLAT, ROOMY, _failing(config.Outage(0, 120), number=1))
    assert outcome.finished_N.tolist() == [-1, -1, -1]
    assert outcome.unserved().tolist() == [True, True, False]
    states = request_columns(requests, outcome)["state"]
    assert states == ["waiting", "waiting", "rejected"]
    assert summarize(requests, outcome, {"ttft_s": 1.0})["slo_attainment"] == 0.0
    assert config.Outage(0, 120).end == config.FOREVER


@BOTH
def test_a_draining_replica_finishes_its_requests_and_recovers_cold(
    control: config.Control,
) -> None:
    # A on 0 ends at 190 though 0 takes nothing from 105 on: B and C go to 1. B runs 110-210 and C
    # then finds A's prompt, the same, in neither cache; D at 1000 goes to 0, in turn, and finds
    # nothing there: its cache is new.
    limits = ROOMY._replace(prefix_caching=True)
    requests = _equal_steps(requests_of([(0, 8, 10), (110, 8, 2), (120, 8, 2), (1000, 8, 2)]))
    replicas = _failing(config.Outage(0, 105, 1000, drain=True))
    outcome = run(requests, FLAT, limits, replicas, control=control)
    assert outcome.replica_N.tolist() == [0, 1, 1, 0]
    assert outcome.finished_N.tolist() == [190, 310, 320, 1110]
    assert outcome.cached_N.tolist() == [0, 0, 4, 0]
    warm = run(requests, FLAT, limits, config.Replicas(2), control=control)
    assert warm.replica_N.tolist() == [0, 1, 0, 1]
    assert warm.cached_N.tolist() == [0, 0, 4, 4]


@BOTH
def test_what_a_drain_has_left_is_cut_off_when_it_ends(control: config.Control) -> None:
    # A has 3 tokens at 120 and ends then; it is sent again, to 0 itself: the other's turn comes
    # after that of 0, which serves again at once
    replicas = _failing(config.Outage(0, 105, 115, drain=True), number=1)
    outcome = run(requests_of([(0, 4, 10)]), FLAT, ROOMY, replicas, control=control)
    assert outcome.operated.again_N.tolist() == [120]
    assert outcome.operated.wasted == 3
    assert outcome.finished_N.tolist() == [120 + 100 + 90]


def test_a_router_forgets_what_a_failing_replica_got() -> None:
    # all prompts are alike: A to 0, then D beside it. 0 fails at 105, both start over on 1, which
    # is known for the prompt from then on, though 0 is back at 300 and idle
    requests = _equal_steps(requests_of([(0, 8, 5), (50, 8, 5), (1000, 8, 1), (2000, 8, 1)]))
    replicas = config.Replicas(
        2,
        1,
        "prefix_aware",
        affinity=config.Affinity(0.5),
        availability=config.Availability((config.Outage(0, 105, 300),)),
    )
    outcome = run(requests, FLAT, ROOMY._replace(prefix_caching=True), replicas)
    assert outcome.replica_N.tolist() == [1, 1, 1, 1]


def test_the_tail_tells_what_was_lost_with_a_replica() -> None:
    # sent again at 130 ps, scheduled at once: no time in the queue, 130 in the try that failed
    requests = requests_of([(0, 4, 20)])
    outcome = run(requests, FLAT, ROOMY, _failing(config.Outage(0, 125, 400)))
    parts = tail_parts(requests, outcome, [config.ReplicaGroup(FLAT, ROOMY, 2)])["tail_ttft_s"]
    assert parts["failure"] == pytest.approx(130e-12)
    assert parts["queue"] == pytest.approx(0.0, abs=1e-15)
    assert sum(parts.values()) == pytest.approx(230e-12)
    assert "failure" not in tail_parts(
        requests, run(requests, FLAT, ROOMY), [config.ReplicaGroup(FLAT, ROOMY)]
    )


def _scaled(scaler: config.Scaler) -> config.Availability:
    return config.Availability(scalers=(scaler,))


@pytest.mark.parametrize(
    ("availability", "said"),
    [
        (
            config.Availability((config.Outage(7, 0, 10),)),
            "replica 7: replicas are numbered",
        ),
        (config.Availability((config.Outage(-1, 0, 10),)), "replica -1"),
        (
            config.Availability((config.Outage(1, 20, 10),)),
            "replica 1 fails at 2e-11 s and recovers at 1e-11 s",
        ),
        (config.Availability((config.Outage(1, -5, 10),)), "fails at -5e-12 s"),
        (
            config.Availability((config.Outage(1, 0, 10), config.Outage(1, 5, 20))),
            "during an outage that starts at 0 s",
        ),
        (config.Availability((config.Outage(1, 0), config.Outage(1, 5, 20))), "without recovery"),
        (config.Availability(on_failure="resume"), "on_failure 'resume' is unknown"),
        (config.Availability(retry_after=-1), "retry_after is -1e-12 s"),
        (
            _scaled(config.Scaler(0, 1, 2.0)),
            "minimum 0, initial 1 and maximum 4",
        ),
        (
            _scaled(config.Scaler(2, 5, 2.0)),
            "minimum 2, initial 5 and maximum 4",
        ),
        (_scaled(config.Scaler(1, 1, 0.0)), "target is 0.0"),
        (_scaled(config.Scaler(1, 1, float("nan"))), "target is nan"),
        (
            _scaled(config.Scaler(1, 1, 2.0, tolerance=1.0)),
            "tolerance is 1.0",
        ),
        (_scaled(config.Scaler(1, 1, 2.0, period=0)), "period is 0 s"),
        (
            _scaled(config.Scaler(1, 1, 2.0, start_up=-1)),
            "start_up is -1e-12 s",
        ),
        (
            _scaled(config.Scaler(1, 1, 2.0, period=1, stable=10**9)),
            "use a longer period",
        ),
    ],
)
def test_contradictions_are_refused(availability: config.Availability, said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        run(requests_of([(0, 4, 1)]), FLAT, ROOMY, config.Replicas(4, availability=availability))


def test_the_pool_whose_replica_fails_starts_over() -> None:
    # prompts take 100 ps on the prefill replica; the only decode replica fails while it decodes
    requests = requests_of([(0, 4, 3)])
    pools = tuple(config.ReplicaGroup(FLAT, ROOMY, role=role) for role in ("prefill", "decode"))
    outage = config.Availability((config.Outage(1, 105, 500),))
    outcome = run_fleet(requests, config.EngineFleet(pools, availability=outage))
    whole = run_fleet(requests, config.EngineFleet(pools))
    assert outcome.operated.tries_N.tolist() == [1]
    assert outcome.operated.again_N.tolist() == [110]  # the end of its step
    assert whole.finished_N.tolist() == [120]
    assert outcome.finished_N.tolist() == [520]  # the prompt again, then as the replica returns
