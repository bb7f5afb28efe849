"""Speculative decoding, computed by hand and compared with expected values.

A step that only decodes takes 10 ps, one with prompts 100 ps.
"""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.serving.config import Control, SchedulerLimits
from perfatlas.serving.outcome import request_latencies, summarize
from perfatlas.serving.policies import find_policy
from perfatlas.serving.requests import TICKS_PER_SECOND, plain_requests
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import flat_prices, requests_of

ROOMY = SchedulerLimits(4, 64, 4, 100)
BOTH = pytest.mark.parametrize("control", [Control(), Control(coalesce=False)])
AHEAD = pytest.mark.parametrize("ahead", [False, True])


@pytest.mark.parametrize(
    ("acceptance", "finished"),
    [
        # 100, then 8 tokens by ones
        ((0.0, 0.0), 180),
        # the second draft follows a rejected one
        ((0.0, 1.0), 180),
        # by twos
        ((1.0, 0.0), 140),
        # by threes: 3 + 3 + 2
        ((1.0, 1.0), 130),
    ],
)
@BOTH
@AHEAD
def test_a_step_gives_one_token_more_than_it_accepts(
    control: Control, *, ahead: bool, acceptance: tuple[float, ...], finished: int
) -> None:
    limits = ROOMY._replace(draft_tokens=2, acceptance=acceptance, async_scheduling=ahead)
    prices = flat_prices(10, 100)._replace(tokens_per_decode=3)
    outcome = run(requests_of([(0, 4, 9)]), prices, limits, control=control)
    assert outcome.finished_N.tolist() == [finished]
    assert outcome.steps == 1 + (finished - 100) // 10
    assert outcome.gaps_G.sum() == 8


def test_gaps_between_tokens_are_those_of_steps() -> None:
    # 8 tokens after the first, by threes: steps of 3, 3 and 2 tokens, 10 ms each
    limits = ROOMY._replace(draft_tokens=2, acceptance=(1.0, 1.0))
    ms = TICKS_PER_SECOND // 1000
    prices = flat_prices(10 * ms, 100 * ms)._replace(tokens_per_decode=3)
    requests = requests_of([(0, 4, 9)])
    outcome = run(requests, prices, limits)
    assert outcome.gaps_G[0] == 5
    found = summarize(requests, outcome, {})
    assert found["itl_s"]["mean"] == pytest.approx(0.01)
    assert found["itl_s"]["p50"] == pytest.approx(0.01, rel=0.04)
    assert found["tpot_s"]["mean"] == pytest.approx(0.03 / 8)
    for limit_s, attained in ((0.0101, 1.0), (0.0099, 0.0)):
        assert summarize(requests, outcome, {"itl_s": limit_s})["slo_attainment"] == attained


def test_a_request_with_one_more_token_has_one_gap() -> None:
    # 8 tokens in 3 steps and 1 token in 1 step: 4 gaps of 9 tokens; 9/4 tokens a gap on average
    limits = ROOMY._replace(draft_tokens=2, acceptance=(1.0, 1.0))
    ms = TICKS_PER_SECOND // 1000
    prices = flat_prices(10 * ms, 100 * ms)._replace(tokens_per_decode=3)
    requests = requests_of([(0, 4, 9), (0, 4, 2)])
    found = request_latencies(requests, run(requests, prices, limits))
    assert found.itl_s.tolist() == pytest.approx([0.03 / 8 * 9 / 4, 0.01])


@BOTH
def test_drafts_take_budget_rows_and_keys(control: Control) -> None:
    # 8 tokens a step. A decodes with 2 drafts, 3 tokens, all rejected; B's prompt of 8 gets 5, then
    # 3. A row of the head takes 1000 ps, a key 1 ps.
    #   0     A 4: 100 + 1000
    #   1100  A 3, B 5: 100 + 3 rows + keys 4 + 3
    #   4207  A 3, B 3: 100 + 4 rows + keys 5 + 3
    #   8315  A 3: 10 + 3 rows + 6 + 3
    prices = flat_prices(10, 100)._replace(
        tokens_per_decode=3, head_B=1000 * np.arange(65), decode_slope_BK=np.ones((65, 1), np.int64)
    )
    limits = SchedulerLimits(2, 8, 4, 100, draft_tokens=2, acceptance=(0.0, 0.0))
    outcome = run(requests_of([(0, 4, 4), (1, 8, 1)]), prices, limits, control=control)
    assert outcome.first_token_N.tolist() == [1100, 8315]
    assert outcome.finished_N.tolist() == [11334, 8315]


