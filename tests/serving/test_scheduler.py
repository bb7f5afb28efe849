"""One scenario per rule of the scheduler, computed by hand.

A step that only decodes takes 10 ps; one with prompts takes 100 ps and, where said, 1 ps per token.
"""

from __future__ import annotations

import pytest

from perfatlas.serving.config import Control, SchedulerLimits
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import flat_prices, requests_of

FLAT = flat_prices(10, 100)
RISING = flat_prices(10, 100, per_token=1)
BOTH = pytest.mark.parametrize("control", [Control(), Control(coalesce=False)])


@BOTH
def test_decoding_and_prompts_share_one_budget(control: Control) -> None:
    # 8 tokens a step. A: prompt 4, 5 out. B: prompt 20, 2 out, arrives at 1.
    #   0-104  A 4                     A 1 out
    # 104-212  A 1, B 7                A 2
    # 212-320  A 1, B 7                A 3
    # 320-427  A 1, B 6 (of 7 left)    A 4, B 1
    # 427-437  A 1, B 1                A 5, B 2
    requests = requests_of([(0, 4, 5), (1, 20, 2)])
    outcome = run(requests, RISING, SchedulerLimits(4, 8, 16, 100), control=control)
    assert outcome.scheduled_N.tolist() == [0, 104]
    assert outcome.first_token_N.tolist() == [104, 427]
    assert outcome.finished_N.tolist() == [437, 437]
    assert outcome.steps == 5


@BOTH
def test_a_long_prompt_runs_in_chunks(control: Control) -> None:
    # 20 tokens as 8 + 8 + 4: 108 + 108 + 104
    requests = requests_of([(0, 20, 1)])
    outcome = run(requests, RISING, SchedulerLimits(4, 8, 16, 100), control=control)
    assert outcome.first_token_N.tolist() == [320]
    assert outcome.steps == 3


@BOTH
def test_short_prompts_fill_the_step_of_a_long_ones_end(control: Control) -> None:
    #   0-108  A 8
    # 108-216  A 4, B 3, C 1
    # 216-322  A 1, B 1, C 4
    requests = requests_of([(0, 12, 2), (0, 3, 2), (0, 5, 1)])
    outcome = run(requests, RISING, SchedulerLimits(4, 8, 16, 100), control=control)
    assert outcome.scheduled_N.tolist() == [0, 108, 108]
    assert outcome.first_token_N.tolist() == [216, 216, 322]
    assert outcome.finished_N.tolist() == [322, 322, 322]


@BOTH
def test_a_head_that_does_not_fit_stops_those_behind_it(control: Control) -> None:
    # 4 blocks of 4. A holds 2, then 3. B needs 3 and waits; C needs 1, is free to it, and waits.
    #   0-100  A; then 4 decodes to 140, then B and C together
    requests = requests_of([(0, 8, 5), (0, 12, 1), (0, 4, 1)])
    outcome = run(requests, FLAT, SchedulerLimits(4, 64, 4, 4), control=control)
    assert outcome.scheduled_N.tolist() == [0, 140, 140]
    assert outcome.finished_N.tolist() == [140, 240, 240]
    assert outcome.preemptions == 0


@BOTH
def test_the_last_admitted_is_preempted_and_returns_before_later_arrivals(control: Control) -> None:
    # 6 blocks of 4; A, B, C: prompt 4, 9 out, at most 3 blocks each. D: prompt 4, 1 out, at 105.
    #   0-100  A, B, C: 1 block each
    # 100-140  4 decodes; all blocks taken at the first, so that D waits
    # 140      all need a block: C goes (5 tokens out), A and B take its two
    # 140-180  4 decodes end A and B
    # 180-280  C: 4 + 5 tokens in 3 blocks, and D
    # 280-310  3 decodes of C
    requests = requests_of([(0, 4, 9), (0, 4, 9), (0, 4, 9), (105, 4, 1)])
    outcome = run(requests, FLAT, SchedulerLimits(4, 64, 4, 6), control=control)
    assert outcome.preempted_N.tolist() == [0, 0, 1, 0]
    assert outcome.first_token_N.tolist() == [100, 100, 100, 280]
    assert outcome.finished_N.tolist() == [180, 180, 310, 280]
    assert outcome.scheduled_N.tolist() == [0, 0, 0, 180]
    assert outcome.steps == 13
    assert outcome.preemptions == 1


