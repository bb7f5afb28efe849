from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.config import SchedulerLimits
from perfatlas.serving.outcome import summarize
from perfatlas.serving.requests import (
    TICKS_PER_SECOND,
    Turns,
    plain_requests,
    session_pool,
    sessions,
)
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import (
    flat_prices,
    in_sessions,
    requests_of,
    with_prompts,
)
from tests.serving.support import check_invariants, hashes_of, hit_share

LIMITS = SchedulerLimits(4, 64, 1, 200)
turn = st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(0, 9))
talks = st.lists(
    st.tuples(st.integers(0, 20), st.lists(turn, min_size=1, max_size=5)), min_size=1, max_size=5
)


def test_prompts_grow_by_previous_turns() -> None:
    second = TICKS_PER_SECOND
    turns = Turns(
        asked_N=np.array([10, 5, 8, 20]),
        osl_N=np.array([30, 7, 4, 1]),
        pause_N=second * np.array([0, 2, 3, 0]),
    )
    talk = sessions(
        second * np.array([1, 4]), np.array([3, 1]), turns, hash_block=16, shared_prefix=32
    )
    # session 0: 32 + 10, then + 30 + 5, then + 7 + 8; session 1 begins between its turns
    assert talk.isl_N.tolist() == [42, 77, 52, 92]
    assert talk.session_N.tolist() == [0, 0, 1, 0]
    assert (talk.arrival_N // second).tolist() == [1, 3, 4, 6]
    assert (talk.pause_N / second).tolist() == [-1 / second, 2, -1 / second, 3]
    check_invariants(talk)
    first, again, other = (hashes_of(talk, row).tolist() for row in (0, 1, 2))
    # 42 tokens fill 2 blocks of 16, both of the shared prefix, and start a third
    assert first[:2] == again[:2] == other[:2]
    assert len({first[2], again[2], other[2]}) == 3


@given(talks, st.integers(1, 32), st.integers(0, 70))
def test_prefixes_are_shared_as_far_as_prompts_agree(
    drawn: list[tuple[int, list[tuple[int, int, int]]]], block: int, shared: int
) -> None:
    columns = [np.array(column) for column in zip(*(t for _, d in drawn for t in d), strict=True)]
    starts = np.array([start for start, _ in drawn])
    turns_S = np.array([len(turns) for _, turns in drawn])
    talk = sessions(starts, turns_S, Turns(*columns), hash_block=block, shared_prefix=shared)
    check_invariants(talk)
    for a in range(talk.isl_N.shape[0]):
        for b in range(a):
            same = talk.session_N[a] == talk.session_N[b]
            # turns of a session agree on the shorter prompt, others on the shared prefix
            agree = int(min(talk.isl_N[a], talk.isl_N[b])) if same else shared
            one, two = hashes_of(talk, a).tolist(), hashes_of(talk, b).tolist()
            common = 0
            while common < min(len(one), len(two)) and one[common] == two[common]:
                common += 1
            assert common == agree // block
            assert not set(one[common:]) & set(two[common:])


def test_an_endless_cache_recomputes_only_what_is_new() -> None:
    # blocks of one token: every prompt finds all of the prompt before it
    column = np.array([4, 6, 5])
    turns = Turns(asked_N=column, osl_N=column, pause_N=0 * column)
    talk = sessions(np.array([0]), np.array([3]), turns, hash_block=1)
    # prompts of 4, 14 and 25 tokens find 0, 4 and 14
    assert hit_share(talk) == pytest.approx(18 / 43)


def test_the_prompts_of_a_session_share_their_hashes() -> None:
    # 100,000 sessions of 10 turns that grow to 3,190 tokens: only the longest prompt has hashes
    starts, turns_S = np.zeros(100_000, np.int64), np.full(100_000, 10)
    asked = np.full(1_000_000, 300)
    turns = Turns(asked_N=asked, osl_N=asked // 15, pause_N=0 * asked)
    talk = sessions(starts, turns_S, turns, hash_block=16)
    assert talk.isl_N.max() == 3180
    assert talk.hash_H.size == 100_000 * (3180 // 16)
    assert np.array_equal(np.unique(talk.hash_first_N), np.arange(100_000) * (3180 // 16))


@pytest.mark.parametrize("concurrency", [0, 1, 2])
def test_a_request_waits_for_all_it_depends_on(concurrency: int) -> None:
    # a call, two sub-agents after it, and the call that joins them; then another session
    requests = requests_of([(0, 4, 1), (0, 4, 3), (0, 4, 9), (0, 4, 1), (0, 4, 1)])
    requests = requests._replace(
        session_N=np.array([0, 0, 0, 0, 1]),
        pause_N=np.array([-1, 5, 7, 20, -1]),
        after_first_N=np.array([0, 0, 1, 2, 5, 5]),
        after_E=np.array([0, 0, 0, 1, 2]),
    )
    outcome = run(requests, flat_prices(10, 100), LIMITS, concurrency=concurrency)
    came, ended = outcome.arrival_N, outcome.finished_N
    assert came[1:3].tolist() == [ended[0] + 5, ended[0] + 7]
    assert came[3] == ended[:3].max() + 20
    assert came[4] == (ended[3] if concurrency == 1 else 0)


@given(st.integers(1, 6), st.sampled_from([(0.0, 0.0), (0.25, 0.75)]))
def test_a_pool_keeps_its_sessions_in_flight(lanes: int, share: tuple[float, float]) -> None:
    turns_S = np.arange(12) % 4 + 1
    column = np.full(int(turns_S.sum()), 6)
    talk = sessions(np.arange(12), turns_S, Turns(column, column, column), hash_block=4)
    pool = session_pool(talk, lanes, share, seed=1)
    check_invariants(pool)
    outcome = run(pool, flat_prices(10, 100), LIMITS, concurrency=lanes)
    begin_S, end_S = np.full(12, 2**62), np.zeros(12, np.int64)
    np.minimum.at(begin_S, pool.session_N, outcome.arrival_N)
    np.maximum.at(end_S, pool.session_N, outcome.finished_N)
    live = [((begin_S <= time) & (end_S > time)).sum() for time in np.unique(begin_S)[:-1]]
    assert live == [lanes] * len(live)
    # Little's law over sessions: sessions in flight x time = sum of session times
    times = np.append(begin_S, end_S)
    steps = np.append(np.ones(12, np.int64), -np.ones(12, np.int64))[
        np.argsort(times, kind="stable")
    ]
    spans = np.diff(np.sort(times, kind="stable"))
    assert (np.cumsum(steps)[:-1] * spans).sum() == (end_S - begin_S).sum()


@pytest.mark.parametrize("rules", ["vllm", "sglang", "trtllm_guaranteed_no_evict"])
def test_the_next_turn_finds_the_answer_before_it(rules: str) -> None:
    # blocks of one token; the last token of an answer is given and never computed
    column = np.array([4, 6, 5])
    turns = Turns(asked_N=column, osl_N=column, pause_N=0 * column)
    talk = sessions(np.array([0]), np.array([3]), turns, hash_block=1)
    limits = SchedulerLimits(4, 64, 1, 200, prefix_caching=True, rules=rules)
    outcome = run(talk, flat_prices(10, 100), limits)
    # prompts of 4, 14 and 25 tokens
    assert outcome.cached_N.tolist() == [0, 4 + 4 - 1, 14 + 6 - 1]


def test_an_answer_the_next_prompt_does_not_hold_is_not_found() -> None:
    hashes = [[1, 2, 3], [1, 2, 3, 9, 9]]  # prompts of 3 and 5 tokens, an answer of 4
    talk = with_prompts(
        in_sessions(requests_of([(0, 3, 4), (0, 5, 4)]), [0, 0], [-1, 0]), hashes, 1
    )
    limits = SchedulerLimits(4, 64, 1, 200, prefix_caching=True)
    assert run(talk, flat_prices(10, 100), limits).cached_N.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"starts": [0, 1]}, "2 starts and 1 numbers of turns"),
        ({"counts": [0]}, "at least 1 turn"),
        ({"starts": [-1]}, "start at 0"),
        ({"asked": [5, 0]}, "asked_N contains 0"),
        ({"asked": [5]}, "asked_N has 1 rows for 2 turns"),
        ({"think": [0, -2]}, "pause_N contains -2"),
        ({"think": [0, 2**62 + 2**59]}, "pause_N contains"),
        ({"think": [0, 2**62], "starts": [2**62]}, "last turn arrives"),
        ({"asked": [5, 10**9]}, "session 0 reaches a prompt"),
        ({"block": 0}, "hash_block = 0"),
    ],
)
def test_turns_that_do_not_fit_are_refused(change: dict[str, object], words: str) -> None:
    given_columns: dict[str, object] = {
        "starts": [0],
        "counts": [2],
        "asked": [5, 5],
        "think": [0, 0],
        "block": 16,
    } | change
    starts, counts, asked, think = (
        np.array(given_columns[name]) for name in ("starts", "counts", "asked", "think")
    )
    turns = Turns(asked_N=asked, osl_N=np.array([3, 3]), pause_N=think)
    block = given_columns["block"]
    assert isinstance(block, int)
    with pytest.raises(InvalidSpecError, match=words):
        sessions(starts, counts, turns, hash_block=block)


def test_session_times_contain_latencies_and_pauses() -> None:
    second = TICKS_PER_SECOND
    turns = Turns(
        asked_N=np.array([10, 5, 8, 20, 6, 7]),
        osl_N=np.array([30, 7, 4, 1, 9, 3]),
        pause_N=second * np.array([0, 2, 3, 0, 1, 2]),
    )
    talk = sessions(second * np.array([1, 4]), np.array([3, 3]), turns, hash_block=16)
    outcome = run(talk, flat_prices(TICKS_PER_SECOND // 100, TICKS_PER_SECOND // 50), LIMITS)
    found = summarize(talk, outcome, {})
    spent_s, tokens = [], []
    for session in (0, 1):
        own_N = talk.session_N == session
        latency = (outcome.finished_N - outcome.arrival_N)[own_N].sum()
        spent_s.append((latency + talk.pause_N[own_N & (talk.pause_N > 0)].sum()) / second)
        tokens.append(talk.osl_N[own_N].sum())
    assert found["session_time_s"]["mean"] == pytest.approx(np.mean(spent_s))  # turns are a chain
    rates = np.array(tokens) / spent_s
    assert found["session_tokens_per_s"]["mean"] == pytest.approx(rates.mean())
    assert 3 * found["sessions_completed"] == found["requests_completed"] == 6
    last = np.flatnonzero(talk.session_N == 1)[-1]
    finished_N = outcome.finished_N.copy()
    finished_N[last] = -1
    unfinished = summarize(talk, outcome._replace(finished_N=finished_N), {})
    assert unfinished["sessions_completed"] == 1
    assert unfinished["session_time_s"]["mean"] == pytest.approx(spent_s[0])


def test_requests_without_sessions_have_no_session_metrics() -> None:
    one = np.ones(2, np.int64)
    plain = plain_requests(0 * one, 10 * one, 5 * one)
    found = summarize(
        plain, run(plain, flat_prices(TICKS_PER_SECOND // 100, TICKS_PER_SECOND // 50), LIMITS), {}
    )
    assert not any("session" in name for name in found)