@BOTH
def test_drafts_need_places_in_the_cache(control: Control) -> None:
    # 5 blocks of 4; 3 drafts. A decode step at 4 tokens needs places for 4 + 1 + 3 + 3: 3 blocks.
    # A and B: a block each for their prompts; A takes 2 more, B finds 1: it is preempted at 100
    # and starts over, 4 + 1 tokens, when A has ended at 110.
    limits = ROOMY._replace(kv_blocks=5, draft_tokens=3, acceptance=(1.0, 1.0, 1.0))
    prices = flat_prices(10, 100)._replace(tokens_per_decode=4)
    outcome = run(requests_of([(0, 4, 5), (0, 4, 5)]), prices, limits, control=control)
    assert outcome.preempted_N.tolist() == [0, 1]
    assert outcome.finished_N.tolist() == [110, 220]


def test_steps_are_as_many_as_their_probabilities_make() -> None:
    # tokens of a step: 1 + 0.8 + 0.8 x 0.5 = 2.2; sd 0.87 a step, of 40,000 steps 0.004
    count = 100
    requests = plain_requests(np.zeros(count, np.int64), np.full(count, 4), np.full(count, 881))
    limits = SchedulerLimits(1, 64, 16, 1000, draft_tokens=2, acceptance=(0.8, 0.5))
    outcome = run(requests, flat_prices(10, 100)._replace(tokens_per_decode=3), limits)
    assert 880 * count / (outcome.steps - count) == pytest.approx(2.2, abs=0.02)


def test_what_is_accepted_is_seeded() -> None:
    requests = requests_of([(0, 4, 300)])
    prices = flat_prices(10, 100)._replace(tokens_per_decode=2)
    limits = ROOMY._replace(draft_tokens=1, acceptance=(0.5,))
    steps = [run(requests, prices, limits._replace(draft_seed=seed)).steps for seed in (1, 1, 2)]
    assert steps[0] == steps[1] != steps[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"acceptance": (0.5,)}, r"0 draft_tokens need one"),
        ({"draft_tokens": 1, "acceptance": (1.5,)}, r"acceptance is '\(1.5,\)'"),
        ({"draft_tokens": 1, "acceptance": (0.5,)}, r"prices are for 1 tokens.*requires 2"),
        ({"draft_tokens": 31, "acceptance": (0.5,) * 31}, r"max_num_seqs 4 exceeds.*/ 32 tok"),
        ({"draft_tokens": -1}, r"draft_tokens is -1"),
    ],
)
def test_contradicting_drafts_are_refused(changes: dict[str, object], message: str) -> None:
    limits = ROOMY._replace(**changes)  # type: ignore[arg-type]
    with pytest.raises(InvalidSpecError, match=message):
        run(requests_of([(0, 4, 4)]), flat_prices(10, 100), limits)


def test_sglang_does_not_mix_drafts_into_prompts() -> None:
    limits = ROOMY._replace(draft_tokens=1, acceptance=(0.5,), rules="sglang", mixed_chunk=True)
    with pytest.raises(UnsupportedError, match=r"SGLang does not mix .*draft_tokens 1"):
        run(requests_of([(0, 4, 4)]), flat_prices(10, 100)._replace(tokens_per_decode=2), limits)


@pytest.mark.parametrize(
    ("rules", "ahead", "slots"),
    [("vllm", True, 7), ("sglang", False, 4), ("sglang", True, 8), ("static", True, 4)],
)
def test_engines_reserve_slots_for_drafts(rules: str, slots: int, *, ahead: bool) -> None:
    assert find_policy(rules).decode_slots(3, ahead) == slots
    assert find_policy(rules).decode_slots(0, ahead) == 1