@BOTH
def test_a_step_with_preemption_admits_no_request_and_the_victim_restarts(control: Control) -> None:
    # 4 blocks of 4, 6 tokens a step, chunks alone must fit. A: prompt 4, 13 out. B: 8, 5 out.
    #   0-106  A 4, B 2     blocks A 1, B 1
    # 106-212  A 1, B 5     A 2, B 2: none free
    # 212-314  A 1, B 1     B has 8 tokens in 2 blocks and 1 out
    # 314-324  A 1          B needs a block and is itself the last: out. 5 tokens of it would fit
    #                       into the 2 blocks it leaves, but not in this step.
    # 324-430  A 1, B 5     of 8 + 1
    # 430-440  A 1          A needs a block: B goes again
    # 440-510  A 1          7 steps to its 13th token; 2 blocks for B's 5 tokens are not free
    # 510-616  B 6
    # 616-719  B 3          its second token
    # 719-749  B 1          3 decodes
    requests = requests_of([(0, 4, 13), (0, 8, 5)])
    limits = SchedulerLimits(2, 6, 4, 4, reserve_full_isl=False)
    outcome = run(requests, RISING, limits, control=control)
    assert outcome.first_token_N.tolist() == [106, 314]
    assert outcome.finished_N.tolist() == [510, 749]
    assert outcome.preempted_N.tolist() == [0, 2]
    assert outcome.scheduled_N.tolist() == [0, 0]
    assert outcome.steps == 18


@pytest.mark.parametrize(("reserve", "scheduled"), [(True, 114), (False, 0)])
@BOTH
def test_the_whole_prompt_has_to_fit_where_asked(
    control: Control, *, reserve: bool, scheduled: int
) -> None:
    # 4 blocks of 4. A: prompt 4, 2 out, ends at 104 + 10. B's 16 tokens need 4 blocks, its first
    # chunk of 2 only 1.
    requests = requests_of([(0, 4, 2), (0, 16, 1)])
    limits = SchedulerLimits(2, 6, 4, 4, reserve_full_isl=reserve)
    outcome = run(requests, RISING, limits, control=control)
    assert outcome.scheduled_N[1] == scheduled


def test_requests_that_never_fit_or_have_no_tokens_are_rejected() -> None:
    # 4 blocks of 4: 10 + 7 - 1 tokens fill them; the last token is never stored
    requests = requests_of([(0, 10, 7), (0, 10, 8), (0, 10, 0), (0, 0, 3), (5, 17, 1)])
    outcome = run(requests, FLAT, SchedulerLimits(2, 64, 4, 4))
    assert outcome.replica_N.tolist() == [0, -1, -1, -1, -1]
    assert (outcome.finished_N >= 0).tolist() == [True, False, False, False, False]
    assert outcome.arrival_N.tolist() == [0, 0, 0, 0, 5]


@BOTH
def test_no_more_sequences_run_than_allowed(control: Control) -> None:
    # one at a time: 100 + 10 each
    requests = requests_of([(0, 4, 2), (0, 4, 2), (0, 4, 2)])
    outcome = run(requests, FLAT, SchedulerLimits(1, 64, 4, 40), control=control)
    assert outcome.finished_N.tolist() == [110, 220, 330]


@BOTH
def test_an_arrival_joins_the_step_that_begins_at_its_instant(control: Control) -> None:
    # A decodes at 100, 110, 120, ...: B at 120 is in the step of 120, C at 221 in that of 230
    requests = requests_of([(0, 4, 90), (120, 4, 1), (221, 4, 1)])
    outcome = run(requests, FLAT, SchedulerLimits(4, 64, 4, 100), control=control)
    assert outcome.scheduled_N.tolist() == [0, 120, 230]
    assert outcome.finished_N[1:].tolist() == [220, 330]
