"""Prefix caching, computed by hand: blocks of 4 tokens, one prompt at a time.

A decode-only step takes 10 ps, others 100 ps + 1 ps per token: cached tokens are not computed.
"""

from __future__ import annotations

import pytest

from perfatlas.serving.config import Control, SchedulerLimits
from perfatlas.serving.requests import Requests
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import flat_prices, requests_of, with_prompts

PRICES = flat_prices(10, 100, per_token=1)
BOTH = pytest.mark.parametrize("control", [Control(), Control(coalesce=False)])


def _requests(
    rows: list[tuple[int, int, int]], hashes: list[list[int]], hash_block: int = 4
) -> Requests:
    return with_prompts(requests_of(rows), hashes, hash_block)


def _limits(kv_blocks: int, *, shared: bool = True) -> SchedulerLimits:
    return SchedulerLimits(4, 64, 4, kv_blocks, prefix_caching=shared)


@BOTH
def test_leading_full_blocks_are_shared(control: Control) -> None:
    # B agrees with A in two blocks of three, then differs: 13 - 8 = 5 tokens run; its partial block
    # of one token is never shared
    requests = _requests([(0, 13, 1), (1000, 13, 1)], [[1, 2, 3, 4], [1, 2, 8, 9]])
    outcome = run(requests, PRICES, _limits(20), control=control)
    assert outcome.cached_N.tolist() == [0, 8]
    assert outcome.finished_N.tolist() == [113, 1105]
    apart = run(requests, PRICES, _limits(20, shared=False), control=control)
    assert apart.cached_N.tolist() == [0, 0]


def test_a_prompt_cached_to_its_end_runs_its_last_block() -> None:
    # 12 tokens, all cached; the hit is at most 11 tokens, so two full blocks: 4 tokens run
    requests = _requests([(0, 12, 1), (1000, 12, 1)], [[1, 2, 3], [1, 2, 3]])
    outcome = run(requests, PRICES, _limits(20))
    assert outcome.cached_N.tolist() == [0, 8]
    assert outcome.finished_N.tolist() == [112, 1104]


def test_blocks_are_shared_as_soon_as_they_are_scheduled() -> None:
    # both in the step of 0: B finds the blocks that A has just been given; 8 + 1 tokens and 1 run
    requests = _requests([(0, 9, 1), (0, 9, 1)], [[1, 2, 3], [1, 2, 3]])
    outcome = run(requests, PRICES, _limits(20))
    assert outcome.cached_N.tolist() == [0, 8]
    assert outcome.finished_N.tolist() == [110, 110]


def test_shared_blocks_are_held_once() -> None:
    # 5 blocks: A holds 3 and decodes until 113 + 30. B's 13 tokens need 4, of which 2 are A's: it
    # fits beside A. Without sharing it waits.
    rows, hashes = [(0, 9, 4), (105, 13, 1)], [[1, 2, 3], [1, 2, 8, 9]]
    together = run(_requests(rows, hashes), PRICES, _limits(5))
    apart = run(_requests(rows, hashes), PRICES, _limits(5, shared=False))
    assert together.scheduled_N.tolist() == [0, 109]
    assert apart.scheduled_N.tolist() == [0, 139]


def test_the_blocks_unused_longest_are_evicted_last_ones_of_a_prompt_first() -> None:
    # 4 blocks. A's two are free again from 108 on, behind the two never used: 2 3 | A2 A1 (a
    # prompt's last block is given back first). B (2 blocks) takes 2 and 3, C (1 block) then A2.
    # D is A again: it finds A1, not A2.
    rows = [(0, 8, 1), (1000, 8, 1), (2000, 4, 1), (3000, 9, 1)]
    hashes = [[1, 2], [11, 12], [21], [1, 2, 3]]
    outcome = run(_requests(rows, hashes), PRICES, _limits(4))
    assert outcome.cached_N.tolist() == [0, 0, 0, 4]


