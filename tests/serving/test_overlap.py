"""Asynchronous scheduling compared with synchronous scheduling, computed by hand.

A decode-only step takes 10 ps, one with prompts 100 ps.
"""

from __future__ import annotations

import pytest

from perfatlas.serving.config import Control, SchedulerLimits
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import flat_prices, requests_of

FLAT = flat_prices(10, 100)
AHEAD = SchedulerLimits(4, 64, 4, 100, async_scheduling=True)
BOTH = pytest.mark.parametrize("control", [Control(), Control(coalesce=False)])


@pytest.mark.parametrize(("ahead", "scheduled"), [(False, [0, 110, 210]), (True, [0, 120, 230])])
@BOTH
def test_an_arrival_joins_the_step_after_the_next(
    control: Control, *, ahead: bool, scheduled: list[int]
) -> None:
    # ahead: B comes in the step of 100-110, when that of 110-120 is decided; at 110 that of 120 is.
    # C comes in that one, 120-220; at 220 the step of 230 is decided.
    # in turn: B in the step of 110; C at 121 in that of 210
    requests = requests_of([(0, 4, 90), (105, 4, 1), (121, 4, 1)])
    limits = AHEAD._replace(async_scheduling=ahead)
    outcome = run(requests, FLAT, limits, control=control)
    assert outcome.scheduled_N.tolist() == scheduled
    assert outcome.first_token_N.tolist() == [time + 100 for time in scheduled]


@pytest.mark.parametrize(("ahead", "scheduled"), [(False, 110), (True, 120)])
@BOTH
def test_a_slot_is_free_one_step_after_its_last_token(
    control: Control, *, ahead: bool, scheduled: int
) -> None:
    # two slots. A ends at 110. The step of 110-120, decided at 100, leaves A out but has no slot
    # for C; that of 120 has.
    requests = requests_of([(0, 4, 2), (0, 4, 90), (0, 4, 1)])
    limits = AHEAD._replace(max_num_seqs=2, async_scheduling=ahead)
    outcome = run(requests, FLAT, limits, control=control)
    assert outcome.finished_N[0] == 110
    assert outcome.scheduled_N.tolist() == [0, 0, scheduled]


@BOTH
def test_an_engine_with_nothing_left_to_run_is_not_ahead(control: Control) -> None:
    # one slot. At 100 nothing but A's last token at 110 is known: B begins then, C when it comes
    requests = requests_of([(0, 4, 2), (0, 4, 2), (1000, 4, 2)])
    outcome = run(requests, FLAT, AHEAD._replace(max_num_seqs=1), control=control)
    assert outcome.scheduled_N.tolist() == [0, 110, 1000]
    assert outcome.finished_N.tolist() == [110, 220, 1110]
    assert outcome.steps == 6


@pytest.mark.parametrize(("ahead", "preempted"), [(False, 0), (True, 1)])
@BOTH
def test_a_request_ending_in_the_running_step_may_lose_its_blocks(
    control: Control, *, ahead: bool, preempted: int
) -> None:
    # 4 blocks of 4. A: prompt 7, 5 out; B: prompt 7, 2 out; two blocks each.
    #   0-100  both prompts
    # 100-110  both fill their second block; B has its last token
    # 110-120  A needs a third block. Decided at 100, when B still holds its two: B is preempted.
    #          Decided at 110, they are free.
    requests = requests_of([(0, 7, 5), (0, 7, 2)])
    limits = AHEAD._replace(kv_blocks=4, async_scheduling=ahead)
    outcome = run(requests, FLAT, limits, control=control)
    assert outcome.finished_N.tolist() == [140, 110]
    assert outcome.preempted_N.tolist() == [0, preempted]
    assert outcome.preemptions == preempted
    assert outcome.steps == 5


@BOTH
def test_a_preempted_request_keeps_the_token_of_the_running_step(control: Control) -> None:
    # 6 blocks of 4; A, B, C: prompt 4, 9 out.
    #   0-100  prompts, a block each; their second ones for the next step
    # 100-140  4 decodes
    # 140      all need a third block. Decided at 130: C goes, its fifth token comes at 140
    # 140-180  A and B end
    # 180-280  C: 4 + 5 tokens, its sixth token
    # 280-310  3 decodes
    requests = requests_of([(0, 4, 9), (0, 4, 9), (0, 4, 9)])
    outcome = run(requests, FLAT, AHEAD._replace(kv_blocks=6), control=control)
    assert outcome.preempted_N.tolist() == [0, 0, 1]
    assert outcome.finished_N.tolist() == [180, 180, 310]
    assert outcome.steps == 13