def test_a_hit_renews_a_block() -> None:
    # as above, but A's first block is asked for again before C comes: E's 5 tokens hold A1 and one
    # more, and give both back at the end of the queue
    rows = [(0, 4, 1), (1000, 5, 1), (2000, 8, 1), (3000, 5, 1)]
    hashes = [[1], [1, 2], [11, 12], [1, 3]]
    # 4 blocks 0-3. A: 0. Free 1 2 3 0. E: 0 (hit), 1. Free 2 3 1 0. B: 2, 3. Free 1 0 3 2: A1 is
    # there still for the last.
    outcome = run(_requests(rows, hashes), PRICES, _limits(4))
    assert outcome.cached_N.tolist() == [0, 4, 0, 4]


@pytest.mark.parametrize("hash_block", [2, 4, 8, 16])
def test_blocks_of_the_traffic_may_be_of_any_size(hash_block: int) -> None:
    # 17 equal tokens in blocks of the traffic of any size: 16 are shared
    hashes = [list(range(-(-17 // hash_block)))] * 2
    requests = _requests([(0, 17, 1), (1000, 17, 1)], hashes, hash_block)
    outcome = run(requests, PRICES, _limits(20))
    assert outcome.cached_N.tolist() == [0, 16]


def test_a_victim_finds_what_is_left_of_its_blocks() -> None:
    # A: 4 tokens, 9 out; B: 4 tokens, 6 out. 5 blocks.
    #   0-108  A, B: 1 block each;  108-148  2 each, both with 5 out
    # 148      both need a block and one is free: B leaves two behind it, A takes the free one
    # 188      A ends. B needs its 4 + 5 tokens: 8 of them, 4 of its own output, are still there
    # 188-289  1 token
    requests = _requests([(0, 4, 9), (0, 4, 6)], [[1], [2]])
    outcome = run(requests, PRICES, _limits(5))
    assert outcome.preempted_N.tolist() == [0, 1]
    assert outcome.finished_N.tolist() == [188, 289]
    assert outcome.cached_N.tolist() == [0, 0]  # of the prompt, when it first ran


def test_a_victim_whose_blocks_were_taken_computes_all_again() -> None:
    # 4 blocks; A: 13 out. At 148 A takes the second of the two that B leaves, at 188 the first.
    # 228      A ends. B's 9 tokens take 109 ps.
    requests = _requests([(0, 4, 13), (0, 4, 6)], [[1], [2]])
    outcome = run(requests, PRICES, _limits(4))
    assert outcome.preempted_N.tolist() == [0, 1]
    assert outcome.finished_N.tolist() == [228, 337]


@pytest.mark.parametrize(
    ("rules", "found"),
    # A, then B: 5 of the 6 blocks, free again as 5 | A2 A1 | - B2 B1, where - was never full. C
    # takes two. vLLM puts - first, and takes it and 5; the others take 5 and A2.
    [("vllm", [0, 0, 0, 8]), ("trtllm_guaranteed_no_evict", [0, 0, 0, 4])],
)
def test_blocks_of_which_nothing_can_be_found_are_taken_first(rules: str, found: list[int]) -> None:
    rows = [(0, 8, 1), (1000, 10, 1), (2000, 7, 1), (3000, 9, 1)]
    hashes = [[1, 2], [11, 12, 13], [21, 22], [1, 2, 3]]
    outcome = run(_requests(rows, hashes), PRICES, _limits(6)._replace(rules=rules))
    assert outcome.cached_N.tolist() == found


def test_full_blocks_of_outputs_are_taken_after_older_ones() -> None:
    # 4 blocks. X: 0, free 1 2 3 X. A's 4 + 4 tokens in the cache fill two, 1 and 2, the second with
    # output: free 3 X A2 A1. B takes 3 and X, so that D, which asks for X, finds nothing.
    rows = [(0, 4, 1), (1000, 4, 5), (2000, 7, 1), (3000, 5, 1)]
    hashes = [[1], [11], [21, 22], [1, 2]]
    outcome = run(_requests(rows, hashes), PRICES, _limits(4))
    assert outcome.cached_N.tolist() == [0, 0, 0, 0]
